package filter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Action is the effect of a filter on events for which its expressions are true: allow or deny.
type Action string

const (
	Allow Action = "allow" // passes events for which all expressions are true
	Deny  Action = "deny"  // drops events for which any expression is true
)

// Filter is an event filter with Sensu's semantics: an action and expressions over an event.
type Filter struct {
	action   Action
	programs []*Program
	when     func(time.Time) bool
}

// New compiles the expressions of an event filter. when says at which times it is in force (nil: always): outside
// these times an allow filter drops and a deny filter passes every event. The error names every expression that is
// wrong.
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

// Verdict is the decision of a filter about one event: whether the event passes, and the reason.
type Verdict struct {
	Pass   bool
	Reason string   // reason why the event was dropped, or the error; else empty
	Failed []string // of each expression that could not be evaluated: which, and why; belongs on the event
}

// Decide returns whether the filter lets an event in Sensu's shape pass, with the reason. An expression that fails is
// left out: the other expressions decide, and without any the event passes; the verdict holds the error.
func (f *Filter) Decide(ctx context.Context, event map[string]any, now time.Time) Verdict {
	if v, outside := f.DecisionWhileInactive(now); outside {
		return v
	}
	v := Verdict{Pass: true}
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

// DecisionWhileInactive returns the decision for all events at a time outside of the filter's time window; false: the
// filter is active now.
func (f *Filter) DecisionWhileInactive(now time.Time) (v Verdict, outside bool) {
	if f.when == nil || f.when(now) {
		return v, false
	}
	if f.action == Allow {
		return Verdict{Reason: "the filter allows events only at certain times, not now"}, true
	}
	return Verdict{Pass: true}, true
}

// shortenSource shortens the source of an expression to one line of at most 60 characters.
func shortenSource(source string) string {
	line := strings.Join(strings.Fields(source), " ")
	if r := []rune(line); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return line
}

// Subject has an event and the additional fields that Sensu's form of an event contains.
type Subject struct {
	Event         *model.Event
	ID            string // id of this event
	NodeLabels    map[string]string
	NodeNotes     map[string]string // annotations of the node
	NodeClass     string            // agent or proxy; empty: agent
	Groups        []string
	CheckLabels   map[string]string
	CheckNotes    map[string]string // annotations of the check
	CheckGroups   []string
	Command       string
	Interval      time.Duration
	TTL           time.Duration
	Timeout       time.Duration
	Handlers      []string
	Silenced      []string      // names of the silences that hold
	Issued        time.Time     // when the run was asked for; zero: when it ran
	Before        *model.Status // status of the former result; nil: the status is taken from the history
	FlappingBegan bool
	FlappingEnded bool
}

// Shape converts an event to the JSON structure of Sensu: times in seconds since 1970, durations in seconds. Node and
// groups are entity and subscriptions.
func Shape(s Subject) map[string]any {
	e := s.Event
	issued := s.Issued
	if issued.IsZero() {
		issued = e.Executed
	}
	history := make([]any, len(e.History))
	for i, status := range e.History {
		history[i] = map[string]any{"status": int(status), "executed": 0} // the history has no times
	}
	if n := len(history); n > 0 {
		history[n-1].(map[string]any)["executed"] = seconds(e.Executed)
	}
	check := map[string]any{
		"metadata": metadataShape(e.Check, e.Namespace, s.CheckLabels, s.CheckNotes), "name": e.Check, "labels": nonNilLabels(s.CheckLabels), "annotations": nonNilLabels(s.CheckNotes),
		"command": s.Command, "interval": wholeSeconds(s.Interval), "ttl": wholeSeconds(s.TTL), "timeout": wholeSeconds(s.Timeout),
		"subscriptions": nonNilList(s.CheckGroups), "handlers": nonNilList(s.Handlers),
		"status": int(e.Status), "output": e.Output, "state": e.State, "history": history,
		"occurrences": e.Occurrences, "occurrences_watermark": e.Watermark, "total_state_change": e.Change,
		"issued": seconds(issued), "executed": seconds(e.Executed), "last_ok": seconds(e.LastOK), "duration": time.Duration(e.Duration).Seconds(),
		"silenced": nonNilList(s.Silenced), "is_silenced": len(s.Silenced) > 0, "hooks": hooksShape(e.Hooks),
	}
	class := s.NodeClass
	if class == "" {
		class = "agent"
	}
	before, known := statusBefore(s)
	shape := map[string]any{
		"metadata": map[string]any{"namespace": e.Namespace}, "id": s.ID, "timestamp": seconds(e.Received),
		"entity": map[string]any{
			"metadata": metadataShape(e.Node, e.Namespace, s.NodeLabels, s.NodeNotes), "name": e.Node, "labels": nonNilLabels(s.NodeLabels), "annotations": nonNilLabels(s.NodeNotes),
			"entity_class": class, "subscriptions": nonNilList(s.Groups), "last_seen": seconds(e.Received),
		},
		"check": check, "has_check": true, "has_metrics": len(e.Values) > 0,
		"is_incident": e.Status != model.OK, "is_resolution": known && before != model.OK && e.Status == model.OK,
		"is_silenced": len(s.Silenced) > 0, "is_flapping_start": s.FlappingBegan, "is_flapping_end": s.FlappingEnded,
	}
	if e.CheckID == model.MetricsCheck { // an event with metrics alone has no check in Sensu
		delete(shape, "check")
		shape["has_check"] = false
	}
	if len(e.Values) > 0 {
		shape["metrics"] = map[string]any{"handlers": []string{}, "points": pointsShape(e)}
	}
	return shape
}

// statusBefore returns the status before the event's last result; false: unknown.
func statusBefore(s Subject) (model.Status, bool) {
	if s.Before != nil {
		return *s.Before, true
	}
	if n := len(s.Event.History); n > 1 {
		return s.Event.History[n-2], true
	}
	return model.OK, false
}

// metadataShape converts name, namespace, labels and annotations to their form in Sensu's events.
func metadataShape(name, namespace string, of, notes map[string]string) map[string]any {
	return map[string]any{"name": name, "namespace": namespace, "labels": nonNilLabels(of), "annotations": nonNilLabels(notes)}
}

// pointsShape converts the measured values of an event to metric points as in Sensu's events.
func pointsShape(e *model.Event) []any {
	points := make([]any, len(e.Values))
	for i, v := range e.Values {
		at := v.At
		if at.IsZero() {
			at = e.Executed
		}
		tags := []any{}
		for name, value := range v.Tags {
			tags = append(tags, map[string]any{"name": name, "value": value})
		}
		points[i] = map[string]any{"name": v.Name, "value": v.Value, "timestamp": seconds(at), "tags": tags}
	}
	return points
}

// hooksShape converts hook results to their form in Sensu's events.
func hooksShape(of []model.HookResult) []any {
	out := make([]any, len(of))
	for i, h := range of {
		out[i] = map[string]any{"metadata": map[string]any{"name": h.Name}, "status": int(h.Status), "output": h.Output, "duration": time.Duration(h.Duration).Seconds()}
	}
	return out
}

// seconds converts a time to seconds since 1970; the zero time gives 0.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// wholeSeconds converts a duration to whole seconds.
func wholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }

// nonNilLabels replaces nil by an empty map, so that reading an unset label is no error, as in Sensu.
func nonNilLabels(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// nonNilList replaces nil by an empty list.
func nonNilList(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}
