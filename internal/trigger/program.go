package trigger

import (
	"fmt"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// Result is the outcome of evaluating a trigger expression: true, false or unknown.
type Result uint8

// Outcomes of evaluations.
const (
	Unknown Result = iota // an operand has no value; Eval gives the reason
	False
	True
)

var resultNames = [...]string{"unknown", "false", "true"}

// String returns the name of the result.
func (r Result) String() string { return resultNames[r] }

// Scope finds the items and the values of macros that an expression names.
type Scope struct {
	// Item returns the position and the type of an item; an empty host is the node itself.
	Item func(host, key string) (position int, t item.Type, err error)
	// Macro returns the value of a macro such as {$NAME}; nil: no macro has a value.
	Macro func(macro string) (string, error)
	// Aggregates reports whether the expression may read several nodes; Aggregate evaluates such a Program.
	Aggregates bool
	// Zone is the zone of dates and of time shifts such as now/d; nil: UTC.
	Zone *time.Location
}

// Program is a compiled trigger expression. It is immutable; all nodes with equal items share it.
type Program struct {
	source string
	root   evaluator
	specs  []spec
	timers []timer
	groups []Selection
}

// evaluator is the compiled form of a part of an expression: a function that computes the part's operand from the
// stored values.
type evaluator func(w *Windows) operand

// timer is a function that returns the next time after w.now at which a time function, such as now(), changes without new
// values, or 0 if it never changes.
type timer func(w *Windows) int64

// Windows is the state of one compiled expression on one node: the recent values of its items, one window (a period or
// a number of values) per function call.
type Windows struct {
	// Problem is the state of the trigger, which {TRIGGER.VALUE} reads; the caller sets it.
	Problem bool
	since   int64 // nodata counts from here
	now     int64 // the latest time that an evaluation or a value had
	list    []window
	groups  [][]float64 // by index of the selection: a value per item
}

// Positions returns the list positions of the items that the program reads, in the order of the expression.
func (p *Program) Positions() []int {
	var out []int
	seen := map[int]bool{}
	for i := range p.specs {
		if position := p.specs[i].position; !seen[position] {
			seen[position] = true
			out = append(out, position)
		}
	}
	return out
}

// String returns the text of the expression.
func (p *Program) String() string { return p.source }

// Timed reports whether the program has time functions, so that its result can change without new values.
func (p *Program) Timed() bool { return len(p.timers) > 0 }

// New returns the state of the program on a node before the first value: windows without values. A value is missing for
// nodata() only when its period has passed since a time, in nanoseconds: the creation of the item or the last start of
// the server.
func (p *Program) New(since int64) *Windows {
	w := &Windows{since: since, now: since, list: make([]window, len(p.specs))}
	for i := range p.specs {
		w.list[i].grain = p.specs[i].grain
		w.list[i].end = math.MinInt64
	}
	return w
}

// Restart makes the function nodata() count from this time, such as the start of the server.
func (w *Windows) Restart(at int64) { w.since = max(w.since, at) }

// Adopt returns windows for a changed expression, with the state of those windows that the old program had too.
func (p *Program) Adopt(old *Program, state *Windows) *Windows {
	w := p.New(state.since)
	w.Problem, w.now = state.Problem, state.now
	for i := range p.specs {
		for j := range old.specs {
			if p.specs[i].signature == old.specs[j].signature {
				w.list[i] = state.list[j]
			}
		}
	}
	return w
}

// Add adds a value of the item at a position to the windows that read it. A value older than others is placed by its
// time. NaN is no value.
func (p *Program) Add(w *Windows, position int, s item.Sample) {
	if s.Value.Kind() == item.None || s.Value.Kind() == item.FloatValue && math.IsNaN(s.Value.Float()) {
		return
	}
	w.now = max(w.now, s.At)
	for i := range p.specs {
		if p.specs[i].position == position {
			w.list[i].add(&p.specs[i], s.At, w.now, s.Value)
		}
	}
}

// Eval evaluates the expression at a time, or at the time of the newest value, if that is later. The reason tells why a
// result is Unknown.
func (p *Program) Eval(w *Windows, now int64) (result Result, reason string) {
	w.now = max(w.now, now)
	for i := range p.specs {
		w.list[i].advance(&p.specs[i], w.now)
	}
	o := p.root(w).number()
	switch {
	case o.isUnknown():
		return Unknown, o.reason
	case o.isZero():
		return False, ""
	}
	return True, ""
}

// Value evaluates the expression of a calculated item as Eval does, and returns its value. The error of an unknown
// value is its reason.
func (p *Program) Value(w *Windows, now int64) (item.Value, error) {
	w.now = max(w.now, now)
	for i := range p.specs {
		w.list[i].advance(&p.specs[i], w.now)
	}
	o := p.root(w)
	if o.isUnknown() {
		return item.Value{}, fmt.Errorf("%s", o.reason)
	}
	return o.Value, nil
}

// Deadline returns the next time at which a time function changes the result without a new value, or 0 if that never
// happens.
func (p *Program) Deadline(w *Windows) int64 {
	var next int64
	for _, t := range p.timers {
		if at := t(w); at > w.now && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}
