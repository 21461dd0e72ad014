package route

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// WindowNow is a Window at an instant.
type WindowNow struct {
	Inside bool
	Ends   time.Time // of the span that is on; zero: none is
	Begins time.Time // of the next span; zero: there is none
}

// Window says whether a window is on, until when, and when it is next; false: there is none
// of the name.
func (t *Table) Window(name Name, now time.Time) (WindowNow, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	w := t.windows[name]
	if w == nil {
		return WindowNow{}, false
	}
	at := WindowNow{Begins: w.calendar.Next(now)}
	if at.Ends, at.Inside = w.calendar.Active(now); !at.Inside {
		at.Ends = time.Time{}
	}
	return at, true
}

// Maintained says which problems a window keeps back while it is on; nil: it maintains none.
func (t *Table) Maintained(name Name) func(*Problem) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := t.maintenance.entries[name]; e != nil {
		return e.selector.takes
	}
	return nil
}

// Nodes says which nodes a selector of a namespace names, whatever checks, statuses and
// severities it has: of each asks with a Problem of the node.
func Nodes(namespace string, s *model.Selector) (func(*Problem) bool, error) {
	c, err := compile(namespace, s)
	if err != nil {
		return nil, err
	}
	c.checks, c.statuses, c.severity = nil, [4]bool{}, 0
	if c.where != nil && (c.where.Reads("source.") || c.where.Reads("check")) {
		c.where = nil
	}
	return c.takes, nil
}

// Picks says which problems a selector of a namespace picks.
func Picks(namespace string, s *model.Selector) (func(*Problem) bool, error) {
	c, err := compile(namespace, s)
	if err != nil {
		return nil, err
	}
	return c.takes, nil
}
