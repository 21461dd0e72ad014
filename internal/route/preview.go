package route

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

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
