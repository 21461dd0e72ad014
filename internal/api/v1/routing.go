package v1

import (
	"encoding/json"
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
