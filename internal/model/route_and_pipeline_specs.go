package model

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Selector selects problems that meet all conditions of the selector. Without conditions it picks all problems
// of the nodes of its namespace; in the namespace shared, of all nodes.
type Selector struct {
	// The nodes of the problems.
	Targets *Targets `json:"targets,omitempty"`
	// Checks by name, and triggers as TEMPLATE:TRIGGER; default all. keepalive is the check of silent nodes.
	Checks []string `json:"checks,omitempty"`
	// Statuses: warning, critical, unknown; default all.
	Statuses []string `json:"statuses,omitempty"`
	// Labels that the problem must have: the tags of its trigger and the labels of its node. A tag wins.
	Labels map[string]string `json:"labels,omitempty"`
	// The lowest severity.
	Severity string `json:"severity,omitempty"`
	// A condition over the problem (CEL): source.kind, source.name, source.namespace, source.instance,
	// source.groups (the groups that the check targets), check, labels (of the problem), and the node's variables.
	Where string `json:"where,omitempty"`
}

// RouteSpec names the receivers of notifications when a problem opens, continues and closes. Checks name it as
// alert.route; with match it also takes problems without a route.
type RouteSpec struct {
	// Problems to take from checks without a route. Every matching route takes them; the route called default
	// takes the rest.
	Match *Selector `json:"match,omitempty"`
	// The common part of the problems of one message: node, check, namespace, severity, or label:NAME.
	// Default [check]; [node, check] sends one message per problem.
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

// RouteStep is one step of a route, with the handlers to notify. The problem must have been open for a time.
type RouteStep struct {
	// Handlers, of the same namespace or shared/NAME.
	To []string `json:"to" ref:"Handler"`
	// How long the problem must have been open; default 0s.
	After Duration `json:"after,omitempty"`
	// How often they are notified again while the problem stays open without an acknowledgement; default never.
	Repeat Duration `json:"repeat,omitempty"`
}

// RouteMute configures times during which a route sends no messages.
type RouteMute struct {
	// The problems; default all of the route.
	Selector
	// When: "22:00-07:00 Europe/Paris", "sat,sun". The zone is by default the namespace's.
	During string `json:"during,omitempty"`
	// A Window instead of during, of the same namespace or shared/NAME.
	Window string `json:"window,omitempty" ref:"Window"`
}

// RouteRate limits how many messages a route sends in a period.
type RouteRate struct {
	// The number of messages …
	Messages int `json:"messages"`
	// … in this time; default 1h.
	Per Duration `json:"per,omitempty"`
}

// Period returns the length of the time window in which the rate limit counts messages
func (r *RouteRate) Period() time.Duration { return time.Duration(cmp.Or(r.Per, Duration(time.Hour))) }

// String formats the rate for people, such as 10 messages in 1h.
func (r *RouteRate) String() string {
	if r.Messages == 1 {
		return "1 message in " + Duration(r.Period()).String()
	}
	return fmt.Sprintf("%d messages in %s", r.Messages, Duration(r.Period()))
}

// SilenceSpec suppresses notifications about matching problems for a time, with a reason.
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

// WindowSpec is a calendar with a name, for schedules, mutes and maintenance. It serves the schedule of a check, the
// mute of a route, and, with maintenance, the maintenance of nodes.
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

// WindowSpan is one span of time in a calendar, weekly or dated. It has exactly one of during, cron and from.
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

// Kind returns the name of the resource kind, Route.
func (*RouteSpec) Kind() string { return "Route" }

// Kind returns the name of the resource kind, Silence.
func (*SilenceSpec) Kind() string { return "Silence" }

// Kind returns the name of the resource kind, Window.
func (*WindowSpec) Kind() string { return "Window" }

// FilterSpec is a Sensu event filter, created by an import from Sensu. It decides which events of a check pass
// a workflow. Muster's own resource for notifications is Route.
type FilterSpec struct {
	// allow passes events for which all expressions are true; deny drops events for which any is true.
	Action string `json:"action"`
	// JavaScript over event, in Sensu's shape; the last statement is true or false. A failing expression decides
	// nothing, and the event shows the error.
	Expressions []string `json:"expressions"`
	// When it is in force; default always. At other times allow drops and deny passes everything.
	When *FilterWhen `json:"when,omitempty"`
	// Assets with JavaScript (lib/*.js) for the expressions, of the same namespace or shared/NAME, at most 16. It
	// runs before each expression, in the same sandbox.
	Assets []string `json:"assets,omitempty" ref:"Asset"`
}

// FilterWhen configures the times at which a filter is active. It has exactly one of spans and window.
type FilterWhen struct {
	// The IANA zone of spans; default the namespace's, else UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Times in the form of a Window.
	Spans []WindowSpan `json:"spans,omitempty"`
	// A Window, of the same namespace or shared/NAME.
	Window string `json:"window,omitempty" ref:"Window"`
}

// MutatorSpec is a Sensu mutator, which transforms an event for a handler. It has exactly one of command and
// javascript.
type MutatorSpec struct {
	// A command on the server with the event as JSON on its standard input. The handler gets its output.
	Command *Command `json:"command,omitempty"`
	// The body of a function of event. The handler gets the returned text, or the changed event where it returns
	// nothing.
	Javascript string `json:"javascript,omitempty"`
	// Environment of the command; javascript has a variable for each.
	Env map[string]string `json:"env,omitempty"`
	// Secret values in variables of the command's environment: Secrets whose value the server knows, read for each
	// event.
	Secrets []CommandSecret `json:"secrets,omitempty"`
	// After this time the command is ended; default 10s.
	Timeout Duration `json:"timeout,omitempty"`
	// Assets, of the same namespace or shared/NAME, at most 16: their programs come first in the PATH of a
	// command, and javascript gets the code of their lib/*.js.
	Assets []string `json:"assets,omitempty" ref:"Asset"`
}

// HookSpec is a Sensu hook, created by an import from Sensu. It is a command to which checks refer by its name
// (hook: NAME).
type HookSpec struct {
	// Like a check's command: a text is run by the shell, a list without one, with the check's env and runAs.
	Command *Command `json:"command"`
	// After this time it is ended; default 10s, at most 60s.
	Timeout Duration `json:"timeout,omitempty"`
	// Sends the result as JSON with entity and check to its standard input.
	Stdin bool `json:"stdin,omitempty"`
	// Assets, of the same namespace or shared/NAME, at most 16: each check that names the hook has them, too.
	Assets []string `json:"assets,omitempty" ref:"Asset"`
}

// PipelineSpec is a Sensu pipeline, created by an import from Sensu. It has the workflows for each event of the
// checks that name it (pipelines).
type PipelineSpec struct {
	// Each gets every event; they do not wait for one another.
	Workflows []Workflow `json:"workflows,omitempty"`
}

// Workflow is one sequence of a pipeline, with filters, a mutator and a handler in turn.
type Workflow struct {
	// Its name, unique within the pipeline.
	Name string `json:"name"`
	// Filters that an event has to pass, in this order, of the same namespace or shared/NAME; is_incident,
	// not_silenced and has_metrics are built in.
	Filters []string `json:"filters,omitempty" ref:"Filter"`
	// A Mutator, of the same namespace or shared/NAME; json (the default) and only_check_output are built in.
	Mutator string `json:"mutator,omitempty" ref:"Mutator"`
	// The Handler that gets the event, of the same namespace or shared/NAME.
	Handler string `json:"handler" ref:"Handler"`
}

// Kind returns the name of the resource kind, Filter.
func (*FilterSpec) Kind() string { return "Filter" }

// Kind returns the name of the resource kind, Mutator.
func (*MutatorSpec) Kind() string { return "Mutator" }

// Kind returns the name of the resource kind, Hook.
func (*HookSpec) Kind() string { return "Hook" }

// Kind returns the name of the resource kind, Pipeline.
func (*PipelineSpec) Kind() string { return "Pipeline" }

// Built-in filters and mutators of a Sensu backend.
const (
	FilterIncident    = "is_incident"
	FilterNotSilenced = "not_silenced"
	FilterHasMetrics  = "has_metrics"

	MutatorJSON       = "json"
	MutatorOnlyOutput = "only_check_output"
)

// SensuPipeline returns the name of the pipeline that an import creates for a handler of Sensu.
func SensuPipeline(handler string) string { return "sensu-" + handler }

// IsBuiltinFilter reports whether Sensu has a built-in filter of the given name, such as is_incident.
func IsBuiltinFilter(name string) bool {
	return name == FilterIncident || name == FilterNotSilenced || name == FilterHasMetrics
}

// IsBuiltinMutator reports whether Sensu has a built-in mutator of the given name.
func IsBuiltinMutator(name string) bool { return name == MutatorJSON || name == MutatorOnlyOutput }

// SensuKindsPage is the page about the kinds kept from Sensu.
const SensuKindsPage = "docs/sensu-filters.md"

// Title returns the title under which a check shows the output of the hook.
func (h *Hook) Title() string {
	if h.Name != "" {
		return h.Name
	}
	return h.Hook[strings.LastIndexByte(h.Hook, '/')+1:]
}
