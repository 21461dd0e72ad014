//go:build linux

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestKilledServerAppliesBulkActionOnce kills the server during bulk actions, and expects each action exactly
// once per event. Every selected event is changed, or the answer counts it as skipped.
func TestKilledServerAppliesBulkActionOnce(t *testing.T) {
	t.Parallel()
	b := newBulkTest(t)
	rounds := []func(int){b.acknowledge, b.resolve, b.silence, b.acknowledge, b.delete, b.unacknowledge, b.acknowledge, b.resolve}
	for i, round := range rounds[:selectIfShort(5, len(rounds))] {
		b.awaitProblems(len(b.places) / 5)
		round(i)
	}
	close(b.stop)
	e := <-b.load
	assert(t, e.err == nil && e.rep.Balance.Missing == 0, "load run: %v, %+v", e.err, e.rep.Balance)
	awaitNotificationsSent(t, b.api)
	b.compareWithAnswers()
	b.resolveRemaining()
	awaitNotificationsSent(t, b.api)
	if open := fleetProblems(b.t, b.api, true); len(open) > 0 {
		t.Errorf("%d problems are open after all events were resolved, the first is %+v", len(open), open[0])
	}
	b.compareWithAnswers()
	b.server.Stop()
}

// bulkTest runs bulk actions on a server with a simulated fleet, and records the server's answers. A bulk
// action is one request for many events.
type bulkTest struct {
	t      *testing.T
	server *harness.Server
	api    *client.Client
	hook   *webhook
	random *rand.Rand
	load   <-chan loadResult
	stop   chan string
	places map[harness.StateKey]observe.EventState

	actions       map[string]*bulkAction // by the note of the action
	expectedEnds  map[string]string      // note of the action that had to close the problem, by problem id
	silencedSince time.Time              // start of the silence over the nodes of isSilencedNode
}

// bulkAction counts the outcomes of one bulk action (one request for many events). Repeated requests count,
// too.
type bulkAction struct {
	verb               string
	done, closed, left int // events by outcome; closed: their problems closed before; left: the action failed
	cut                int // requests without an answer
}

// newBulkTest starts a server and simulated agents for bulk actions, with a webhook as handler. It waits until a fifth of
// the events are problems.
func newBulkTest(t *testing.T) *bulkTest {
	b := &bulkTest{t: t, actions: map[string]*bulkAction{}, expectedEnds: map[string]string{}, stop: make(chan string)}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b.random = rand.New(rand.NewPCG(seed, 7))
	b.hook = newWebhook(t, 0)
	fleet := harness.Fleet{Agents: 100, Checks: 30, Interval: 3 * time.Second, Changes: 0.3}
	b.server = harness.StartFleet(t, fleet, "--snapshot-cycle", "2s")
	b.api = b.server.API
	b.server.Apply(fmt.Sprintf(webhookHandlers, b.hook.URL))
	cfg := b.server.LoadConfig(fleet, 10*time.Minute)
	cfg.Stop = b.stop
	cfg.Before = nil // the agents' ledgers do not contain actions of people
	b.load = startLoadWith(t, cfg)
	b.awaitProblems(fleet.Agents * fleet.Checks / 5)
	b.places = b.server.FleetStates()
	return b
}

// awaitProblems waits until at least n problems are open.
func (b *bulkTest) awaitProblems(n int) {
	b.t.Helper()
	harness.Until(b.t, 2*time.Minute, fmt.Sprintf("%d problems are open", n), func() (string, bool) {
		page, err := b.api.Events.List(b.t.Context(), v1.EventFilter{Namespace: "load", Problem: true, Limit: 1})
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprint(page.Match), int(page.Match) >= n
	})
}

