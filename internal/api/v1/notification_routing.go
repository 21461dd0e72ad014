package v1

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// NotificationHold is a reason why nobody is notified of a problem now, such as a silence.
type NotificationHold struct {
	Kind          string    `json:"kind" enum:"silenced,maintenance,muted,acknowledged,unreachable,dependent"`
	By            string    `json:"by,omitempty" doc:"NAMESPACE/NAME of the silence, window or route; NAMESPACE/NODE/CHECK of the failing dependency."`
	During        string    `json:"during,omitempty" doc:"For a mute: its times."`
	Reason        string    `json:"reason,omitempty"`
	Creator       string    `json:"creator,omitempty"`
	Until         time.Time `json:"until,omitzero" doc:"End; absent: unknown."`
	Drop          bool      `json:"drop,omitempty" doc:"The message is dropped, not delayed."`
	UntilResolved bool      `json:"untilResolved,omitempty" doc:"Ends with the first problem that it silences."`
}

// SilenceRequest is a request to create a silence.
type SilenceRequest struct {
	Namespace   string          `json:"namespace" maxLength:"253"`
	Name        string          `json:"name,omitempty" maxLength:"253" doc:"Default: a name from the selection and the time."`
	Spec        json.RawMessage `json:"spec" doc:"Spec of a resource of kind Silence."`
	MaxAffected int             `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse a silence that covers more nodes; 0: a fifth of all, at least 50."`
	DryRun      bool            `json:"dryRun,omitempty"`
	Yes         bool            `json:"yes,omitempty" doc:"Confirm the silence for any number of nodes."`
}

// Silenced is the answer to a request that creates or ends a silence. It has the numbers of matching nodes and
// open problems.
type Silenced struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Nodes     int       `json:"nodes" doc:"Number of nodes that it covers."`
	First     []string  `json:"first,omitempty" doc:"At most ten of these nodes; those of another namespace as NAMESPACE/NAME."`
	Holds     int       `json:"holds" doc:"Number of open problems that it holds now."`
	Until     time.Time `json:"until,omitzero"`
	DryRun    bool      `json:"dryRun,omitempty"`
}

// RouteTest is the answer of muster route test, the predicted notifications of an assumed problem. It has the
// routes and handlers that an assumed problem would notify.
type RouteTest struct {
	Namespace    string           `json:"namespace"`
	Node         string           `json:"node"`
	Check        string           `json:"check"`
	Source       Source           `json:"source"`
	At           time.Time        `json:"at" doc:"Assumed time of opening."`
	Status       model.Status     `json:"status"`
	StatusName   string           `json:"statusName"`
	SeverityName string           `json:"severityName"`
	Reason       string           `json:"reason" doc:"Reason for these routes."`
	Dependencies []string         `json:"dependencies,omitempty" doc:"Checks, NAMESPACE/NODE/CHECK, that hold the problem while they fail."`
	Routes       []RouteTestRoute `json:"routes"`
}

// RouteTestRoute is one route in the answer of a route test, with its predicted steps.
type RouteTestRoute struct {
	Route     string          `json:"route,omitempty" doc:"NAMESPACE/NAME; absent: handlers without a route."`
	GroupBy   string          `json:"groupBy,omitempty" doc:"Properties that put problems into one message."`
	GroupWait model.Duration  `json:"groupWait"`
	Rate      string          `json:"rate,omitempty" doc:"Largest rate of messages about new problems; one later message has the excess."`
	Steps     []RouteTestStep `json:"steps"`
}

// RouteTestStep is one predicted step of a route in muster route test, with its time and its handlers.
type RouteTestStep struct {
	Due      time.Time          `json:"due" doc:"Time of the message if nothing holds it."`
	At       time.Time          `json:"at,omitzero" doc:"Time of the message; absent: never, or when somebody ends the hold."`
	Handlers []RouteHandler     `json:"handlers"`
	Repeat   model.Duration     `json:"repeat,omitempty"`
	Holds    []NotificationHold `json:"holds,omitempty" doc:"Holds of the message at its due time, in order."`
}

// RouteHandler is a handler that a step of a route notifies.
type RouteHandler struct {
	Name    string `json:"name" doc:"NAMESPACE/NAME"`
	Missing bool   `json:"missing,omitempty" doc:"The handler does not exist."`
}

