package model

import "strings"

// FilterSpec is an event filter of Sensu, kept by an import: it decides which events of a check pass a workflow.
// Muster's own resource for notifications is Route.
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
	Assets []string `json:"assets,omitempty"`
}

// FilterWhen is the time in which a filter is in force; exactly one of spans and window.
type FilterWhen struct {
	// The IANA zone of spans; default the namespace's, else UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Times in the form of a Window.
	Spans []WindowSpan `json:"spans,omitempty"`
	// A Window, of the same namespace or shared/NAME.
	Window string `json:"window,omitempty"`
}

// MutatorSpec is a mutator of Sensu, kept by an import: it transforms an event for a handler; exactly one of
// command and javascript.
type MutatorSpec struct {
	// A command on the server with the event as JSON on its standard input. The handler gets its output.
	Command *Command `json:"command,omitempty"`
	// The body of a function of event. The handler gets the returned text, or the changed event where it returns
	// nothing.
	Javascript string `json:"javascript,omitempty"`
	// Environment of the command.
	Env map[string]string `json:"env,omitempty"`
	// Secret values in variables of the command's environment: Secrets whose value the server knows, read for each
	// event.
	Secrets []CommandSecret `json:"secrets,omitempty"`
	// After this time the command is ended; default 10s.
	Timeout Duration `json:"timeout,omitempty"`
	// Assets, of the same namespace or shared/NAME, at most 16: their programs come first in the PATH of a
	// command, and javascript gets the code of their lib/*.js.
	Assets []string `json:"assets,omitempty"`
}

// HookSpec is a hook of Sensu, kept by an import: a command that hooks of checks name (hook: NAME).
type HookSpec struct {
	// Like a check's command: a text is run by the shell, a list without one, with the check's env and runAs.
	Command *Command `json:"command"`
	// After this time it is ended; default 10s, at most 60s.
	Timeout Duration `json:"timeout,omitempty"`
	// Sends the result as JSON with entity and check to its standard input.
	Stdin bool `json:"stdin,omitempty"`
}

// PipelineSpec is a pipeline of Sensu, kept by an import: the workflows for each event of the checks that name it
// (pipelines).
type PipelineSpec struct {
	// Each gets every event; they do not wait for one another.
	Workflows []Workflow `json:"workflows"`
}

// Workflow is the way of an event: filters, then a mutator, then a handler.
type Workflow struct {
	// Its name, unique within the pipeline.
	Name string `json:"name"`
	// Filters that an event has to pass, in this order, of the same namespace or shared/NAME; is_incident,
	// not_silenced and has_metrics are built in.
	Filters []string `json:"filters,omitempty"`
	// A Mutator, of the same namespace or shared/NAME; json (the default) and only_check_output
	// are built in.
	Mutator string `json:"mutator,omitempty"`
	// The Handler that gets the event, of the same namespace or shared/NAME.
	Handler string `json:"handler"`
}

func (*FilterSpec) Kind() string   { return "Filter" }
func (*MutatorSpec) Kind() string  { return "Mutator" }
func (*HookSpec) Kind() string     { return "Hook" }
func (*PipelineSpec) Kind() string { return "Pipeline" }

// Built-in filters and mutators of a Sensu backend.
const (
	FilterIncident    = "is_incident"
	FilterNotSilenced = "not_silenced"
	FilterHasMetrics  = "has_metrics"

	MutatorJSON       = "json"
	MutatorOnlyOutput = "only_check_output"
)

// SensuPipeline returns the name of the pipeline for a handler that reads Sensu's events.
func SensuPipeline(handler string) string { return "sensu-" + handler }

// BuiltinFilter reports whether a filter is built in.
func BuiltinFilter(name string) bool {
	return name == FilterIncident || name == FilterNotSilenced || name == FilterHasMetrics
}

// BuiltinMutator reports whether a mutator is built in.
func BuiltinMutator(name string) bool { return name == MutatorJSON || name == MutatorOnlyOutput }

// SensuKindsPage is the page about the kinds kept from Sensu.
const SensuKindsPage = "docs/sensu-filters.md"

// Title returns the heading of the hook's output.
func (h *Hook) Title() string {
	if h.Name != "" {
		return h.Name
	}
	return h.Hook[strings.LastIndexByte(h.Hook, '/')+1:]
}