// killDuringAction requests a bulk action, and kills the server before the answer. After the restart it repeats
// the request. It repeats the request until every event was changed or no longer needs to be.
func (b *bulkTest) killDuringAction(note, verb string, ask func(context.Context) (v1.BulkDone, error)) {
	b.t.Helper()
	said := &bulkAction{verb: verb}
	b.actions[note] = said
	take := func(done v1.BulkDone, err error) bool {
		if err != nil {
			said.cut++
			b.t.Logf("%s: not answered: %v", note, err)
			return false
		}
		said.done += done.Done
		for _, l := range done.Skipped {
			if l.Failed {
				said.left += l.Count
			} else { // the event was skipped because its problem closed
				said.closed += l.Count
			}
		}
		b.t.Logf("%s: of %d, %d done, left %+v", note, done.Matched, done.Done, skipReasons(done.Skipped))
		return said.left == 0
	}
	type answer struct {
		done v1.BulkDone
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		done, err := ask(b.t.Context())
		answered <- answer{done, err}
	}()
	sleep(b.t.Context(), time.Duration(b.random.Int64N(int64(150*time.Millisecond))))
	b.server.Kill()
	b.server.Launch()
	b.server.WaitReady(time.Minute)
	a := <-answered
	if take(a.done, a.err) {
		return
	}
	harness.Until(b.t, time.Minute, note+", typed again", func() (string, bool) {
		said.left = 0
		done, err := ask(b.t.Context())
		return fmt.Sprint(err), take(done, err)
	})
}

// skipReasons returns the number of events that a bulk action skipped, by reason.
func skipReasons(left []v1.BulkSkipped) (text []string) {
	for _, l := range left {
		text = append(text, fmt.Sprintf("%d: %s", l.Count, l.Reason))
	}
	return text
}

// requestAction requests an action, such as acknowledge, on all events that match a condition. It returns the
// note of the action, for finding the action in history.
func (b *bulkTest) requestAction(i int, verb, where string) (note string) {
	note = fmt.Sprintf("round %d", i)
	b.killDuringAction(note, verb, func(ctx context.Context) (v1.BulkDone, error) {
		return b.api.Events.Bulk(ctx, verb, v1.BulkRequest{Namespace: "load", Where: where, Note: note, Yes: true})
	})
	return note
}

// acknowledge acknowledges all events that are not acknowledged.
func (b *bulkTest) acknowledge(i int) { b.requestAction(i, "acknowledge", `!event.acknowledged`) }

// unacknowledge removes all acknowledgements by one bulk action.
func (b *bulkTest) unacknowledge(i int) { b.requestAction(i, "unacknowledge", `event.acknowledged`) }

// resolve resolves the events of the checks whose name ends in 1 or 2.
func (b *bulkTest) resolve(i int) {
	b.closeProblems(i, "resolve", `event.check.endsWith("1") || event.check.endsWith("2")`)
}

// delete deletes the events of the checks whose name ends in 3.
func (b *bulkTest) delete(i int) { b.closeProblems(i, "delete", `event.check.endsWith("3")`) }

// closeProblems requests a bulk action that closes problems, and records the problems for later comparison.
// Before, it records the open problems.
func (b *bulkTest) closeProblems(i int, verb, where string) {
	open := openEvents(b.t, b.api, where)
	note := b.requestAction(i, verb, where)
	for i := range open {
		b.expectedEnds[open[i].Problem.ID] = note
	}
}

// isSilencedNode reports whether the silence in the test applies to a node. The silence covers all nodes whose names end
// in 7.
func isSilencedNode(name string) bool { return strings.HasSuffix(name, "7") }

// silence silences every node whose name ends in 7, and kills the server during the request.
func (b *bulkTest) silence(int) {
	spec := json.RawMessage(`{"reason":"racks move","targets":{"where":"node.name.endsWith(\"7\")"}}`)
	b.killDuringAction("silence", "silence", func(ctx context.Context) (v1.BulkDone, error) {
		_, err := b.api.Notifications.Silence(ctx, v1.SilenceRequest{Namespace: "load", Name: "racks", Spec: spec, Yes: true})
		if model.ClassOf(err) == model.Conflict { // the silence was made, and its answer was lost
			err = nil
		}
		return v1.BulkDone{}, err
	})
	b.silencedSince = time.Now()
}