// Text describes why a notification waits, such as "silenced by default/disks (ann: new disks)"
func (h *NotificationHold) Text() string {
	text := h.Kind
	switch {
	case h.Kind == "unreachable":
		text = "unreachable behind " + h.By
	case h.Kind == "dependent":
		text = "it depends on " + h.By
	case h.Kind == "opened before its route" && h.By != "":
		text = "it was open before route " + h.By + " took it"
	case h.Kind == "opened before its route":
		text = "it was open before"
	case h.Kind == "over the rate":
		text += " of route " + h.By
	case h.By != "":
		text += " by " + h.By
	}
	if h.During != "" {
		text += " during " + h.During
	}
	why := h.Creator
	if h.Reason != "" {
		why = strings.TrimPrefix(why+": "+h.Reason, ": ")
	}
	if why != "" {
		text += " (" + why + ")"
	}
	switch {
	case h.Drop && h.Kind != "opened before its route":
		text += ", permanently"
	case h.UntilResolved:
		text += ", until the problem closes"
	}
	return text
}

// HandlerTest is a request to send a test notification to one handler.
type HandlerTest struct {
	Node string `json:"node,omitempty" maxLength:"253" doc:"Node whose properties fill the handler's variables, in the same namespace or NAMESPACE/NAME; default: no node."`
}

// HandlerTestResult is the result of a test notification to one handler. Secrets are hidden.
type HandlerTestResult struct {
	Outcome string  `json:"outcome" enum:"taken,retried,final" doc:"taken; retried or final: a real message would be tried again or dropped."`
	Sent    string  `json:"sent,omitempty" doc:"Request or input of the handler."`
	Answer  string  `json:"answer,omitempty" doc:"Answer."`
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds" doc:"Duration."`
}

// HandlerReplay is a request to send dead letters (notifications given up) of a handler again
type HandlerReplay struct {
	IDs     []int64 `json:"ids,omitempty" maxItems:"1000" doc:"Only these messages; default all."`
	Ended   bool    `json:"ended,omitempty" doc:"Also messages about ended problems, with the message of the end."`
	Limit   int     `json:"limit,omitempty" minimum:"0" maximum:"1000" doc:"Largest number, oldest first; default 1000."`
	Message string  `json:"message,omitempty" maxLength:"1000" doc:"Reason, for the record."`
}

// HandlerReplayed is the result of sending dead letters (notifications given up) again
type HandlerReplayed struct {
	Sent          int `json:"sent" doc:"Number of messages that are being sent again."`
	SkippedClosed int `json:"skippedClosed,omitempty" doc:"Number of dead letters skipped because their problem has ended."`
	More          int `json:"more,omitempty" doc:"Number of dead letters beyond the limit."`
}

// HandlerStream is how far a handler that receives every result has read the journal.
type HandlerStream struct {
	BehindSeconds  float64   `json:"behindSeconds" doc:"Age of the oldest journal commit that the handler has not received; zero: up to date."`
	BehindBytes    int64     `json:"behindBytes" doc:"Bytes of journal from that commit on."`
	Connections    int       `json:"connections" doc:"Number of open connections; the first result opens each."`
	Lines          uint64    `json:"lines" doc:"Lines written since the server started, repeated ones included."`
	RewrittenLines uint64    `json:"rewrittenLines,omitempty" doc:"Lines written again after a broken connection."`
	Withheld       uint64    `json:"withheld,omitempty" doc:"Results of shadow namespaces (notifications: shadow), which are not sent."`
	Skipped        uint64    `json:"skipped,omitempty" doc:"Results skipped because the handler was too far behind."`
	SkippedAt      time.Time `json:"skippedAt,omitzero"`
	Trouble        string    `json:"trouble,omitempty" doc:"Reason why sending does not progress."`
	News           string    `json:"news,omitempty" doc:"Reason why the server's start did not continue at the stored position."`
}

// Lag formats how far a handler of every result is behind, such as "3s behind".
func (s *HandlerStream) Lag() string {
	behind := fmt.Sprintf("%s behind", time.Duration(s.BehindSeconds*float64(time.Second)).Round(time.Second))
	switch {
	case s.BehindBytes == 0 && s.Trouble == "":
		return "up to date"
	case s.Trouble != "":
		return "STUCK, " + behind
	}
	return behind
}
