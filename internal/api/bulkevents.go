package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	bulkMost  = 100_000 // events of one request
	bulkFirst = 10      // that an answer names
	// bulkTogether are written at once: those that wait while the journal commits share the
	// next commit.
	bulkTogether = 128
	// bulkWithin: who asks waits a minute for an answer.
	bulkWithin = 45 * time.Second
)

// bulkVerb is one thing that may be done to many events.
type bulkVerb struct {
	verb, summary string
	need          access.Verb
	// nothing says why there is nothing to do to an event; empty: there is.
	nothing func(*event.State) string
}

func bulkVerbs() []bulkVerb {
	open := func(s *event.State) string {
		if s.Problem == nil {
			return "it has no open problem any more"
		}
		return ""
	}
	return []bulkVerb{
		{"acknowledge", "Say who looks after the open problems of many events", access.Operate, open},
		{"unacknowledge", "Say that nobody does any more", access.Operate, func(s *event.State) string {
			if s.Problem == nil || s.Problem.Ack == nil {
				return "it is not acknowledged any more"
			}
			return ""
		}},
		{"resolve", "Set many events to OK until their next results", access.Operate, func(s *event.State) string {
			if s.Status == model.OK && s.Problem == nil {
				return "it is OK already"
			}
			return ""
		}},
		{"delete", "Forget many events; they come back with their next results", access.Change, func(*event.State) string { return "" }},
	}
}

func (s *server) bulkRoutes() {
	for _, v := range bulkVerbs() {
		op := operation(v.verb+"Events", http.MethodPost, "/api/v1/events/"+v.verb, "events", v.summary)
		handle(s, withErrors(withChangeErrors(op), model.NotFound), access.On(v.need, "event"), func(s *server, ctx context.Context, in *struct{ Body v1.BulkRequest }) (*body[v1.BulkDone], error) {
			return s.bulk(ctx, &v, &in.Body)
		})
	}
}

// pickedEvent is one of a selection.
type pickedEvent struct {
	node    model.NodeID
	check   model.CheckID
	status  model.Status
	problem string // that was open then; empty: none was
}

