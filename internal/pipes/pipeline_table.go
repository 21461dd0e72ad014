// Package pipes compiles the resources kept from Sensu (filters, mutators, pipelines) and decides by them about
// events. Package dispatch passes events to it and delivers those that a workflow lets through.
//
// The server calls Table.Apply with changed declarations; Table.Decide uses the resources in force at its start.
// No lock is held while JavaScript runs, because a change replaces the immutable state. No goroutines. Start
// reading at workflow_decisions.go.
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

// Table has the compiled filters, mutators and pipelines through which the server passes events. It also has
// the windows (calendars). Safe for concurrent use.
type Table struct {
	// Libraries reads the JavaScript of Assets (NAMESPACE/NAME), see FindScripts; nil: there are no Assets. Set it
	// before any other call.
	Libraries FindScripts

	mu    sync.Mutex // serializes changes of the state
	state atomic.Pointer[compiledState]
}

// compiledState has all compiled resources of one version of a Table. The resources are filters, mutators,
// pipelines and windows. It is immutable.
type compiledState struct {
	filters   map[route.Name]*assetScript[*filter.Filter]
	mutators  map[route.Name]*Mutator
	pipelines map[route.Name]*model.PipelineSpec
	windows   map[route.Name]*window.Calendar
}

// Mutator is a declared mutator, which changes an event's JSON, with its compiled JavaScript. It is immutable.
type Mutator struct {
	Spec       *model.MutatorSpec
	Javascript *assetScript[*filter.Mutation] // nil: the mutator is a command
}

// NewTable returns a table without filters, mutators and pipelines
func NewTable() *Table {
	t := &Table{}
	t.state.Store(&compiledState{
		filters: map[route.Name]*assetScript[*filter.Filter]{}, mutators: map[route.Name]*Mutator{},
		pipelines: map[route.Name]*model.PipelineSpec{}, windows: map[route.Name]*window.Calendar{},
	})
	return t
}

// Apply updates the compiled Filters, Mutators, Pipelines and Windows after changes of the declared resources. It
// ignores other kinds. The error joins those of all declarations that do not compile; what they replace stays in
// force.
func (t *Table) Apply(list []route.Declaration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.state.Load()
	next := compiledState{maps.Clone(now.filters), maps.Clone(now.mutators), maps.Clone(now.pipelines), maps.Clone(now.windows)}
	var failed []error
	for _, d := range list {
		if d.Spec == nil {
			next.removeDeclaration(d.Kind, d.Name)
		} else if err := t.setDeclaration(&next, d); err != nil {
			failed = append(failed, fmt.Errorf("%s %s: %w", d.Kind, d.Name, err))
		}
	}
	t.state.Store(&next)
	return errors.Join(failed...)
}

// setDeclaration compiles one declared resource for the next version of the table. After an error that state is
// unchanged.
func (t *Table) setDeclaration(next *compiledState, d route.Declaration) error {
	name, zone := d.Name, d.Zone
	switch spec := d.Spec.(type) {
	case *model.FilterSpec:
		when, err := t.filterActivity(name, zone, spec.When)
		if err != nil {
			return err
		}
		var assets []string
		for _, ref := range spec.Assets {
			assets = append(assets, model.QualifyRef(name.Namespace, ref))
		}
		f, err := newAssetScript(t.findLibraries, assets, func(libraries []filter.Library) (*filter.Filter, error) {
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
			m.Javascript, err = newAssetScript(t.findLibraries, within.Assets, func(libraries []filter.Library) (*filter.Mutation, error) {
				return filter.CompileMutation(spec.Javascript, append(filter.VariablesLibrary(spec.Env), libraries...)...)
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

// removeDeclaration removes the compiled resource of the given kind and name from the next version of the
// table.
func (s *compiledState) removeDeclaration(kind string, name route.Name) {
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

// HasPipeline reports whether a pipeline exists.
func (t *Table) HasPipeline(name route.Name) bool { return t.state.Load().pipelines[name] != nil }

// Mutator returns the declared mutator of the given name. The result ok is false if it does not exist or is built in.
func (t *Table) Mutator(name route.Name) (*Mutator, bool) {
	m, ok := t.state.Load().mutators[name]
	return m, ok
}

// filterActivity returns a function that reports whether a filter is active at a given time. It returns nil if the filter
// is always active. The function looks up a Window for each event, because the Window may change.
func (t *Table) filterActivity(name route.Name, zone string, w *model.FilterWhen) (func(time.Time) bool, error) {
	if w == nil {
		return nil, nil
	}
	if w.Window != "" {
		ns, of := model.SplitRef(name.Namespace, w.Window)
		return func(now time.Time) bool {
			c := t.state.Load().windows[route.Name{Namespace: ns, Name: of}]
			if c == nil {
				return true // intent refuses to delete a used Window, so another version of Muster stored this filter
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

// FindScripts is a function that finds the JavaScript files in the archives of Assets. key identifies the content; if
// it still equals known, FindScripts reads no file.
type FindScripts func(assets []string, known string) (list []filter.Library, key string, err error)

// assetScript is a resource's JavaScript together with the libraries from Assets. It is compiled again when the
// libraries change.
type assetScript[T any] struct {
	plain   T // compiled without libraries
	assets  []string
	find    FindScripts
	compile func([]filter.Library) (T, error)

	mu    sync.Mutex
	key   string
	whole T
	err   error // error of compiling with the libraries
}

// newAssetScript compiles JavaScript that uses the libraries in the given Assets.
func newAssetScript[T any](find FindScripts, assets []string, compile func([]filter.Library) (T, error)) (*assetScript[T], error) {
	plain, err := compile(nil)
	return &assetScript[T]{plain: plain, assets: assets, find: find, compile: compile}, err
}

// program returns the compiled JavaScript, and compiles again after a change of the Assets. If the libraries have
// changed, it first compiles the JavaScript again. The error names a missing asset, or the fault in its JavaScript.
func (s *assetScript[T]) program() (T, error) {
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

// findLibraries returns the JavaScript of the named Assets, if the server has an asset store.
func (t *Table) findLibraries(assets []string, known string) ([]filter.Library, string, error) {
	if t.Libraries == nil {
		return nil, "", model.Errorf(model.Unavailable, "this server cannot read JavaScript in Assets: it has no store of assets")
	}
	return t.Libraries(assets, known)
}
