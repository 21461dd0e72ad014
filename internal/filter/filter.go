package filter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Action is the effect of a filter on events for which its expressions are true.
type Action string

const (
	Allow Action = "allow" // passes events for which all expressions are true
	Deny  Action = "deny"  // drops events for which any expression is true
)

// Filter is an event filter as Sensu has it.
type Filter struct {
	action   Action
	programs []*Program
	when     func(time.Time) bool
}

// New compiles a filter. when says at which times it is in force (nil: always): outside,
// allow drops and deny passes everything. The error names every expression that is wrong.
func New(action Action, expressions []string, when func(time.Time) bool, libraries ...Library) (*Filter, error) {
	f := &Filter{action: action, when: when}
	if action != Allow && action != Deny {
		return nil, model.Errorf(model.Invalid, "action %q is neither allow nor deny", action)
	}
	if len(expressions) == 0 {
		return nil, model.Errorf(model.Invalid, "a filter needs at least one expression")
	}
	var wrong []string
	for i, e := range expressions {
		p, err := Compile(e, libraries...)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("expression %d: %v", i+1, err))
		}
		f.programs = append(f.programs, p)
	}
	if wrong != nil {
		return nil, model.Errorf(model.Invalid, "%s", strings.Join(wrong, "; "))
	}
	return f, nil
}

// Verdict is the result of a filter for one event.
type Verdict struct {
	Pass   bool
	Reason string   // reason why the event was dropped, or the error; else empty
	Failed []string // of each expression that could not be evaluated: which, and why; belongs on the event
}

// Decide returns whether an event in Sensu's shape passes. An expression that fails is left out: the other expressions
// decide, and without any the event passes; the verdict holds the error.
func (f *Filter) Decide(ctx context.Context, event map[string]any, now time.Time) Verdict {
	if v, outside := f.NotInForce(now); outside {
		return v
	}
	v := Verdict{Pass: true}
	for i, p := range f.programs {
		answer, err := p.Run(ctx, event, now)
		if err != nil {
			v.Failed = append(v.Failed, fmt.Sprintf("expression %d (%s): %v", i+1, short(p.source), err))
			continue
		}
		if answer == (f.action == Deny) {
			v.Pass = false
			v.Reason = fmt.Sprintf("expression %d (%s) is %t, and the filter's action is %s", i+1, short(p.source), answer, f.action)
			return v
		}
	}
	if v.Failed != nil {
		v.Reason = "passed, although not every expression could be evaluated: " + strings.Join(v.Failed, "; ")
	}
	return v
}

// NotInForce returns the verdict for every event at a time at which the filter is not in force; false: it is in force.
func (f *Filter) NotInForce(now time.Time) (v Verdict, outside bool) {
	if f.when == nil || f.when(now) {
		return v, false
	}
	if f.action == Allow {
		return Verdict{Reason: "the filter allows events at certain times only, and this is none of them"}, true
	}
	return Verdict{Pass: true}, true
}

func short(source string) string {
	line := strings.Join(strings.Fields(source), " ")
	if r := []rune(line); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return line
}
