package events

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	maxBulkEvents   = 100_000 // of one request
	bulkEventsShown = 10      // in an answer
	// bulkWorkers write at the same time: actions that wait while the journal commits share the next commit.
	bulkWorkers = 128
	// bulkTimeout ends the work before the client's timeout of one minute.
	bulkTimeout = 45 * time.Second
)

// bulkVerb is an action on many events.
type bulkVerb struct {
	verb, summary string
	need          access.Verb
	// skipReason returns the reason to leave an event alone; empty: act on it.
	skipReason func(*event.State) string
}

func bulkVerbs() []bulkVerb {
	open := func(s *event.State) string {
		if s.Problem == nil {
			return "its problem has closed"
		}
		return ""
	}
	return []bulkVerb{
		{"acknowledge", "Acknowledge the open problems of many events", access.Operate, open},
		{"unacknowledge", "Remove the acknowledgement of an open problem", access.Operate, func(s *event.State) string {
			if s.Problem == nil || s.Problem.Ack == nil {
				return "its acknowledgement has ended"
			}
			return ""
		}},
		{"resolve", "Resolve many events: OK until their next results", access.Operate, func(s *event.State) string {
			if s.Status == model.OK && s.Problem == nil {
				return "it is already OK"
			}
			return ""
		}},
		{"delete", "Delete many events; the next result creates an event again", access.Change, func(*event.State) string { return "" }},
	}
}

func registerBulk(at operationSet) {
	for _, v := range bulkVerbs() {
		bulk := op.Post(v.verb+"Events", "/api/v1/events/"+v.verb, "events", v.summary, model.NotFound)
		op.Handle(at, op.ChangesResources(bulk), access.NeedOn(v.need, "event"), func(s *request, ctx context.Context, in *struct{ Body v1.BulkRequest }) (*op.Body[v1.BulkDone], error) {
			return s.runBulkAction(ctx, &v, &in.Body)
		})
	}
}

// bulkEvent is one event of a bulk action.
type bulkEvent struct {
	node     model.NodeID
	check    model.CheckID
	status   model.Status
	severity model.Severity
	problem  string // open when the events were selected; empty: none
}

