// Package pipes holds what is kept from Sensu: filters, mutators and pipelines by name,
// compiled, and what they decide of an event. Who shows it events, and what becomes of those
// that pass, is package react.
//
// Table.Set and Table.Remove are called by the planner as resources change; Table.Judge looks
// at what was in force when it began. Nothing here keeps a lock while JavaScript runs: what is in
// force is a value that changes replace. No goroutines. Start reading at judge.go.
package pipes

import (
	"errors"
	"fmt"
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

// Apply puts Filters, Mutators, Pipelines and Windows in force, all at once, and removes deleted ones. It
// ignores other kinds. The error joins those of all declarations that do not compile; what they replace
// stays in force.
func (t *Table) Apply(list []route.Declaration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := *t.state.Load()
	var failed []error
	for _, d := range list {
		if d.Spec == nil {
			next.remove(d.Kind, d.Name)
		} else if err := t.set(&next, d); err != nil {
			failed = append(failed, fmt.Errorf("%s %s: %w", d.Kind, d.Name, err))
		}
	}
	t.state.Store(&next)
	return errors.Join(failed...)
}

// set compiles one declaration into the next state. After an error the state is unchanged.
func (t *Table) set(next *state, d route.Declaration) error {
	name, zone := d.Name, d.Zone
	switch spec := d.Spec.(type) {
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
	}
	return nil
}

func (s *state) remove(kind string, name route.Name) {
	switch kind {
	case "Filter":
		s.filters = without(s.filters, name)
	case "Mutator":
		s.mutators = without(s.mutators, name)
	case "Pipeline":
		s.pipelines = without(s.pipelines, name)
	case "Window":
		s.windows = without(s.windows, name)
	}
}

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
