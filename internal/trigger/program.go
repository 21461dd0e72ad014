package trigger

import (
	"fmt"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// Result is the outcome of a trigger expression, which is true, false or unknown.
type Result uint8

// Outcomes of a trigger expression.
const (
	Unknown Result = iota // an operand has no value; Eval gives the reason
	False
	True
)

var resultNames = [...]string{"unknown", "false", "true"}

// String returns the result as a word, such as true or unknown.
func (r Result) String() string { return resultNames[r] }

// Scope gives the compiler the items and macro values that an expression may use.
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
	specs  []windowSpec
	timers []timer
	groups []Selection
}

// evaluator is a compiled part of an expression, as a function that computes the part's value. It is a function
// that computes the part's operand from the stored values.
type evaluator func(w *Windows) operand

// timer returns when a function of time, such as now(), next changes the result of an expression. An example is
// now(), which changes without new values. The time is after w.now; it is 0 if the time function never changes.
type timer func(w *Windows) int64

// Windows has the stored values of one compiled expression on one node. It has the recent values of its items in one
// window per function call. A window covers a period or a number of values.
type Windows struct {
	// Problem is the state of the trigger, which {TRIGGER.VALUE} reads; the caller sets it.
	Problem bool
	since   int64 // nodata counts from here
	now     int64 // the latest time that an evaluation or a value had
	list    []window
	groups  [][]float64 // by index of the selection: a value per item
}

// ItemIndexes returns the indexes of the program's items in the Template's list of items.
func (p *Program) ItemIndexes() []int {
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

// HasTimeFunctions reports whether the program calls time functions, which can change the result without new
// values.
func (p *Program) HasTimeFunctions() bool { return len(p.timers) > 0 }

// NewWindows returns the empty windows (stored values) of the program on a node. Its windows have no values. A
// value is missing for nodata() only when its period has passed since a time, in nanoseconds: the creation of
// the item or the last start of the server.
func (p *Program) NewWindows(since int64) *Windows {
	w := &Windows{since: since, now: since, list: make([]window, len(p.specs))}
	for i := range p.specs {
		w.list[i].grain = p.specs[i].grain
		w.list[i].end = math.MinInt64
	}
	return w
}

// Restart sets a time, such as the server's start, from which nodata() counts missing values.
func (w *Windows) Restart(at int64) { w.since = max(w.since, at) }

// MigrateWindows returns the stored values for a changed expression, copied from equal function calls of the
// old expression. The old program had equal windows.
func (p *Program) MigrateWindows(old *Program, state *Windows) *Windows {
	w := p.NewWindows(state.since)
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

// Add adds a value of an item to the stored values of the program's function calls. position is the position of the
// item. A value older than others is placed by its time. NaN is no value.
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

// Eval evaluates the expression at a given time, and returns true, false or unknown with a reason. If the newest value
// is later, its time counts. The reason tells why a result is Unknown.
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

// Value evaluates the expression of a calculated item, and returns the value of the item. The error of an unknown
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

// Deadline returns when a function of time, such as now(), next changes the result without a new value. It returns 0
// if no time function does.
func (p *Program) Deadline(w *Windows) int64 {
	var next int64
	for _, t := range p.timers {
		if at := t(w); at > w.now && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}
