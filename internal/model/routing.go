package model

import (
	"cmp"
	"fmt"
	"time"
)

// Selector picks problems: what it names must all hold. One that names nothing picks all
// problems of the nodes of its namespace; in the namespace shared, those of all.
type Selector struct {
	// The nodes whose problems it picks.
	Targets *Targets `json:"targets,omitempty"`
	// Checks by name; default all. keepalive is that of a node that fell silent.
	Checks []string `json:"checks,omitempty"`
	// Statuses: warning, critical, unknown; default all.
	Statuses []string `json:"statuses,omitempty"`
	// Labels of the node, all of which it must have.
	Labels map[string]string `json:"labels,omitempty"`
	// Severities from this one on.
	Severity string `json:"severity,omitempty"`
	// A condition over the problem (CEL): source.kind, source.name, source.namespace, source.instance,
	// check, and the node's variables.
	Where string `json:"where,omitempty"`
}

// RouteSpec says who is told when a problem opens, lasts and closes. Checks name it as
// alert.route; with match it also takes what names no route.
type RouteSpec struct {
	// Problems of checks that name no route, which it takes. Every route that matches
	// takes them; what none takes goes to the route called default.
	Match *Selector `json:"match,omitempty"`
	// What problems have in common that are told in one message: node, check, namespace,
	// severity, or label:NAME of the node; default [check]. [node, check] tells each by itself.
	GroupBy []string `json:"groupBy,omitempty"`
	// How long the first message of a group waits for more; default 10s, 0s tells at once.
	GroupWait *Duration `json:"groupWait,omitempty"`
	// Who is told, and when. A step without after is the first.
	Steps []RouteStep `json:"steps"`
	// What is not told at some times: it is held, and told afterwards if still open.
	Mute []RouteMute `json:"mute,omitempty"`
	// How many messages there may be; the excess becomes one that counts them.
	Rate *RouteRate `json:"rate,omitempty"`
}

// RouteStep is who is told after the problem has been open for a time.
type RouteStep struct {
	// Handlers, of the same namespace or shared/NAME.
	To []string `json:"to"`
	// How long the problem must have been open; default 0s.
	After Duration `json:"after,omitempty"`
	// How often they are told again while it stays open and nobody has acknowledged it;
	// default never.
	Repeat Duration `json:"repeat,omitempty"`
}

// RouteMute holds problems back at some times.
type RouteMute struct {
	// Which problems; default all of the route.
	Selector
	// When: "22:00-07:00 Europe/Paris", "sat,sun". The zone is by default the namespace's.
	During string `json:"during,omitempty"`
	// A Window instead of during, of the same namespace or shared/NAME.
	Window string `json:"window,omitempty"`
}

// RouteRate bounds messages.
type RouteRate struct {
	// So many messages …
	Messages int `json:"messages"`
	// … in so long; default 1h.
	Per Duration `json:"per,omitempty"`
}

// Period is for how long its messages are counted.
func (r *RouteRate) Period() time.Duration {
	return time.Duration(cmp.Or(r.Per, Duration(time.Hour)))
}

// String is a rate as people say it.
func (r *RouteRate) String() string {
	if r.Messages == 1 {
		return "1 message in " + Duration(r.Period()).String()
	}
	return fmt.Sprintf("%d messages in %s", r.Messages, Duration(r.Period()))
}

// SilenceSpec is what a person says: not these, until then, because.
type SilenceSpec struct {
	// Which problems.
	Selector
	// From when on; default at once.
	Begin Time `json:"begin,omitzero"`
	// Until when; without it, for as long as the silence is there.
	Until Time `json:"until,omitzero"`
	// Whether it ends with the first problem that it silences.
	UntilResolved bool `json:"untilResolved,omitempty"`
	// Whether what it holds is never told. Left out, what is still open at its end is told
	// then.
	Drop bool `json:"drop,omitempty"`
	// Why.
	Reason string `json:"reason"`
	// Who made it; shown, not declared.
	Creator string `json:"creator,omitempty"`
}

// WindowSpec is a calendar with a name: for the schedule of a check, for the mute of a
// route, and, with targets, for the maintenance of nodes.
type WindowSpec struct {
	// An IANA zone, such as Europe/Paris; default the namespace's, else UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// When.
	Spans []WindowSpan `json:"spans"`
	// What is in maintenance meanwhile: it runs and is judged, and nobody is told.
	Maintenance *Selector `json:"maintenance,omitempty"`
	// Why; shown where the window keeps something back.
	Reason string `json:"reason,omitempty"`
}

// WindowSpan is a stretch of time; exactly one of during, cron and from.
type WindowSpan struct {
	// Days, times, or both: "22:00-07:00", "sat,sun", "mon-fri 12:00-13:00".
	During string `json:"during,omitempty"`
	// When it begins: minute, hour, day of month, month, day of week.
	Cron string `json:"cron,omitempty"`
	// How long it lasts, with cron.
	For Duration `json:"for,omitempty"`
	// A date and time: 2026-12-24 18:00.
	From string `json:"from,omitempty"`
	// Up to when, with from.
	To string `json:"to,omitempty"`
}

func (*RouteSpec) Kind() string   { return "Route" }
func (*SilenceSpec) Kind() string { return "Silence" }
func (*WindowSpec) Kind() string  { return "Window" }
