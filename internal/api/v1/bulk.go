package v1

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// BulkRequest is an action on all events that match. An event must match every given field.
type BulkRequest struct {
	Namespace   string    `json:"namespace,omitempty" maxLength:"253" doc:"Of the nodes. Empty: all."`
	Node        string    `json:"node,omitempty" maxLength:"253"`
	Check       string    `json:"check,omitempty" maxLength:"253"`
	Group       string    `json:"group,omitempty" maxLength:"253" doc:"Only nodes of this group."`
	Status      string    `json:"status,omitempty" maxLength:"64" doc:"Names or digits, comma-separated: critical,unknown"`
	Selector    string    `json:"selector,omitempty" maxLength:"4096" doc:"Labels of the node: env=prod,tier!=db"`
	Where       string    `json:"where,omitempty" maxLength:"4096" doc:"CEL over event.* and node.*"`
	All         bool      `json:"all,omitempty" doc:"Everything is meant, where nothing else is said."`
	Note        string    `json:"note,omitempty" maxLength:"1000"`
	Until       time.Time `json:"until,omitzero" doc:"Of an acknowledgement: when it ends; it ends with the problem in any case."`
	MaxAffected int       `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse if it picks more events; default a fifth of all, at least 50."`
	Yes         bool      `json:"yes,omitempty" doc:"However many it picks."`
	DryRun      bool      `json:"dryRun,omitempty" doc:"Say what it picks, and do nothing."`
}

// BulkDone is the outcome of a bulk action.
type BulkDone struct {
	Matched int         `json:"matched" doc:"Events that the selection picked."`
	First   []BulkEvent `json:"first" doc:"The first ten of them, worst first."`
	Done    int         `json:"done"`
	Left    []BulkLeft  `json:"left,omitempty" doc:"Those it was not done to, by reason."`
	DryRun  bool        `json:"dryRun,omitempty"`
}

// BulkEvent is an event of a bulk action.
type BulkEvent struct {
	Namespace  string       `json:"namespace"`
	Node       string       `json:"node"`
	Check      string       `json:"check"`
	Status     model.Status `json:"status"`
	StatusName string       `json:"statusName" enum:"OK,WARNING,CRITICAL,UNKNOWN"`
}

// BulkLeft is the events that a bulk action left alone for one reason.
type BulkLeft struct {
	Reason string      `json:"reason"`
	Failed bool        `json:"failed,omitempty" doc:"It could not be done; else there was nothing to do any more."`
	Count  int         `json:"count"`
	First  []BulkEvent `json:"first" doc:"The first ten of them."`
}
