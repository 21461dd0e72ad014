package model

import "strings"

// FilterSpec is an event filter of Sensu, kept by an import: which events of a check pass a
// workflow. Muster's own word for who is told of what is Route.
type FilterSpec struct {
	// allow passes what all expressions are true for; deny drops what any is true for.
	Action string `json:"action"`
	// JavaScript over event, in Sensu's shape; the last statement is true or false. One that
	// fails decides nothing, and the event says so.
	Expressions []string `json:"expressions"`
	// At which times it is in force; default always. At other times allow drops and deny passes
	// everything.
	When *FilterWhen `json:"when,omitempty"`
	// Assets whose JavaScript (lib/*.js) the expressions use, of the same namespace or
	// shared/NAME, at most 16. It is run before each expression, in the same sandbox.
	Assets []string `json:"assets,omitempty"`
}

// FilterWhen is when a filter is in force; exactly one of spans and window.
type FilterWhen struct {
	// The IANA zone of spans; default the namespace's, else UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Times, as those of a Window.
	Spans []WindowSpan `json:"spans,omitempty"`
	// A Window, of the same namespace or shared/NAME.
	Window string `json:"window,omitempty"`
}

// MutatorSpec is a mutator of Sensu, kept by an import: what becomes of an event before a
// handler gets it; exactly one of command and javascript.
type MutatorSpec struct {
	// Run on the server with the event as JSON on its standard input; the handler gets what it
	// writes.
	Command *Command `json:"command,omitempty"`
	// The body of a function of event: the handler gets the text that it returns, or event as it
	// was changed where it returns nothing.
	Javascript string `json:"javascript,omitempty"`
	// Environment of the command.
	Env map[string]string `json:"env,omitempty"`
	// Values that nobody sees, in variables of the command's environment: Secrets whose value the
	// server knows, read for each event.
	Secrets []CommandSecret `json:"secrets,omitempty"`
	// When the command is ended; default 10s.
	Timeout Duration `json:"timeout,omitempty"`
	// Assets that it needs, of the same namespace or shared/NAME, at most 16: a command finds
	// their programs first in PATH, javascript what their lib/*.js says.
	Assets []string `json:"assets,omitempty"`
}

// HookSpec is a hook of Sensu, kept by an import: a command that hooks of checks name (hook:
// NAME) instead of saying it themselves.
type HookSpec struct {
	// As a check's command: a text is run by the shell, a list without one, with the check's
	// env and runAs.
	Command *Command `json:"command"`
	// When it is ended; default 10s, at most 60s.
	Timeout Duration `json:"timeout,omitempty"`
	// Whether it finds the result on its standard input, as JSON with entity and check.
	Stdin bool `json:"stdin,omitempty"`
}

// PipelineSpec is a pipeline of Sensu, kept by an import: what is done with each event of the
// checks that name it (pipelines).
type PipelineSpec struct {
	// Each sees every event; they do not wait for one another.
	Workflows []Workflow `json:"workflows"`
}

// Workflow is what is done with an event: filters, then a mutator, then a handler.
type Workflow struct {
	// What it is called; unique within the pipeline.
	Name string `json:"name"`
	// Filters that an event has to pass, in this order, of the same namespace or shared/NAME;
	// is_incident, not_silenced and has_metrics are built in.
	Filters []string `json:"filters,omitempty"`
	// A Mutator, of the same namespace or shared/NAME; json (the default) and only_check_output
	// are built in.
	Mutator string `json:"mutator,omitempty"`
	// The Handler that gets it, of the same namespace or shared/NAME.
	Handler string `json:"handler"`
}

func (*FilterSpec) Kind() string   { return "Filter" }
func (*MutatorSpec) Kind() string  { return "Mutator" }
func (*HookSpec) Kind() string     { return "Hook" }
func (*PipelineSpec) Kind() string { return "Pipeline" }

// What a Sensu backend has without anybody declaring it.
const (
	FilterIncident    = "is_incident"
	FilterNotSilenced = "not_silenced"
	FilterHasMetrics  = "has_metrics"

	MutatorJSON       = "json"
	MutatorOnlyOutput = "only_check_output"
)

// SensuPipeline is the name of the pipeline that is made for a handler that reads Sensu's events.
func SensuPipeline(handler string) string { return "sensu-" + handler }

// BuiltinFilter says whether a filter of the name is there without being declared.
func BuiltinFilter(name string) bool {
	return name == FilterIncident || name == FilterNotSilenced || name == FilterHasMetrics
}

// BuiltinMutator says whether a mutator of the name is there without being declared.
func BuiltinMutator(name string) bool { return name == MutatorJSON || name == MutatorOnlyOutput }

// SensuKindsPage is the page on what is kept from Sensu.
const SensuKindsPage = "docs/sensu-filters.md"

// Title is what the hook is called where its output is shown.
func (h *Hook) Title() string {
	if h.Name != "" {
		return h.Name
	}
	return h.Hook[strings.LastIndexByte(h.Hook, '/')+1:]
}