// runBulkAction selects events, refuses too many, records the action and its author, and acts.
func (s *request) runBulkAction(ctx context.Context, v *bulkVerb, in *v1.BulkRequest) (*op.Body[v1.BulkDone], error) {
	action := wire.Action{Verb: v.verb, Note: in.Note, By: access.CallerOf(ctx).User}
	if !in.Until.IsZero() {
		if v.verb != "acknowledge" {
			return nil, model.Errorf(model.Invalid, "only an acknowledgement has an end time")
		}
		if !in.Until.After(s.Now()) {
			return nil, model.Errorf(model.Invalid, "until %s is in the past", in.Until.Format(time.RFC3339))
		}
		action.Until = uint64(in.Until.UnixMilli())
	}
	selected := describeSelection(in)
	if selected == "" && !in.All {
		return nil, model.Errorf(model.Invalid, "the selection has no filter").WithHint("select with -l LABELS, --where CONDITION, --status, --check, --group, or the whole namespace with --all")
	}
	list, err := s.selectEvents(ctx, v, in)
	if err != nil {
		return nil, err
	}
	out := v1.BulkDone{Matched: len(list), First: []v1.BulkEvent{}, DryRun: in.DryRun}
	for _, e := range list[:min(bulkEventsShown, len(list))] {
		out.First = append(out.First, s.showBulkEvent(e))
	}
	if in.DryRun || len(list) == 0 {
		return op.Answer(out), nil
	}
	counts, err := s.Counts(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	if limit := cmp.Or(in.MaxAffected, max(50, int(counts.States/5))); len(list) > limit && !in.Yes {
		return nil, model.Errorf(model.Guarded, "the selection has %d events; more than %d need --yes", len(list), limit).
			WithHint("list them with --dry-run, then repeat with --yes or --max-affected %d", len(list))
	}
	picked := model.CountNoun(len(list), "event") + " picked"
	note := " (" + cmp.Or(selected, "all") + ")"
	if in.Note != "" {
		note += ": " + in.Note
	}
	ended, err := s.BeginAction(ctx, "a bulk "+v.verb, picked, note)
	if err != nil {
		return nil, err
	}
	out.Left = s.actOnAll(ctx, v, list, action)
	out.Done = out.Matched
	for i := range out.Left {
		out.Done -= out.Left[i].Count
	}
	ended(bulkOutcome(&out))
	return op.Answer(out), nil
}

// bulkOutcome is the outcome for the record of changes.
func bulkOutcome(out *v1.BulkDone) string {
	text := fmt.Sprintf("%d of %d done", out.Done, out.Matched)
	for i := range out.Left {
		text += fmt.Sprintf("; %d skipped: %s", out.Left[i].Count, out.Left[i].Reason)
	}
	return text
}

// describeSelection describes the selection for the record of changes; empty: all events.
func describeSelection(in *v1.BulkRequest) string {
	var words []string
	for _, one := range []struct{ name, value string }{{"node", in.Node}, {"check", in.Check}, {"group", in.Group}, {"status", in.Status}, {"labels", in.Selector}, {"where", in.Where}} {
		if one.value != "" {
			words = append(words, one.name+" "+one.value)
		}
	}
	if len(words) > 0 && in.Namespace != "" {
		words = append([]string{"namespace " + in.Namespace}, words...)
	}
	return strings.Join(words, ", ")
}

// selectEvents returns the selected events that the action changes, worst first.
func (s *request) selectEvents(ctx context.Context, v *bulkVerb, in *v1.BulkRequest) (list []bulkEvent, err error) {
	q, err := BuildQuery(ctx, s.View, &Filter{
		Selection: Selection{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Group: in.Group, Selector: in.Selector},
		Status:    in.Status, Where: in.Where, Problem: v.verb == "acknowledge" || v.verb == "unacknowledge",
	})
	if err != nil {
		return nil, err
	}
	for st, err := range s.AllEvents(ctx, q) {
		if err != nil {
			return nil, err
		}
		if v.skipReason(st) == "" {
			list = append(list, bulkEvent{st.Node, st.Check, st.Status, st.Severity, problemID(st)})
		}
		if len(list) > maxBulkEvents {
			return nil, model.Errorf(model.Invalid, "the selection has more than %d events, the limit of one request", maxBulkEvents).
				WithHint("select fewer: by namespace, group or check")
		}
	}
	slices.SortStableFunc(list, func(a, b bulkEvent) int { return cmp.Compare(b.severity, a.severity) })
	return list, nil
}

// problemID returns the id of the open problem of an event; empty: none.
func problemID(st *event.State) string {
	if st.Problem == nil {
		return ""
	}
	return st.Problem.ID
}

func (s *request) showBulkEvent(e bulkEvent) v1.BulkEvent {
	named := NameEvent(s.View, &event.State{Node: e.node, Check: e.check})
	return v1.BulkEvent{Namespace: named.Namespace, Node: named.Node, Check: named.Check, Status: e.status, StatusName: e.status.String()}
}

// skippedEvents collects the events that were left alone, by reason.
type skippedEvents struct {
	mu   sync.Mutex
	list []v1.BulkLeft
}

func (l *skippedEvents) add(s *request, e bulkEvent, failed bool, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.list, func(x v1.BulkLeft) bool { return x.Reason == reason })
	if i < 0 {
		l.list, i = append(l.list, v1.BulkLeft{Reason: reason, Failed: failed}), len(l.list)
	}
	if l.list[i].Count++; len(l.list[i].First) < bulkEventsShown {
		l.list[i].First = append(l.list[i].First, s.showBulkEvent(e))
	}
}

// actOnAll acts on each event, a bounded number at a time, and returns those that it left alone.
func (s *request) actOnAll(ctx context.Context, v *bulkVerb, list []bulkEvent, action wire.Action) []v1.BulkLeft {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	var next atomic.Int64
	var skipped skippedEvents
	var workers sync.WaitGroup
	for range min(bulkWorkers, len(list)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				e := list[i]
				if ctx.Err() != nil {
					skipped.add(s, e, true, "the time limit of one request ended; repeat it for the others")
					continue
				}
				if st, ok := s.Events.Get(e.node, e.check); !ok {
					skipped.add(s, e, false, "somebody deleted it")
				} else if reason := v.skipReason(&st); reason != "" {
					skipped.add(s, e, false, reason)
				} else if v.verb != "delete" && e.problem != "" && e.problem != problemID(&st) {
					skipped.add(s, e, false, "its problem closed, and another one is open")
				} else {
					one := action
					if one.Check = e.check; v.verb != "delete" {
						one.Problem = e.problem // never a problem that opens before the action is written
					}
					if err := s.Actions.Act(ctx, e.node, one); err != nil {
						s.Logger.Debug("an event of a bulk action failed", "verb", v.verb, "err", err)
						skipped.add(s, e, true, "the server could not store it; its log has the reason")
					} else if v.verb == "acknowledge" && !s.acknowledged(e.node, e.check, e.problem) {
						skipped.add(s, e, false, closedConcurrently)
					}
				}
			}
		})
	}
	workers.Wait()
	return skipped.list
}
