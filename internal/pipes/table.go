// Package pipes holds what is kept from Sensu: filters, mutators and pipelines by name,
// compiled, and what they decide of an event. Who shows it events, and what becomes of those
// that pass, is package react.
//
// Table.Set and Table.Remove are called by the planner as resources change; Table.Judge looks
// at what was in force when it began. Nothing here keeps a lock while JavaScript runs: what is in
// force is a value that changes replace. No goroutines. Start reading at judge.go.
package pipes

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/window"
)

// Table is what is in force. Safe for concurrent use.
type Table struct {
	// Libraries reads the JavaScript of Assets, NAMESPACE/NAME; see Find. Nil: there is none. It is
	// set before anything else is done.
	Libraries Find

	mu    sync.Mutex // of writers
	state atomic.Pointer[state]
}

// state is never changed.
type state struct {
	filters   map[route.Name]*scripted[*filter.Filter]
	mutators  map[route.Name]*Mutator
	pipelines map[route.Name]*model.PipelineSpec
	windows   map[route.Name]*window.Calendar
}

// Mutator is a compiled model.MutatorSpec. Immutable.
type Mutator struct {
	Spec       *model.MutatorSpec
	Javascript *scripted[*filter.Mutation] // nil: it is a command
}

// NewTable makes an empty one.
func NewTable() *Table {
	t := &Table{}
	t.state.Store(&state{})
	return t
}

// Set puts a Filter, Mutator, Pipeline or Window in force, in the place of what has its name;
// zone is the namespace's. Other kinds change nothing. An error leaves what was.
func (t *Table) Set(name route.Name, zone string, spec model.Spec) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := *t.state.Load()
	switch spec := spec.(type) {
	case *model.FilterSpec:
		when, err := t.when(name, zone, spec.When)
		if err != nil {
			return err
		}
		f, err := newScripted(t.find, whole(name, spec.Assets), func(libraries []filter.Library) (*filter.Filter, error) {
			return filter.New(filter.Action(spec.Action), spec.Expressions, when, libraries...)
		})
		if err != nil {
			return err
		}
		next.filters = with(next.filters, name, f)
	case *model.MutatorSpec:
		within := spec.QualifyReferences(name.Namespace)
		m := &Mutator{Spec: within}
		if spec.Command == nil {
			var err error
			m.Javascript, err = newScripted(t.find, within.Assets, func(libraries []filter.Library) (*filter.Mutation, error) {
				return filter.CompileMutation(spec.Javascript, libraries...)
			})
			if err != nil {
				return err
			}
		}
		next.mutators = with(next.mutators, name, m)
	case *model.PipelineSpec:
		next.pipelines = with(next.pipelines, name, spec)
	case *model.WindowSpec:
		if spec.TimeZone != "" {
			zone = spec.TimeZone
		}
		c, err := window.New(zone, spec.Spans)
		if err != nil {
			return err
		}
		next.windows = with(next.windows, name, c)
	default:
		return nil
	}
	t.state.Store(&next)
	return nil
}

// Remove takes one of them out of force.
func (t *Table) Remove(kind string, name route.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := *t.state.Load()
	switch kind {
	case "Filter":
		next.filters = without(next.filters, name)
	case "Mutator":
		next.mutators = without(next.mutators, name)
	case "Pipeline":
		next.pipelines = without(next.pipelines, name)
	case "Window":
		next.windows = without(next.windows, name)
	}
	t.state.Store(&next)
}

// Announce does nothing: who is shown an event looks at what is in force then.
func (t *Table) Announce() {}

// Mutator finds one; not ok: there is none of the name, or it is built in.
func (t *Table) Mutator(name route.Name) (*Mutator, bool) {
	m, ok := t.state.Load().mutators[name]
	return m, ok
}

// when is in which times a filter is in force; nil: always. A Window is looked up each time,
// for it may change.
func (t *Table) when(name route.Name, zone string, w *model.FilterWhen) (func(time.Time) bool, error) {
	if w == nil {
		return nil, nil
	}
	if w.Window != "" {
		ns, of := model.SplitRef(name.Namespace, w.Window)
		return func(now time.Time) bool {
			c := t.state.Load().windows[route.Name{Namespace: ns, Name: of}]
			if c == nil {
				return true // intent lets nobody delete what is named: it comes from another version
			}
			_, inside := c.Active(now)
			return inside
		}, nil
	}
	if w.TimeZone != "" {
		zone = w.TimeZone
	}
	c, err := window.New(zone, w.Spans)
	if err != nil {
		return nil, err
	}
	return func(now time.Time) bool {
		_, inside := c.Active(now)
		return inside
	}, nil
}

func with[V any](m map[route.Name]V, name route.Name, v V) map[route.Name]V {
	next := make(map[route.Name]V, len(m)+1)
	maps.Copy(next, m)
	next[name] = v
	return next
}

func without[V any](m map[route.Name]V, name route.Name) map[route.Name]V {
	next := maps.Clone(m)
	delete(next, name)
	return next
}
