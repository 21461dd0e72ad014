package pipes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Event is what workflows decide about. What is asked only by some is a function, called when
// it is first needed, and more than once.
type Event struct {
	Incident   bool // its status is not OK
	Resolution bool // it is OK now, and was not before
	Metrics    bool // it carries values
	Silenced   func() bool
	Shape      func() map[string]any // for expressions: see filter.Shape
}

// Verdict is what one workflow says of an event.
type Verdict struct {
	Pipeline route.Name
	Workflow *model.Workflow // nil: there is no such pipeline
	Pass     bool
	Filter   string   // that dropped it; empty: none did
	Reason   string   // for people
	Failed   []string // of each expression that could not be evaluated: which, and why
}

// Handler is who gets an event that passes.
func (v *Verdict) Handler() route.Name { return at(v.Pipeline.Namespace, v.Workflow.Handler) }

// Mutator is what changes it before that; json where the workflow names none.
func (v *Verdict) Mutator() string {
	if v.Workflow.Mutator == "" {
		return model.MutatorJSON
	}
	if model.BuiltinMutator(v.Workflow.Mutator) {
		return v.Workflow.Mutator
	}
	return at(v.Pipeline.Namespace, v.Workflow.Mutator).String()
}

// Name is PIPELINE/WORKFLOW, for people.
func (v *Verdict) Name() string {
	if v.Workflow == nil {
		return v.Pipeline.Name
	}
	return v.Pipeline.Name + "/" + v.Workflow.Name
}

// Judge asks each workflow of the pipelines that a check names; ns is the check's. Filters are
// asked in their order, up to the first that drops the event. An expression that fails decides
// nothing (filter.Decide), and the verdict says so.
func (t *Table) Judge(ctx context.Context, ns string, pipelines []string, e *Event, now time.Time) (list []Verdict) {
	in := t.state.Load()
	for _, name := range pipelines {
		pipeline := at(ns, name)
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
				v.Reason = "passed, although not every expression could be evaluated: " + strings.Join(v.Failed, "; ")
			}
			list = append(list, v)
		}
	}
	return list
}

// ask has one filter decide. The built-in ones need no JavaScript.
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
	f := s.filters[at(v.Pipeline.Namespace, name)]
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
	if err != nil { // as an expression that fails
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

func at(ns, ref string) route.Name {
	ns, name := model.SplitRef(ns, ref)
	return route.Name{Namespace: ns, Name: name}
}

// Mutate makes of an event's JSON what a handler gets, by a mutator that is built in or in
// JavaScript; event is called only for the latter. command is set instead where somebody has to
// be run: its output is what the handler gets.
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
