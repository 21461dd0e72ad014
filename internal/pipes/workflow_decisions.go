package pipes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Event has the properties of an event that the filters of workflows read. Fields that few workflows read are
// functions, which are called when a workflow needs them, possibly several times.
type Event struct {
	Incident   bool  // the status is not OK
	Resolution bool  // the status is OK and the previous one was not
	Metrics    bool  // the event has values
	Unfiltered error // reason why no filter may see the event; nil: all see it
	Silenced   func() bool
	Shape      func() map[string]any // returns the event in Sensu's form for expressions: see filter.SensuEvent
}

// Decision is a workflow's decision to pass or drop an event, with the reason.
type Decision struct {
	Pipeline route.Name
	Workflow *model.Workflow // nil: the pipeline does not exist
	Pass     bool
	Filter   string   // name of the filter that dropped the event; empty: none
	Reason   string   // reason of the decision, for people
	Failed   []string // name and error of each expression that failed
}

// Handler returns the full name of the handler configured in the workflow, also for a dropped event.
func (v *Decision) Handler() route.Name {
	return qualifiedName(v.Pipeline.Namespace, v.Workflow.Handler)
}

// Mutator returns the mutator of the workflow, which is "json" by default.
func (v *Decision) Mutator() string {
	if v.Workflow.Mutator == "" {
		return model.MutatorJSON
	}
	if model.IsBuiltinMutator(v.Workflow.Mutator) {
		return v.Workflow.Mutator
	}
	return qualifiedName(v.Pipeline.Namespace, v.Workflow.Mutator).String()
}

// Name returns the names of pipeline and workflow as PIPELINE/WORKFLOW.
func (v *Decision) Name() string {
	if v.Workflow == nil {
		return v.Pipeline.Name
	}
	return v.Pipeline.Name + "/" + v.Workflow.Name
}

// Decide decides for each workflow in the pipelines of a check whether an event passes the filters. The result has one
// decision per workflow. Filters run in order, up to the first that drops the event. A failing expression is skipped
// (filter.Decide) and listed in the verdict.
func (t *Table) Decide(ctx context.Context, ns string, pipelines []string, e *Event, now time.Time) (list []Decision) {
	in := t.state.Load()
	for _, name := range pipelines {
		pipeline := qualifiedName(ns, name)
		spec := in.pipelines[pipeline]
		if spec == nil {
			list = append(list, Decision{Pipeline: pipeline, Reason: fmt.Sprintf("there is no pipeline %s", pipeline)})
			continue
		}
		for i := range spec.Workflows {
			v := Decision{Pipeline: pipeline, Workflow: &spec.Workflows[i], Pass: true}
			if e.Unfiltered != nil {
				v.Reason = e.Unfiltered.Error()
				list = append(list, v)
				continue
			}
			for _, name := range v.Workflow.Filters {
				if in.applyFilter(ctx, &v, name, e, now); !v.Pass {
					break
				}
			}
			if v.Pass && v.Failed != nil {
				v.Reason = "passed, although the evaluation of some expressions failed: " + strings.Join(v.Failed, "; ")
			}
			list = append(list, v)
		}
	}
	return list
}

// applyFilter applies one filter to an event, and records in the decision if the filter drops the event.
// Built-in filters need no JavaScript.
func (s *compiledState) applyFilter(ctx context.Context, v *Decision, name string, e *Event, now time.Time) {
	drop := func(reason string) { v.Pass, v.Filter, v.Reason = false, name, reason }
	switch name {
	case model.FilterIncident:
		if !e.Incident && !e.Resolution {
			drop("it is OK, and was before")
		}
		return
	case model.FilterNotSilenced:
		if e.Silenced() {
			drop("it is silenced")
		}
		return
	case model.FilterHasMetrics:
		if !e.Metrics {
			drop("it carries no values")
		}
		return
	}
	f := s.filters[qualifiedName(v.Pipeline.Namespace, name)]
	if f == nil {
		drop("there is no such filter")
		return
	}
	if said, decided := f.plain.DecideByTime(now); decided {
		if !said.Pass {
			drop(said.Reason)
		}
		return
	}
	script, err := f.program()
	if err != nil { // the filter is skipped, as for a failing expression
		v.Failed = append(v.Failed, "filter "+name+": "+err.Error())
		return
	}
	said := script.Decide(ctx, e.Shape(), now)
	for _, failed := range said.Failed {
		v.Failed = append(v.Failed, "filter "+name+", "+failed)
	}
	if !said.Pass {
		drop(said.Reason)
	}
}

// qualifiedName adds the namespace to a reference in a resource, so that the name is complete. If the reference has no
// namespace, the namespace of the referring resource counts.
func qualifiedName(ns, ref string) route.Name {
	ns, name := model.SplitRef(ns, ref)
	return route.Name{Namespace: ns, Name: name}
}

// Mutate changes the JSON of an event for a handler, by a built-in or a JavaScript mutator. For a mutator with a
// command, Mutate returns the command: the caller runs it and passes its output to the handler.
func (t *Table) Mutate(ctx context.Context, mutator string, event func() (map[string]any, error), now time.Time) (body []byte, command *model.MutatorSpec, err error) {
	ns, name := model.SplitRef("", mutator)
	if ns == "" {
		return nil, nil, nil
	}
	m, ok := t.Mutator(route.Name{Namespace: ns, Name: name})
	switch {
	case !ok:
		return nil, nil, model.Errorf(model.NotFound, "mutator %s does not exist; create it with muster apply -f, and the server will then send the notification", mutator)
	case m.Javascript == nil:
		return nil, m.Spec, nil
	}
	e, err := event()
	if err != nil {
		return nil, nil, err
	}
	script, err := m.Javascript.program()
	if err != nil {
		return nil, nil, err
	}
	body, err = script.Mutate(ctx, e, now)
	return body, nil, err
}
