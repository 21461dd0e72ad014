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
	maxBulkEvents      = 100_000 // events that one request may select
	maxShownBulkEvents = 10      // events that an answer names
	// maxBulkWorkers write at the same time: actions that wait while the journal commits share the next commit.
	maxBulkWorkers = 128
	// bulkTimeout ends the work before the client's timeout of one minute.
	bulkTimeout = 45 * time.Second
)

// bulkVerb describes one kind of bulk action on events, such as acknowledging many events with one request. The
// verbs are acknowledge, unacknowledge, resolve and delete.
type bulkVerb struct {
	verb, summary string
	need          access.Verb
	// reasonToSkip returns the reason to leave an event alone; empty: act on it.
	reasonToSkip func(*event.State) string
}

// bulkVerbs returns the possible bulk actions on events, such as acknowledge and delete. They are acknowledge,
// unacknowledge, resolve and delete.
func bulkVerbs() []bulkVerb {
	open := func(s *event.State) string {
		if s.Problem == nil {
			return "the problem has closed"
		}
		return ""
	}
	return []bulkVerb{
		{"acknowledge", "Acknowledge the open problems of many events", access.Operate, open},
		{"unacknowledge", "Remove the acknowledgement of an open problem", access.Operate, func(s *event.State) string {
			if s.Problem == nil || s.Problem.Ack == nil {
				return "the acknowledgement has ended"
			}
			return ""
		}},
		{"resolve", "Resolve many events: OK until their next results", access.Operate, func(s *event.State) string {
			if s.Status == model.OK && s.Problem == nil {
				return "the event is already OK"
			}
			return ""
		}},
		{"delete", "Delete many events; the next result creates an event again", access.Change, func(*event.State) string { return "" }},
	}
}

// registerBulk registers the bulk actions on events.
func registerBulk(at eventOperations) {
	for _, v := range bulkVerbs() {
		bulk := op.Post(v.verb+"Events", "/api/v1/events/"+v.verb, "events", v.summary, model.NotFound)
		op.Handle(at, op.AddChangeErrors(bulk), access.NeedOn(v.need, "event"), func(s *eventRequest, ctx context.Context, in *struct{ Body v1.BulkRequest }) (*op.Body[v1.BulkDone], error) {
			return s.runBulkAction(ctx, &v, &in.Body)
		})
	}
}

// bulkEvent is one event that a bulk action on many events selects. It has the node, check, status and open problem of
// the event.
type bulkEvent struct {
	node     model.NodeID
	source   model.Source
	status   model.Status
	severity model.Severity
	problem  string // id of the problem that was open when the events were selected; empty: none
}

