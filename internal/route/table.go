package route

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/window"
)

// Table holds the routes, silences and windows in force. Safe for concurrent use.
type Table struct {
	mu          sync.RWMutex
	changed     chan struct{}
	routes      map[Name]*Route
	matching    *index[*Route] // the routes with match
	silences    *index[*silence]
	windows     map[Name]*namedWindow
	maintenance *index[*namedWindow] // the windows with maintenance
}

type silence struct {
	name Name
	spec *model.SilenceSpec
}

// namedWindow is a compiled Window.
type namedWindow struct {
	name     Name
	calendar *window.Calendar
	reason   string
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{changed: make(chan struct{}), routes: map[Name]*Route{}, matching: newIndex[*Route](), silences: newIndex[*silence](),
		windows: map[Name]*namedWindow{}, maintenance: newIndex[*namedWindow]()}
}

// Changed returns a channel that the next change closes.
func (t *Table) Changed() <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changed
}

// Announce wakes the waiters of Changed after another change that decides about notifications.
func (t *Table) Announce() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.announce()
}

// announce wakes the waiters of Changed. The caller holds mu.
func (t *Table) announce() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Apply puts Routes, Silences and Windows in force and removes deleted ones. It ignores other kinds. The
// error joins the errors of all declarations that do not compile; the former ones stay in force.
func (t *Table) Apply(list []Declaration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := false
	var failed []error
	for _, d := range list {
		switch d.Spec.(type) {
		case nil:
			t.remove(d.Kind, d.Name)
		case *model.RouteSpec, *model.SilenceSpec, *model.WindowSpec:
			if err := t.set(d); err != nil {
				failed = append(failed, fmt.Errorf("%s %s: %w", d.Kind, d.Name, err))
			}
		default:
			continue
		}
		changed = true
	}
	if changed {
		t.announce()
	}
	return errors.Join(failed...)
}

// set compiles one declaration and puts it in force. After an error nothing is changed. The caller holds mu.
func (t *Table) set(d Declaration) error {
	name, zone := d.Name, d.Zone
	switch spec := d.Spec.(type) {
	case *model.RouteSpec:
		r, err := newRoute(name, zone, spec)
		if err != nil {
			return err
		}
		var match *selector
		if spec.Match != nil {
			if match, err = compile(name.Namespace, spec.Match); err != nil {
				return err
			}
		}
		t.routes[name] = r
		if t.matching.remove(name); match != nil {
			t.matching.set(name, match, r)
		}
	case *model.SilenceSpec:
		s, err := compile(name.Namespace, &spec.Selector)
		if err != nil {
			return err
		}
		t.silences.set(name, s, &silence{name, spec})
	case *model.WindowSpec:
		calendar, err := window.New(cmp.Or(spec.TimeZone, zone), spec.Spans)
		if err != nil {
			return err
		}
		var covers *selector
		if spec.Maintenance != nil {
			if covers, err = compile(name.Namespace, spec.Maintenance); err != nil {
				return err
			}
		}
		w := &namedWindow{name, calendar, spec.Reason}
		t.windows[name] = w
		if t.maintenance.remove(name); covers != nil {
			t.maintenance.set(name, covers, w)
		}
	}
	return nil
}

// remove takes one declaration out of force. The caller holds mu.
func (t *Table) remove(kind string, name Name) {
	switch kind {
	case "Route":
		delete(t.routes, name)
		t.matching.remove(name)
	case "Silence":
		t.silences.remove(name)
	case "Window":
		delete(t.windows, name)
		t.maintenance.remove(name)
	}
}

// Route returns the route of a name.
func (t *Table) Route(name Name) (*Route, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, ok := t.routes[name]
	return r, ok
}

// Routes returns the routes for a problem, by name: the one that the check names (ref, relative to
// the check's namespace), else all that match, else default of the node's namespace, else default
// of shared.
func (t *Table) Routes(m *Problem, ref string) (list []*Route) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if ref != "" {
		ns, name := model.SplitRef(m.Source.Name.Namespace, ref)
		if r := t.routes[Name{ns, name}]; r != nil {
			return []*Route{r}
		}
	}
	for _, e := range t.matching.find(m) {
		list = append(list, t.routes[e])
	}
	for _, ns := range [...]string{m.Node.Namespace, model.SharedNamespaceName} {
		if r := t.routes[Name{ns, DefaultName}]; r != nil && len(list) == 0 {
			list = append(list, r)
		}
	}
	return list
}

