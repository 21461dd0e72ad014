package pipes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Event is the input of workflows. Fields that few workflows read are functions, called at first
// use and possibly again.
type Event struct {
	Incident   bool // the status is not OK
	Resolution bool // the status is OK and was not before
	Metrics    bool // it carries values
	Silenced   func() bool
	Shape      func() map[string]any // for expressions: see filter.Shape
}

// Verdict is the decision of one workflow about an event.
type Verdict struct {
	Pipeline route.Name
	Workflow *model.Workflow // nil: the pipeline does not exist
	Pass     bool
	Filter   string   // the filter that dropped it; empty: none
	Reason   string   // for people
	Failed   []string // name and error of each expression that failed
}

// Handler returns the handler of an event that passes.
func (v *Verdict) Handler() route.Name {
	return qualifiedName(v.Pipeline.Namespace, v.Workflow.Handler)
}

// Mutator returns the workflow's mutator, json by default.
func (v *Verdict) Mutator() string {
	if v.Workflow.Mutator == "" {
		return model.MutatorJSON
	}
	if model.BuiltinMutator(v.Workflow.Mutator) {
		return v.Workflow.Mutator
	}
	return qualifiedName(v.Pipeline.Namespace, v.Workflow.Mutator).String()
}

// Name returns PIPELINE/WORKFLOW, for people.
func (v *Verdict) Name() string {
	if v.Workflow == nil {
		return v.Pipeline.Name
	}
	return v.Pipeline.Name + "/" + v.Workflow.Name
}

// Judge returns the verdict of each workflow of the pipelines that a check names; ns is the check's
// namespace. Filters run in order, up to the first that drops the event. A failing expression is
// skipped (filter.Decide) and listed in the verdict.
func (t *Table) Judge(ctx context.Context, ns string, pipelines []string, e *Event, now time.Time) (list []Verdict) {
	in := t.state.Load()
	for _, name := range pipelines {
		pipeline := qualifiedName(ns, name)
		spec := in.pipelines[pipeline]
		if spec == nil {
			list = append(list, Verdict{Pipeline: pipeline, Reason: fmt.Sprintf("there is no pipeline %s", pipeline)})
			continue
		}
		for i := range spec.Workflows {
			v := Verdict{Pipeline: pipeline, Workflow: &spec.Workflows[i], Pass: true}
			for _, name := range v.Workflow.Filters {
				if in.ask(ctx, &v, name, e, now); !v.Pass {
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

// ask applies one filter. Built-in ones need no JavaScript.
func (s *state) ask(ctx context.Context, v *Verdict, name string, e *Event, now time.Time) {
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
	if said, outside := f.plain.NotInForce(now); outside {
		if !said.Pass {
			drop(said.Reason)
		}
		return
	}
	script, err := f.get()
	if err != nil { // like a failing expression
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

func qualifiedName(ns, ref string) route.Name {
	ns, name := model.SplitRef(ns, ref)
	return route.Name{Namespace: ns, Name: name}
}

// Mutate transforms an event's JSON for a handler by a built-in or JavaScript mutator; it calls
// event only for the latter. For a command mutator it returns the command instead, whose output
// goes to the handler.
func (t *Table) Mutate(ctx context.Context, mutator string, event func() (map[string]any, error), now time.Time) (body []byte, command *model.MutatorSpec, err error) {
	ns, name := model.SplitRef("", mutator)
	if ns == "" {
		return nil, nil, nil
	}
	m, ok := t.Mutator(route.Name{Namespace: ns, Name: name})
	switch {
	case !ok:
		return nil, nil, model.Errorf(model.NotFound, "mutator %s does not exist (any more): apply it, and this message is sent", mutator)
	case m.Javascript == nil:
		return nil, m.Spec, nil
	}
	e, err := event()
	if err != nil {
		return nil, nil, err
	}
	script, err := m.Javascript.get()
	if err != nil {
		return nil, nil, err
	}
	body, err = script.Mutate(ctx, e, now)
	return body, nil, err
}
