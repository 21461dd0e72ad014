// Package pipes holds the resources kept from Sensu (filters, mutators, pipelines), compiled, and
// decides by them about events. Package react shows it events and delivers those that pass.
//
// The planner calls Table.Set and Table.Remove; Table.Judge uses the state at its start. No lock is
// held while JavaScript runs: the state is immutable and replaced by changes. No goroutines. Start
// reading at judge.go.
package pipes

import (
	"cmp"
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

// Table is the state in force. Safe for concurrent use.
type Table struct {
	// Libraries reads the JavaScript of Assets, NAMESPACE/NAME; see Find. Nil: there is none. Set
	// it before any other call.
	Libraries Find

	mu    sync.Mutex // of writers
	state atomic.Pointer[state]
}

// state is immutable.
type state struct {
	filters   map[route.Name]*scripted[*filter.Filter]
	mutators  map[route.Name]*Mutator
	pipelines map[route.Name]*model.PipelineSpec
	windows   map[route.Name]*window.Calendar
}

// Mutator is a compiled model.MutatorSpec. Immutable.
type Mutator struct {
	Spec       *model.MutatorSpec
	Javascript *scripted[*filter.Mutation] // nil: a command
}

// NewTable returns an empty table.
func NewTable() *Table {
	t := &Table{}
	t.state.Store(&state{
		filters: map[route.Name]*scripted[*filter.Filter]{}, mutators: map[route.Name]*Mutator{},
		pipelines: map[route.Name]*model.PipelineSpec{}, windows: map[route.Name]*window.Calendar{},
	})
	return t
}

// Apply puts Filters, Mutators, Pipelines and Windows in force, all at once, and removes deleted ones. It
// ignores other kinds. The error joins those of all declarations that do not compile; what they replace
// stays in force.
func (t *Table) Apply(list []route.Declaration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.state.Load()
	next := state{maps.Clone(now.filters), maps.Clone(now.mutators), maps.Clone(now.pipelines), maps.Clone(now.windows)}
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
		var assets []string
		for _, ref := range spec.Assets {
			assets = append(assets, model.QualifyRef(name.Namespace, ref))
		}
		f, err := newScripted(t.find, assets, func(libraries []filter.Library) (*filter.Filter, error) {
			return filter.New(filter.Action(spec.Action), spec.Expressions, when, libraries...)
		})
		if err != nil {
			return err
		}
		next.filters[name] = f
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
		next.mutators[name] = m
	case *model.PipelineSpec:
		next.pipelines[name] = spec
	case *model.WindowSpec:
		c, err := window.New(cmp.Or(spec.TimeZone, zone), spec.Spans)
		if err != nil {
			return err
		}
		next.windows[name] = c
	}
	return nil
}

func (s *state) remove(kind string, name route.Name) {
	switch kind {
	case "Filter":
		delete(s.filters, name)
	case "Mutator":
		delete(s.mutators, name)
	case "Pipeline":
		delete(s.pipelines, name)
	case "Window":
		delete(s.windows, name)
	}
}

// Mutator returns a declared mutator; not ok if none has the name or it is built in.
func (t *Table) Mutator(name route.Name) (*Mutator, bool) {
	m, ok := t.state.Load().mutators[name]
	return m, ok
}

// when returns the times in which a filter is in force; nil: always. A Window is looked up at each
// event, because it may change.
func (t *Table) when(name route.Name, zone string, w *model.FilterWhen) (func(time.Time) bool, error) {
	if w == nil {
		return nil, nil
	}
	if w.Window != "" {
		ns, of := model.SplitRef(name.Namespace, w.Window)
		return func(now time.Time) bool {
			c := t.state.Load().windows[route.Name{Namespace: ns, Name: of}]
			if c == nil {
				return true // intent refuses to delete a window in use; this filter comes from another version
			}
			_, inside := c.Active(now)
			return inside
		}, nil
	}
	c, err := window.New(cmp.Or(w.TimeZone, zone), w.Spans)
	if err != nil {
		return nil, err
	}
	return func(now time.Time) bool {
		_, inside := c.Active(now)
		return inside
	}, nil
}

// Find reads the JavaScript of Assets; key identifies the contents. Where they are still known, it
// reads nothing.
type Find func(assets []string, known string) (list []filter.Library, key string, err error)

// scripted is JavaScript with libraries from Assets. It is compiled again when the libraries
// change.
type scripted[T any] struct {
	plain   T // without libraries
	assets  []string
	find    Find
	compile func([]filter.Library) (T, error)

	mu    sync.Mutex
	key   string
	whole T
	err   error // of compiling with the libraries
}

func newScripted[T any](find Find, assets []string, compile func([]filter.Library) (T, error)) (*scripted[T], error) {
	plain, err := compile(nil)
	return &scripted[T]{plain: plain, assets: assets, find: find, compile: compile}, err
}

// get returns the compiled program; the error names a missing asset or the fault in its JavaScript.
func (s *scripted[T]) get() (T, error) {
	if len(s.assets) == 0 {
		return s.plain, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list, key, err := s.find(s.assets, s.key)
	if err != nil {
		var none T
		return none, err
	}
	if key != s.key {
		s.key = key
		s.whole, s.err = s.compile(list)
	}
	return s.whole, s.err
}

// find calls Libraries where there are assets.
func (t *Table) find(assets []string, known string) ([]filter.Library, string, error) {
	if t.Libraries == nil {
		return nil, "", model.Errorf(model.Unavailable, "this server has no Assets")
	}
	return t.Libraries(assets, known)
}