// Matching returns the routes that match the problem.
func (t *Table) Matching(m *Problem) (list []*Route) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, e := range t.matching.find(m) {
		list = append(list, t.routes[e])
	}
	return list
}

// HoldKind is the kind of a reason to hold a message.
type HoldKind string

const (
	Silenced    HoldKind = "silenced"
	Maintenance HoldKind = "maintenance"
	Muted       HoldKind = "muted"
)

// Kinds of holds that only the reactor knows.
const (
	Acknowledged HoldKind = "acknowledged"
	OverRate     HoldKind = "over the rate" // the message would exceed the route's rate
	ManySilent   HoldKind = "one of many nodes that became silent at once"
)

// Hold is one reason why a problem's message waits.
type Hold struct {
	Kind          HoldKind  `json:"kind"`
	By            Name      `json:"by"` // the silence, window or route
	During        string    `json:"during,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	Creator       string    `json:"creator,omitempty"`
	Until         time.Time `json:"until,omitzero"` // zero: unknown
	Drop          bool      `json:"drop,omitempty"` // the message is dropped, not sent later
	UntilResolved bool      `json:"untilResolved,omitempty"`
}

// Holds returns all reasons why messages about the problem wait now: silences, then maintenance,
// then the mutes of a route.
func (t *Table) Holds(m *Problem, r *Route, now time.Time) (list []Hold) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, name := range t.silences.find(m) {
		s := t.silences.entries[name].value.spec
		if now.Before(s.Begin.Time) || !s.Until.IsZero() && !now.Before(s.Until.Time) {
			continue
		}
		list = append(list, Hold{Kind: Silenced, By: name, Reason: s.Reason, Creator: s.Creator, Until: s.Until.Time, Drop: s.Drop, UntilResolved: s.UntilResolved})
	}
	for _, name := range t.maintenance.find(m) {
		if until, inside := t.windows[name].calendar.Active(now); inside {
			list = append(list, Hold{Kind: Maintenance, By: name, Reason: t.windows[name].reason, Until: until})
		}
	}
	if r == nil {
		return list
	}
	for _, x := range r.mutes {
		c, reason := x.calendar, ""
		if c == nil {
			w := t.windows[x.window]
			if w == nil {
				continue // apply refuses a mute without its window; the window was deleted later
			}
			c, reason = w.calendar, w.reason
		}
		if until, inside := c.Active(now); inside && x.selector.matches(m) {
			list = append(list, Hold{Kind: Muted, By: r.Name, During: x.during, Reason: reason, Until: until})
		}
	}
	return list
}

// WindowState is a Window at an instant.
type WindowState struct {
	Inside bool
	Ends   time.Time // end of the current span; zero: no span is on
	Begins time.Time // begin of the next span; zero: there is none
}

// Window returns the state of a window at an instant; false if no window has the name.
func (t *Table) Window(name Name, now time.Time) (WindowState, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	w := t.windows[name]
	if w == nil {
		return WindowState{}, false
	}
	at := WindowState{Begins: w.calendar.Next(now)}
	if at.Ends, at.Inside = w.calendar.Active(now); !at.Inside {
		at.Ends = time.Time{}
	}
	return at, true
}

// Maintained returns the function that matches problems under maintenance by a window; nil if it
// maintains none.
func (t *Table) Maintained(name Name) func(*Problem) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := t.maintenance.entries[name]; e != nil {
		return e.selector.matches
	}
	return nil
}

// NodeFunc returns a function that matches the nodes of a selector, ignoring checks, statuses and
// severities. Call it with a Problem that has only the node.
func NodeFunc(namespace string, s *model.Selector) (func(*Problem) bool, error) {
	c, err := compile(namespace, s)
	if err != nil {
		return nil, err
	}
	c.checks, c.statuses, c.severity = nil, [4]bool{}, 0
	if c.where != nil && (c.where.Reads("source.") || c.where.Reads("check")) {
		c.where = nil
	}
	return c.matches, nil
}

// MatchFunc returns a function that matches the problems of a selector.
func MatchFunc(namespace string, s *model.Selector) (func(*Problem) bool, error) {
	c, err := compile(namespace, s)
	if err != nil {
		return nil, err
	}
	return c.matches, nil
}