// awaitNotificationsSent waits until the server has sent all notifications about event changes. All deliveries
// are sent then. A busy machine may need long: the test fails when their sum has not decreased for two minutes.
func awaitNotificationsSent(t *testing.T, api *client.Client) {
	t.Helper()
	for waiting := int64(math.MaxInt64); waiting > 0; {
		before := waiting
		harness.Until(t, 2*time.Minute, "fewer transitions and deliveries wait", func() (string, bool) {
			list, err := api.Queues(t.Context(), v1.RowFilter{Where: `row.name in ["reactions", "deliveries"]`})
			waiting = 0
			for _, q := range list.Items { // reactions in bytes, deliveries in items: a reaction has more bytes than deliveries
				waiting += q.Depth
			}
			return fmt.Sprint(list.Items, err), err == nil && waiting < before
		})
	}
}

// resolveRemaining resolves all remaining events after the fleet's last results.
func (b *bulkTest) resolveRemaining() {
	done, err := b.api.Events.Bulk(b.t.Context(), "resolve", v1.BulkRequest{Namespace: "load", All: true, Note: "the end", Yes: true})
	assert(b.t, err == nil && done.Done == done.Matched && len(done.Skipped) == 0, "the rest: %+v, %v", done, err)
}

// parseAuditRevision returns the revision number from an audit log line about the start of a bulk action. The
// result ok reports whether the line is about the action with the given note.
func parseAuditRevision(line, note string) (revision string, ok bool) {
	revision, _, _ = strings.Cut(strings.TrimSpace(line), " ")
	return revision, strings.Contains(line, " picked (") && strings.HasSuffix(line, ": "+note)
}

// openEvents returns the events in namespace "load" with an open problem, filtered by a condition. An empty
// condition matches all events.
func openEvents(t *testing.T, api *client.Client, where string) []v1.Event {
	t.Helper()
	f := v1.EventFilter{Namespace: "load", Problem: true, Where: where, Limit: 1000}
	return collectPages(func(after string) ([]v1.Event, string) {
		f.After = after
		page := testenv.Value(api.Events.List(t.Context(), f))(t)
		return page.Items, page.Next
	})
}

// fleetProblems returns the problems of the simulated fleet, which is in namespace "load". If open is true, it returns
// only open problems.
func fleetProblems(t *testing.T, api *client.Client, open bool) []v1.Problem {
	t.Helper()
	return collectPages(func(after string) ([]v1.Problem, string) {
		page := testenv.Value(api.Problems.List(t.Context(), "load", "", "", open, 1000, after))(t)
		return page.Items, page.Next
	})
}

// collectPages returns the items of a list that the API returns in pages. The function read returns one page and the
// token of the next. read gets the token of a page; empty: the first one.
func collectPages[T any](read func(after string) (items []T, next string)) (all []T) {
	for after := ""; ; {
		var items []T
		items, after = read(after)
		if all = append(all, items...); after == "" {
			return all
		}
	}
}

