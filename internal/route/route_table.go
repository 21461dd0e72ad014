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

// Table has the compiled routes, silences and windows that apply now. It is safe for concurrent use.
type Table struct {
	mu      sync.RWMutex
	changed chan struct{}
	// receivers counts changes of routes and handler lists, from 1 on.
	receivers uint64
	routes    *index[*Route] // indexed by spec.match of the route
	silences  *index[*model.SilenceSpec]
	windows   *index[namedWindow] // indexed by spec.maintenance of the window
}

// namedWindow is a compiled Window (a named calendar) with its reason.
type namedWindow struct {
	calendar *window.Calendar
	reason   string
}

// NewTable returns a table without routes, silences and windows.
func NewTable() *Table {
	return &Table{changed: make(chan struct{}), receivers: 1, routes: newIndex[*Route](), silences: newIndex[*model.SilenceSpec](), windows: newIndex[namedWindow]()}
}

// ChangeChannel returns a channel that is closed at the next change of the table.
func (t *Table) ChangeChannel() <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changed
}

// ReceiversVersion returns a counter that grows whenever a changed route or default may give open problems
// other recipients.
func (t *Table) ReceiversVersion() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.receivers
}

// NotifyChange tells the goroutines waiting on ChangeChannel that the table of routes has changed. It is for
// changes outside the table, such as other handlers of a check. receivers says that handler lists changed.
func (t *Table) NotifyChange(receivers bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if receivers {
		t.receivers++
	}
	t.closeChangeChannel()
}

// closeChangeChannel closes the channel that announces changes of the table, and makes a new channel. The
// caller holds mu.
func (t *Table) closeChangeChannel() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Apply compiles Routes, Silences and Windows into the table, and removes deleted resources. It ignores other kinds.
// Its error joins the errors of all resources that do not compile; the former versions of those still apply.
func (t *Table) Apply(list []Declaration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := false
	var failed []error
	for _, d := range list {
		switch d.Spec.(type) {
		case nil:
			switch d.Kind {
			case "Route":
				t.routes.remove(d.Name)
			case "Silence":
				t.silences.remove(d.Name)
			case "Window":
				t.windows.remove(d.Name)
			}
		case *model.RouteSpec, *model.SilenceSpec, *model.WindowSpec:
			if err := t.set(d); err != nil {
				failed = append(failed, fmt.Errorf("%s %s: %w", d.Kind, d.Name, err))
			}
		default:
			continue
		}
		if changed = true; d.Kind == "Route" {
			t.receivers++
		}
	}
	if changed {
		t.closeChangeChannel()
	}
	return errors.Join(failed...)
}

// WithRoutes returns a copy of the table's routes with changes applied, for a preview. It has no silences and
// windows.
func (t *Table) WithRoutes(list []Declaration) (*Table, error) {
	out := NewTable()
	t.mu.RLock()
	for _, e := range t.routes.entries {
		out.routes.put(e.name, e.selector, e.value)
	}
	t.mu.RUnlock()
	return out, out.Apply(list)
}

// set compiles one declared Route, Silence or Window into the table. An error changes nothing. The caller holds mu.
func (t *Table) set(d Declaration) error {
	name, zone := d.Name, d.Zone
	switch spec := d.Spec.(type) {
	case *model.RouteSpec:
		r, err := newRoute(name, zone, spec)
		if err != nil {
			return err
		}
		return t.routes.set(name, spec.Match, r)
	case *model.SilenceSpec:
		return t.silences.set(name, &spec.Selector, spec)
	case *model.WindowSpec:
		calendar, err := window.New(cmp.Or(spec.TimeZone, zone), spec.Spans)
		if err != nil {
			return err
		}
		return t.windows.set(name, spec.Maintenance, namedWindow{calendar, spec.Reason})
	}
	return nil
}

// Route returns the route with a given name and namespace.
func (t *Table) Route(name Name) (*Route, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := t.routes.entries[name]; e != nil {
		return e.value, true
	}
	return nil, false
}

// Routes returns the routes of a problem, by the first rule that finds any route. The rules are the route that
// its check names, all matching routes, the default of the node's namespace, and the default of namespace
// shared.
func (t *Table) Routes(m *Problem, ref string) (list []*Route) {
	if ref != "" {
		ns, name := model.SplitRef(m.Source.Name.Namespace, ref)
		if r, ok := t.Route(Name{ns, name}); ok {
			return []*Route{r}
		}
	}
	list = t.Matching(m)
	for _, ns := range [...]string{m.Node.Namespace, model.SharedNamespaceName} {
		if r, ok := t.Route(Name{ns, DefaultName}); ok && len(list) == 0 {
			list = append(list, r)
		}
	}
	return list
}

