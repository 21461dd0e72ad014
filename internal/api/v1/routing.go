package v1

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// NotificationHold is a reason that keeps people from being notified of a problem now.
type NotificationHold struct {
	Kind          string    `json:"kind" enum:"silenced,maintenance,muted,acknowledged,unreachable,dependent"`
	By            string    `json:"by,omitempty" doc:"NAMESPACE/NAME of the silence, window or route; NAMESPACE/NODE/CHECK of what it hangs on."`
	During        string    `json:"during,omitempty" doc:"Of a mute: when it holds."`
	Reason        string    `json:"reason,omitempty"`
	Creator       string    `json:"creator,omitempty"`
	Until         time.Time `json:"until,omitzero" doc:"None: nobody knows."`
	Drop          bool      `json:"drop,omitempty" doc:"It is not told afterwards either."`
	UntilResolved bool      `json:"untilResolved,omitempty" doc:"It ends with the first problem that it silences."`
}

// SilenceRequest makes a silence.
type SilenceRequest struct {
	Namespace   string          `json:"namespace" maxLength:"253"`
	Name        string          `json:"name,omitempty" maxLength:"253" doc:"Default: one made of what it covers and of the time."`
	Spec        json.RawMessage `json:"spec" doc:"As in a resource of kind Silence."`
	MaxAffected int             `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse one that covers more nodes; 0: a fifth of all, at least 50."`
	DryRun      bool            `json:"dryRun,omitempty"`
	Yes         bool            `json:"yes,omitempty" doc:"However many nodes it covers."`
}

// Silenced counts nodes and open problems of a silence.
type Silenced struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Nodes     int       `json:"nodes" doc:"That it covers."`
	First     []string  `json:"first,omitempty" doc:"The first of them, at most ten; those of another namespace as NAMESPACE/NAME."`
	Holds     int       `json:"holds" doc:"Open problems that it covers now."`
	Until     time.Time `json:"until,omitzero"`
	DryRun    bool      `json:"dryRun,omitempty"`
}

// RouteTest is the receivers of an assumed problem.
type RouteTest struct {
	Namespace    string         `json:"namespace"`
	Node         string         `json:"node"`
	Check        string         `json:"check"`
	At           time.Time      `json:"at" doc:"When it would open."`
	Status       model.Status   `json:"status"`
	StatusName   string         `json:"statusName"`
	SeverityName string         `json:"severityName"`
	Why          string         `json:"why" doc:"What chose these routes."`
	HangsOn      []string       `json:"hangsOn,omitempty" doc:"Checks, NAMESPACE/NODE/CHECK, that hold it while they fail."`
	Routes       []RouteTestOne `json:"routes"`
}

// RouteTestOne is the steps of one route.
type RouteTestOne struct {
	Route     string          `json:"route,omitempty" doc:"NAMESPACE/NAME; none: handlers are named without a route."`
	GroupBy   string          `json:"groupBy,omitempty" doc:"What it would be told together with."`
	GroupWait model.Duration  `json:"groupWait"`
	Rate      string          `json:"rate,omitempty" doc:"How many messages of new problems it sends at most: what is too many comes later, in one."`
	Steps     []RouteTestStep `json:"steps"`
}

// RouteTestStep is one step of a route.
type RouteTestStep struct {
	Due      time.Time          `json:"due" doc:"When it would be told if nothing held it."`
	At       time.Time          `json:"at,omitzero" doc:"When it would be told; none: never, or when somebody ends what holds it."`
	Handlers []RouteHandler     `json:"handlers"`
	Repeat   model.Duration     `json:"repeat,omitempty"`
	Holds    []NotificationHold `json:"holds,omitempty" doc:"What holds it when it is due, each until it ends."`
}

// RouteHandler is a receiver.
type RouteHandler struct {
	Name    string `json:"name" doc:"NAMESPACE/NAME"`
	Missing bool   `json:"missing,omitempty" doc:"There is no such handler."`
}

// Text describes the hold without its end: silenced by default/disks (ann: new disks).
func (h *NotificationHold) Text() string {
	text := h.Kind
	switch {
	case h.Kind == "unreachable":
		text = "unreachable behind " + h.By
	case h.Kind == "dependent":
		text = "it depends on " + h.By
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
	case h.Drop:
		text += ", for good"
	case h.UntilResolved:
		text += ", until the problem closes"
	}
	return text
}

// HandlerTest asks for a test notification to one handler.
type HandlerTest struct {
	Node string `json:"node,omitempty" maxLength:"253" doc:"Whose properties the handler's variables take; of the same namespace, or NAMESPACE/NAME. Default: of nobody's."`
}

// HandlerTested is the outcome of a test. Secrets are hidden.
type HandlerTested struct {
	Outcome string  `json:"outcome" enum:"taken,retried,final" doc:"taken; or what would become of a real message: tried again, or given up."`
	Sent    string  `json:"sent,omitempty" doc:"What went over the wire."`
	Answer  string  `json:"answer,omitempty" doc:"What came back."`
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds" doc:"How long it took."`
}

// HandlerReplay selects the dead letters of a handler to send again.
type HandlerReplay struct {
	IDs     []int64 `json:"ids,omitempty" maxItems:"1000" doc:"Only these; default all."`
	Ended   bool    `json:"ended,omitempty" doc:"Also of problems that have ended, with what tells of their end."`
	Limit   int     `json:"limit,omitempty" minimum:"0" maximum:"1000" doc:"At most so many, oldest first; default 1000."`
	Message string  `json:"message,omitempty" maxLength:"1000" doc:"Why; kept in the record."`
}

// HandlerReplayed is the outcome of a replay.
type HandlerReplayed struct {
	Sent int `json:"sent" doc:"Messages that are on their way again."`
	Over int `json:"over,omitempty" doc:"Dead letters that were left, because their problem has ended."`
	More int `json:"more,omitempty" doc:"Dead letters beyond the limit."`
}

// HandlerStream is the progress of a handler that receives every result.
type HandlerStream struct {
	BehindSeconds float64   `json:"behindSeconds" doc:"Age of the oldest commit of the journal that it was not told of; zero: it was told of all."`
	BehindBytes   int64     `json:"behindBytes" doc:"Journal from there on."`
	Connections   int       `json:"connections" doc:"Open now; each is opened when it is first needed."`
	Lines         uint64    `json:"lines" doc:"Written since the server started, also those that came again."`
	Again         uint64    `json:"again,omitempty" doc:"Times that lines were written again because connections broke."`
	Withheld      uint64    `json:"withheld,omitempty" doc:"Results of namespaces of which nothing is sent (notifications: shadow)."`
	Skipped       uint64    `json:"skipped,omitempty" doc:"Results that it was never told of, because it was too far behind."`
	SkippedAt     time.Time `json:"skippedAt,omitzero"`
	Trouble       string    `json:"trouble,omitempty" doc:"Why it does not get on now."`
	News          string    `json:"news,omitempty" doc:"What became of its place at the start, where it did not go on from there."`
}

// Lag describes the distance of the stream to the journal.
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
