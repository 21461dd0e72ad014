package model

import (
	"cmp"
	"fmt"
	"time"
)

// Selector picks problems for which all its conditions hold. Without conditions it picks all problems of the nodes
// of its namespace; in the namespace shared, of all nodes.
type Selector struct {
	// The nodes of the problems.
	Targets *Targets `json:"targets,omitempty"`
	// Checks by name; default all. keepalive is the check of silent nodes.
	Checks []string `json:"checks,omitempty"`
	// Statuses: warning, critical, unknown; default all.
	Statuses []string `json:"statuses,omitempty"`
	// Labels of the node, all of which it must have.
	Labels map[string]string `json:"labels,omitempty"`
	// The lowest severity.
	Severity string `json:"severity,omitempty"`
	// A condition over the problem (CEL): source.kind, source.name, source.namespace, source.instance,
	// check, and the node's variables.
	Where string `json:"where,omitempty"`
}

// RouteSpec names the receivers of a problem that opens, lasts and closes. Checks name it as alert.route; with match
// it also takes problems without a route.
type RouteSpec struct {
	// Problems to take from checks without a route. Every matching route takes them; the route called default
	// takes the rest.
	Match *Selector `json:"match,omitempty"`
	// The common part of the problems of one message: node, check, namespace, severity, or label:NAME of the
	// node. Default [check]; [node, check] sends one message per problem.
	GroupBy []string `json:"groupBy,omitempty"`
	// How long the first message of a group waits for more problems; default 10s, 0s sends at once.
	GroupWait *Duration `json:"groupWait,omitempty"`
	// Handlers and their times. A step without after is the first.
	Steps []RouteStep `json:"steps"`
	// Times without notifications. A muted problem that is still open afterwards notifies then.
	Mute []RouteMute `json:"mute,omitempty"`
	// The most messages in a time; the excess becomes one message with their number.
	Rate *RouteRate `json:"rate,omitempty"`
}

// RouteStep is the handlers to notify after a problem has been open for a time.
type RouteStep struct {
	// Handlers, of the same namespace or shared/NAME.
	To []string `json:"to"`
	// How long the problem must have been open; default 0s.
	After Duration `json:"after,omitempty"`
	// How often they are notified again while the problem stays open without an acknowledgement; default never.
	Repeat Duration `json:"repeat,omitempty"`
}

// RouteMute holds problems back at some times.
type RouteMute struct {
	// The problems; default all of the route.
	Selector
	// When: "22:00-07:00 Europe/Paris", "sat,sun". The zone is by default the namespace's.
	During string `json:"during,omitempty"`
	// A Window instead of during, of the same namespace or shared/NAME.
	Window string `json:"window,omitempty"`
}

// RouteRate bounds messages.
type RouteRate struct {
	// The number of messages …
	Messages int `json:"messages"`
	// … in this time; default 1h.
	Per Duration `json:"per,omitempty"`
}

// Period returns the time in which messages are counted.
func (r *RouteRate) Period() time.Duration {
	return time.Duration(cmp.Or(r.Per, Duration(time.Hour)))
}

// String returns a rate for people.
func (r *RouteRate) String() string {
	if r.Messages == 1 {
		return "1 message in " + Duration(r.Period()).String()
	}
	return fmt.Sprintf("%d messages in %s", r.Messages, Duration(r.Period()))
}

// SilenceSpec keeps problems from notifying for a time, with a reason.
type SilenceSpec struct {
	// The problems.
	Selector
	// Its beginning; default at once.
	Begin Time `json:"begin,omitzero"`
	// Its end; default: the deletion of the silence.
	Until Time `json:"until,omitzero"`
	// Ends it with the first problem that it silences.
	UntilResolved bool `json:"untilResolved,omitempty"`
	// Never notifies of the silenced problems. Left out, problems still open at its end notify then.
	Drop bool `json:"drop,omitempty"`
	// The reason.
	Reason string `json:"reason"`
	// Its author; shown, not declared.
	Creator string `json:"creator,omitempty"`
}

// WindowSpec is a calendar with a name: for the schedule of a check, the mute of a route, and, with maintenance,
// for the maintenance of nodes.
type WindowSpec struct {
	// An IANA zone, such as Europe/Paris; default the namespace's, else UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Its times.
	Spans []WindowSpan `json:"spans"`
	// The problems in maintenance at these times: checks run and are judged, and nobody is notified.
	Maintenance *Selector `json:"maintenance,omitempty"`
	// The reason; shown where the window holds something back.
	Reason string `json:"reason,omitempty"`
}

// WindowSpan is a time span; exactly one of during, cron and from.
type WindowSpan struct {
	// Days, times, or both: "22:00-07:00", "sat,sun", "mon-fri 12:00-13:00".
	During string `json:"during,omitempty"`
	// Its beginnings: minute, hour, day of month, month, day of week.
	Cron string `json:"cron,omitempty"`
	// Its length, with cron.
	For Duration `json:"for,omitempty"`
	// Its beginning, a date and time: 2026-12-24 18:00.
	From string `json:"from,omitempty"`
	// Its end, with from.
	To string `json:"to,omitempty"`
}

func (*RouteSpec) Kind() string   { return "Route" }
func (*SilenceSpec) Kind() string { return "Silence" }
func (*WindowSpec) Kind() string  { return "Window" }