// bulk picks events, looks whether they are too many, records who does what, and does it.
func (s *server) bulk(ctx context.Context, v *bulkVerb, in *v1.BulkRequest) (*body[v1.BulkDone], error) {
	action := wire.Action{Verb: v.verb, Note: in.Note, By: callerOf(ctx).User}
	if !in.Until.IsZero() {
		if v.verb != "acknowledge" {
			return nil, model.Errorf(model.Invalid, "only an acknowledgement ends at a time")
		}
		if !in.Until.After(s.Now()) {
			return nil, model.Errorf(model.Invalid, "until %s is over", in.Until.Format(time.RFC3339))
		}
		action.Until = uint64(in.Until.UnixMilli())
	}
	said := selection(in)
	if said == "" && !in.All {
		return nil, model.Errorf(model.Invalid, "it is not said which events").WithHint("-l LABELS, --where CONDITION, --status, --check, --group; all of the namespace: --all")
	}
	list, err := s.pick(ctx, v, in)
	if err != nil {
		return nil, err
	}
	out := v1.BulkDone{Matched: len(list), First: []v1.BulkEvent{}, DryRun: in.DryRun}
	for _, e := range list[:min(bulkFirst, len(list))] {
		out.First = append(out.First, s.bulkEvent(e))
	}
	if in.DryRun || len(list) == 0 {
		return &body[v1.BulkDone]{out}, nil
	}
	counts, err := s.counts(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	if most := cmp.Or(in.MaxAffected, max(50, int(counts.States/5))); len(list) > most && !in.Yes {
		return nil, model.Errorf(model.Guarded, "this would be done to %d events; without --yes at most to %d", len(list), most).
			WithHint("look at which with --dry-run, then repeat with --yes, or with --max-affected %d", len(list))
	}
	picked := model.CountNoun(len(list), "event") + " picked"
	note := " (" + cmp.Or(said, "all") + ")"
	if in.Note != "" {
		note += ": " + in.Note
	}
	ended, err := s.beginRecord(ctx, "a bulk "+v.verb, picked, note)
	if err != nil {
		return nil, err
	}
	left := s.doAll(ctx, v, list, action)
	out.Done = out.Matched
	for i := range left {
		out.Done -= left[i].Count
	}
	out.Left = left
	ended(bulkOutcome(&out))
	return &body[v1.BulkDone]{out}, nil
}

// bulkOutcome says how many of them it was done to, and why not to the others.
func bulkOutcome(out *v1.BulkDone) string {
	text := fmt.Sprintf("done to %d of %d", out.Done, out.Matched)
	for i := range out.Left {
		text += fmt.Sprintf("; %d not, because %s", out.Left[i].Count, out.Left[i].Reason)
	}
	return text
}

// selection says in words what picks the events; empty: nothing does.
func selection(in *v1.BulkRequest) string {
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

// pick lists what the selection picks and where there is something to do, worst first.
func (s *server) pick(ctx context.Context, v *bulkVerb, in *v1.BulkRequest) (list []pickedEvent, err error) {
	q, err := s.query(ctx, &FilterInput{Namespace: in.Namespace, Node: in.Node, Check: in.Check, Status: in.Status, Selector: in.Selector, Where: in.Where,
		Problem: v.verb == "acknowledge" || v.verb == "unacknowledge"})
	if err != nil {
		return nil, err
	}
	if err := s.boundToGroup(ctx, &q, in.Namespace, in.Group); err != nil {
		return nil, err
	}
	for q.Limit = 1000; ; {
		page, err := s.Events.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.States {
			if st := &page.States[i]; v.nothing(st) == "" {
				list = append(list, pickedEvent{st.Node, st.Check, st.Status, openOf(st)})
			}
		}
		switch {
		case len(list) > bulkMost:
			return nil, model.Errorf(model.Invalid, "more than %d events are picked: that is too many for one request", bulkMost).WithHint("do it in parts: by namespace, group or check")
		case page.Next == "":
			return list, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		q.After = page.Next
	}
}

// openOf is the id of the problem of an event; empty: none is open.
func openOf(st *event.State) string {
	if st.Problem == nil {
		return ""
	}
	return st.Problem.ID
}

// boundToGroup leaves the nodes of a group; without one, all.
func (s *server) boundToGroup(ctx context.Context, q *event.Query, namespace, group string) (err error) {
	if group == "" {
		return nil
	}
	if q.Nodes == nil {
		q.Nodes = s.Directory.Nodes(namespace)
	}
	q.Nodes, err = s.membersAmong(ctx, q.Nodes, namespace, group)
	if q.Nodes == nil {
		q.Nodes = []model.NodeID{} // none is not all
	}
	return err
}

func (s *server) bulkEvent(e pickedEvent) v1.BulkEvent {
	named := s.event(&event.State{Node: e.node, Check: e.check})
	return v1.BulkEvent{Namespace: named.Namespace, Node: named.Node, Check: named.Check, Status: e.status, StatusName: e.status.String()}
}

// leftOver collects what was not done, by reason.
type leftOver struct {
	mu   sync.Mutex
	list []v1.BulkLeft
}

func (l *leftOver) add(s *server, e pickedEvent, failed bool, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.list, func(x v1.BulkLeft) bool { return x.Reason == reason })
	if i < 0 {
		l.list, i = append(l.list, v1.BulkLeft{Reason: reason, Failed: failed}), len(l.list)
	}
	if l.list[i].Count++; len(l.list[i].First) < bulkFirst {
		l.list[i].First = append(l.list[i].First, s.bulkEvent(e))
	}
}

// doAll does it to each event, so many at a time, and says what was left and why.
func (s *server) doAll(ctx context.Context, v *bulkVerb, list []pickedEvent, action wire.Action) []v1.BulkLeft {
	enough, cancel := context.WithTimeout(ctx, bulkWithin)
	defer cancel()
	var next atomic.Int64
	var left leftOver
	var workers sync.WaitGroup
	for range min(bulkTogether, len(list)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				e := list[i]
				if enough.Err() != nil {
					left.add(s, e, true, "the time for one request was over; type it again for the rest")
					continue
				}
				if st, ok := s.Events.Get(e.node, e.check); !ok {
					left.add(s, e, false, "it is gone")
				} else if nothing := v.nothing(&st); nothing != "" {
					left.add(s, e, false, nothing)
				} else if v.verb != "delete" && e.problem != "" && e.problem != openOf(&st) {
					left.add(s, e, false, "its problem closed, and another one is open")
				} else {
					one := action
					if one.Check = e.check; v.verb != "delete" {
						one.Problem = e.problem // and of no other that opens before it is written
					}
					if err := s.Actions.Act(enough, e.node, one); err != nil {
						s.Logger.Debug("an event of many", "verb", v.verb, "err", err)
						left.add(s, e, true, "it could not be written; the server's log says why")
					} else if v.verb == "acknowledge" && !s.acknowledged(e.node, e.check, e.problem) {
						left.add(s, e, false, closedMeanwhile)
					}
				}
			}
		})
	}
	workers.Wait()
	return left.list
}