// Matching returns the routes whose selectors match a problem.
func (t *Table) Matching(m *Problem) (list []*Route) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, e := range t.routes.find(m) {
		list = append(list, e.value)
	}
	return list
}

// HoldKind is the kind of reason to delay messages about a problem, such as silence or maintenance.
type HoldKind string

const (
	Silenced    HoldKind = "silenced"
	Maintenance HoldKind = "maintenance"
	Muted       HoldKind = "muted"
)

// These kinds of holds are known to the dispatcher alone.
const (
	Earlier      HoldKind = "opened before its route" // handlers are not notified of a problem that was open already
	Acknowledged HoldKind = "acknowledged"
	OverRate     HoldKind = "over the rate"                                // the message would exceed the route's rate
	ManySilent   HoldKind = "one of many nodes that became silent at once" // a mass outage holds the keepalive problem
)

// Hold is a reason to delay a message about a problem, such as a silence.
type Hold struct {
	Kind          HoldKind  `json:"kind"`
	By            Name      `json:"by"` // name of the silence, window or route
	During        string    `json:"during,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	Creator       string    `json:"creator,omitempty"`
	Until         time.Time `json:"until,omitzero"` // zero: unknown
	Drop          bool      `json:"drop,omitempty"` // the message is dropped instead of sent later
	UntilResolved bool      `json:"untilResolved,omitempty"`
}

// Holds returns all reasons to delay messages about a problem now, such as silences. Silences come first, then
// maintenance windows, then mutes of the route.
func (t *Table) Holds(m *Problem, r *Route, now time.Time) (list []Hold) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, e := range t.silences.find(m) {
		s := e.value
		if now.Before(s.Begin.Time) || !s.Until.IsZero() && !now.Before(s.Until.Time) {
			continue
		}
		list = append(list, Hold{Kind: Silenced, By: e.name, Reason: s.Reason, Creator: s.Creator, Until: s.Until.Time, Drop: s.Drop, UntilResolved: s.UntilResolved})
	}
	for _, e := range t.windows.find(m) {
		if until, inside := e.value.calendar.Active(now); inside {
			list = append(list, Hold{Kind: Maintenance, By: e.name, Reason: e.value.reason, Until: until})
		}
	}
	if r == nil {
		return list
	}
	for _, x := range r.mutes {
		c, reason := x.calendar, ""
		if c == nil {
			w := t.windows.entries[x.window]
			if w == nil {
				continue // apply refuses a mute that names no existing Window; so the Window was deleted later
			}
			c, reason = w.value.calendar, w.value.reason
		}
		if until, inside := c.Active(now); inside && x.selector.matches(m) {
			list = append(list, Hold{Kind: Muted, By: r.Name, During: x.during, Reason: reason, Until: until})
		}
	}
	return list
}

// MayHold reports whether any silence or maintenance window exists that could delay messages.
func (t *Table) MayHold() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.silences.entries)+len(t.windows.entries) > 0
}

// WindowState tells whether a Window (a calendar) is open at a time, and when the state changes next. It tells
// whether the window is open, when it ends, and when it begins next.
type WindowState struct {
	InSpan    bool
	Ends      time.Time // end of the current span; zero: no span is on
	NextStart time.Time // begin of the next span; zero: there is none
}

// Window returns whether a window is open at a time, with its next begin or end. If the window does not exist, ok is
// false.
func (t *Table) Window(name Name, now time.Time) (WindowState, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	w := t.windows.entries[name]
	if w == nil {
		return WindowState{}, false
	}
	at := WindowState{NextStart: w.value.calendar.Next(now)}
	if at.Ends, at.InSpan = w.value.calendar.Active(now); !at.InSpan {
		at.Ends = time.Time{}
	}
	return at, true
}

// Maintained returns a function that reports whether a maintenance window applies to a problem. For a window without
// maintenance it returns nil.
func (t *Table) Maintained(name Name) func(*Problem) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := t.windows.entries[name]; e != nil && e.selector != nil {
		return e.selector.matches
	}
	return nil
}

// NodeFunc returns a function that reports whether a selector selects the node of a Problem. It ignores checks, statuses
// and severities, so the Problem needs only the node.
func NodeFunc(namespace string, s *model.Selector) (func(*Problem) bool, error) {
	c, err := compileSelector(namespace, s)
	if err != nil {
		return nil, err
	}
	c.checks, c.statuses, c.severity = nil, [4]bool{}, 0
	if c.where != nil && (c.where.Reads("source.") || c.where.Reads("check") || c.where.Reads("labels")) {
		c.where = nil
	}
	return c.matches, nil
}

// MatchFunc returns a function that reports whether a selector matches a problem.
func MatchFunc(namespace string, s *model.Selector) (func(*Problem) bool, error) {
	c, err := compileSelector(namespace, s)
	if err != nil {
		return nil, err
	}
	return c.matches, nil
}