// runBulkAction applies an action to all events that match a filter, and writes to the audit log.
func (s *eventRequest) runBulkAction(ctx context.Context, v *bulkVerb, in *v1.BulkRequest) (*op.Body[v1.BulkDone], error) {
	action := wire.Action{Verb: v.verb, Note: in.Note, By: access.CallerOf(ctx).User}
	if !in.Until.IsZero() {
		if v.verb != "acknowledge" {
			return nil, model.Errorf(model.Invalid, "invalid field until: only an acknowledgement has an end time")
		}
		if !in.Until.After(s.Now()) {
			return nil, model.Errorf(model.Invalid, "invalid end time: until %s is in the past", in.Until.Format(time.RFC3339))
		}
		action.Until = uint64(in.Until.UnixMilli())
	}
	selected := describeSelection(in)
	if selected == "" && !in.All {
		return nil, model.Errorf(model.Invalid, "the bulk action has no filter that selects events").WithHint("select with -l LABELS, --where CONDITION, --status, --check, --group, or the whole namespace with --all")
	}
	list, err := s.selectEvents(ctx, v, in)
	if err != nil {
		return nil, err
	}
	out := v1.BulkDone{Matched: len(list), First: []v1.BulkEvent{}, DryRun: in.DryRun}
	for _, e := range list[:min(maxShownBulkEvents, len(list))] {
		out.First = append(out.First, s.showBulkEvent(e))
	}
	if in.DryRun || len(list) == 0 {
		return op.Answer(out), nil
	}
	counts, err := s.CountEvents(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	if limit := cmp.Or(in.MaxAffected, max(50, int(counts.States/5))); len(list) > limit && !in.Yes {
		return nil, model.Errorf(model.Guarded, "the selection has %d events; more than %d need --yes", len(list), limit).
			WithHint("list the events: --dry-run; then repeat the command with --yes or --max-affected %d", len(list))
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
	out.Skipped = s.actOnEvents(ctx, v, list, action)
	out.Done = out.Matched
	for i := range out.Skipped {
		out.Done -= out.Skipped[i].Count
	}
	ended(bulkOutcome(&out))
	return op.Answer(out), nil
}

// bulkOutcome formats the numbers of changed and skipped events of a bulk action for the audit log
func bulkOutcome(out *v1.BulkDone) string {
	text := fmt.Sprintf("%d of %d done", out.Done, out.Matched)
	for i := range out.Skipped {
		text += fmt.Sprintf("; %d skipped: %s", out.Skipped[i].Count, out.Skipped[i].Reason)
	}
	return text
}

// describeSelection formats the filter of a bulk action for the audit log, such as "node web01, status CRITICAL".
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

// selectEvents returns the events that match the filter of a bulk action, worst first.
func (s *eventRequest) selectEvents(ctx context.Context, v *bulkVerb, in *v1.BulkRequest) (list []bulkEvent, err error) {
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
		if v.reasonToSkip(st) == "" {
			list = append(list, bulkEvent{st.Node, st.Source(), st.Status, st.Severity, openProblemID(st)})
		}
		if len(list) > maxBulkEvents {
			return nil, model.Errorf(model.Invalid, "the selection has more than %d events, the limit of one request", maxBulkEvents).
				WithHint("select fewer: by namespace, group or check")
		}
	}
	slices.SortStableFunc(list, func(a, b bulkEvent) int { return cmp.Compare(b.severity, a.severity) })
	return list, nil
}

// openProblemID returns the id of an event's open problem, or "" without an open problem.
func openProblemID(st *event.State) string {
	if st.Problem == nil {
		return ""
	}
	return st.Problem.ID
}

// showBulkEvent converts one event that a bulk action selects to the API type BulkEvent.
func (s *eventRequest) showBulkEvent(e bulkEvent) v1.BulkEvent {
	named := ShowEventNames(s.View, &event.State{Node: e.node, Check: model.CheckID(e.source.ID), Instance: e.source.Instance})
	return v1.BulkEvent{Namespace: named.Namespace, Node: named.Node, Check: named.Check, Source: ShowSourceByID(s.View, e.source), Status: e.status, StatusName: e.status.String()}
}

// skippedEvents collects the events that a bulk action did not change, by reason.
type skippedEvents struct {
	mu   sync.Mutex
	list []v1.BulkSkipped
}

// addSkippedEvent counts an event that a bulk action left unchanged, under the reason for skipping the event.
func (l *skippedEvents) addSkippedEvent(s *eventRequest, e bulkEvent, failed bool, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.list, func(x v1.BulkSkipped) bool { return x.Reason == reason })
	if i < 0 {
		l.list, i = append(l.list, v1.BulkSkipped{Reason: reason, Failed: failed}), len(l.list)
	}
	if l.list[i].Count++; len(l.list[i].First) < maxShownBulkEvents {
		l.list[i].First = append(l.list[i].First, s.showBulkEvent(e))
	}
}

// actOnEvents applies an action to events, a limited number in parallel. It returns the events that the action did not
// change.
func (s *eventRequest) actOnEvents(ctx context.Context, v *bulkVerb, list []bulkEvent, action wire.Action) []v1.BulkSkipped {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	var next atomic.Int64
	var skipped skippedEvents
	var workers sync.WaitGroup
	for range min(maxBulkWorkers, len(list)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				e := list[i]
				if ctx.Err() != nil {
					skipped.addSkippedEvent(s, e, true, "the time limit of the request ended; repeat the request for the other events")
					continue
				}
				if st, ok := s.Events.Get(e.node, e.source); !ok {
					skipped.addSkippedEvent(s, e, false, "another user deleted the event")
				} else if reason := v.reasonToSkip(&st); reason != "" {
					skipped.addSkippedEvent(s, e, false, reason)
				} else if v.verb != "delete" && e.problem != "" && e.problem != openProblemID(&st) {
					skipped.addSkippedEvent(s, e, false, "the problem closed, and another problem is open")
				} else {
					one := action
					if one.Check, one.Instance = model.CheckID(e.source.ID), e.source.Instance; v.verb != "delete" {
						one.Problem = e.problem // never a problem that opens before the action is written
					}
					if err := s.Actions.Act(ctx, e.node, one); err != nil {
						s.Logger.Debug("an event of a bulk action failed", "verb", v.verb, "err", err)
						skipped.addSkippedEvent(s, e, true, "the server could not store the action: see the server's log")
					} else if v.verb == "acknowledge" && !s.isAcknowledged(e.node, e.source, e.problem) {
						skipped.addSkippedEvent(s, e, false, closedConcurrentlyReason)
					}
				}
			}
		})
	}
	workers.Wait()
	return skipped.list
}