// compareWithAnswers compares history, events and notifications with the answers to the bulk actions. The
// webhook has received the notifications.
func (b *bulkTest) compareWithAnswers() {
	b.t.Helper()
	wrong := 0
	fail := func(format string, args ...any) {
		b.t.Helper()
		if wrong++; wrong < 20 {
			b.t.Errorf(format, args...)
		}
	}
	type place struct{ node, check string }
	last, noted := map[place]v1.Entry{}, map[string]int{}
	acks := v1.HistoryQuery{Namespace: "load", Limit: 1000, RowFilter: v1.RowFilter{Where: `row.kind in ["acknowledged", "unacknowledged"]`}}
	for _, e := range collectPages(func(after string) ([]v1.Entry, string) {
		acks.After = after
		page := testenv.Value(b.api.Events.Entries(b.t.Context(), acks))(b.t)
		return page.Items, page.Next
	}) { // newest first
		if _, ok := last[place{e.Node, e.Check}]; !ok {
			last[place{e.Node, e.Check}] = e
		}
		_, note, _ := strings.Cut(e.Output, ": ")
		noted[note]++
	}
	record := b.server.CLI("audit", "run", "--limit", "200")
	lines := strings.Split(record, "\n")
	for note, said := range b.actions {
		if said.verb != "silence" && !strings.Contains(record, ": "+note) {
			fail("the audit lacks %s:\n%s", note, record)
		}
		for _, line := range lines { // every action that began has an end in the audit, or an entry that it has none
			if id, ok := parseAuditRevision(line, note); ok && !slices.ContainsFunc(lines, func(end string) bool {
				return strings.Contains(end, "started in revision "+id+":") || strings.Contains(end, "started in revision "+id+" and interrupted")
			}) {
				fail("the audit lacks the outcome of %q:\n%s", line, record)
			}
		}
		if n := noted[note]; said.verb == "acknowledge" && (n < said.done || said.cut == 0 && n > said.done+said.closed) {
			fail("%s changed %d events according to its answers (%d closed before, %d requests without an answer); history has %d", note, said.done, said.closed, said.cut, n)
		}
	}
	// A problem that is open in the view is open in history, with the acknowledgement of its last history entry.
	inView := map[string]v1.Event{}
	for _, e := range openEvents(b.t, b.api, "") {
		inView[e.Problem.ID] = e
	}
	all := fleetProblems(b.t, b.api, false)
	for _, p := range all {
		e, open := inView[p.ID]
		if open != p.Closed.IsZero() {
			fail("problem %s of %s/%s: open in the view %v, closed in history %v", p.ID, p.Node, p.Check, open, p.Closed)
		}
		delete(inView, p.ID)
		if note, ended := b.expectedEnds[p.ID]; ended && open {
			fail("problem %s of %s/%s was open before %s, which had to close it, and is still open", p.ID, p.Node, p.Check, note)
		}
		kinds := b.hook.kindsOf(p.ID)
		if isSilencedNode(p.Node) {
			if !b.silencedSince.IsZero() && p.Opened.After(b.silencedSince) && len(kinds) > 0 {
				fail("problem %s of %s/%s is silenced, and its messages are %v, expected none", p.ID, p.Node, p.Check, kinds)
			}
			if open && !b.silencedSince.IsZero() && !slices.ContainsFunc(e.Problem.Holds, func(h v1.NotificationHold) bool { return strings.HasSuffix(h.By, "racks") }) {
				fail("problem %s of %s/%s is not shown as silenced: %+v", p.ID, p.Node, p.Check, e.Problem.Holds)
			}
		} else if len(kinds) == 0 || kinds[0] != "opened" || !open && kinds[len(kinds)-1] != "closed" {
			fail("problem %s of %s/%s (open %v) has the messages %v", p.ID, p.Node, p.Check, open, kinds)
		}
		if !open {
			continue
		}
		was := last[place{p.Node, p.Check}]
		acknowledged := was.Kind == "acknowledged" && !was.At.Before(p.Opened)
		switch ack := e.Problem.Ack; {
		case (ack != nil) != acknowledged:
			fail("problem %s of %s/%s: in the view %+v, in history %+v", p.ID, p.Node, p.Check, ack, was)
		case ack != nil && was.Output != "admin: "+ack.Note:
			fail("problem %s of %s/%s is acknowledged with %q, in history with %q", p.ID, p.Node, p.Check, ack.Note, was.Output)
		case ack != nil && !isSilencedNode(p.Node) && !slices.Contains(kinds, "acknowledged"):
			fail("problem %s of %s/%s is acknowledged, and has the messages %v", p.ID, p.Node, p.Check, kinds)
		}
	}
	for id, e := range inView {
		fail("problem %s of %s/%s is open in the view, and history lacks it", id, e.Node, e.Check)
	}
	b.t.Logf("%d problems, %d events acknowledged or not any more, %d wrong; by note %v", len(all), len(last), wrong, noted)
}
