package filter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Action says whether a filter allows (passes) or denies (drops) the events that match its expressions. An
// event matches if the filter's expressions are true.
type Action string

const (
	Allow Action = "allow" // passes events for which all expressions are true
	Deny  Action = "deny"  // drops events for which any expression is true
)

// Filter is a compiled Sensu event filter, with an action (allow or deny), expressions and time windows. It has
// an action (allow or deny) and expressions over an event.
type Filter struct {
	action   Action
	programs []*Program
	when     func(time.Time) bool
}

// New compiles the JavaScript expressions of a Sensu event filter. when returns whether a time is among the filter's
// (nil: it has none), see DecideByTime. The error names every expression that is wrong.
func New(action Action, expressions []string, when func(time.Time) bool, libraries ...Library) (*Filter, error) {
	f := &Filter{action: action, when: when}
	if action != Allow && action != Deny {
		return nil, model.Errorf(model.Invalid, "filter action %q is neither allow nor deny", action)
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

// Decision says whether a filter passes or drops one event, with the reason.
type Decision struct {
	Pass   bool
	Reason string   // reason why the event was dropped, or the error; else empty
	Failed []string // of each expression that could not be evaluated: which, and why; belongs on the event
}

// Decide returns whether the filter lets a Sensu event pass or drops the event, with the reason. An expression that
// fails is left out: the other expressions decide, and without any the event passes; the verdict holds the error.
func (f *Filter) Decide(ctx context.Context, event map[string]any, now time.Time) Decision {
	if v, decided := f.DecideByTime(now); decided {
		return v
	}
	v := Decision{Pass: true}
	for i, p := range f.programs {
		answer, err := p.Run(ctx, event, now)
		if err != nil {
			v.Failed = append(v.Failed, fmt.Sprintf("expression %d (%s): %v", i+1, shortenSource(p.source), err))
			continue
		}
		if answer == (f.action == Deny) {
			v.Pass = false
			v.Reason = fmt.Sprintf("expression %d (%s) is %t, and the filter's action is %s", i+1, shortenSource(p.source), answer, f.action)
			return v
		}
	}
	if v.Failed != nil {
		v.Reason = "passed, although the evaluation of some expressions failed: " + strings.Join(v.Failed, "; ")
	}
	return v
}

// DecideByTime passes or drops an event by the filter's time windows alone, if the windows suffice. An allow
// filter drops events outside its windows, a deny filter drops events inside. False: the expressions decide.
func (f *Filter) DecideByTime(now time.Time) (v Decision, decided bool) {
	switch {
	case f.when == nil || f.when(now) == (f.action == Allow):
		return v, false
	case f.action == Allow:
		return Decision{Reason: "the filter allows events only at certain times, not now"}, true
	}
	return Decision{Reason: "the filter denies all events at certain times, such as now"}, true
}

// shortenSource shortens the source of an expression to one line of at most 60 characters.
func shortenSource(source string) string {
	line := strings.Join(strings.Fields(source), " ")
	if r := []rune(line); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return line
}
