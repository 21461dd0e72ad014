package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/store/sqldb"
	"github.com/muster-fleet/muster/internal/testenv"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	pager = HandlerRef{Namespace: "default", Name: "pager"}
	mail  = HandlerRef{Namespace: "default", Name: "mail"}
)

// minutesAfterNoon returns the time some minutes after noon, when the tests begin.
func minutesAfterNoon(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// testPosition returns a journal position for a test entry, from a commit number and an index. It has a commit
// number and an index within the commit.
func testPosition(number uint64, index uint32) ChangePosition {
	return ChangePosition{At: journal.Position{Log: 1 << 63, Number: number}, Index: index}
}

// problem returns an open test problem of a node.
func problem(id, node string, opened int) Problem {
	return Problem{
		Problem: model.Problem{
			ID: id, NodeID: 7, Source: model.CheckSource(1001), Definition: 3, Status: model.Critical, Severity: model.High,
			Opened: minutesAfterNoon(opened), Output: "disk full", Labels: map[string]string{"scope": "capacity", "a\"b": ""}, Description: "No room\nis left.",
		},
		Namespace: "default", Node: node, SourceName: "disk",
	}
}

// delivery returns a test delivery of a message about a problem to a handler.
func delivery(problem, kind string, to HandlerRef, created int) Delivery {
	return Delivery{
		Key: problem + "/" + kind + "/" + to.Name, Problem: problem, Handler: to, Kind: kind,
		Payload: []byte(`{"version":1}`), Created: minutesAfterNoon(created),
	}
}

// entry returns a test entry of history about a status change.
func entry(number uint64, minute int) Entry {
	return Entry{
		At: minutesAfterNoon(minute), Executed: minutesAfterNoon(minute), Kind: StatusChanged, Namespace: "default", Node: "web01", NodeID: 7,
		Source: model.CheckSource(1001), SourceName: "disk", Status: model.Critical, Previous: model.OK, Output: "disk full",
		Partition: 5, Place: testPosition(number, 0),
	}
}

// restartableStore is a history store that a test can close and reopen. Each test begins with an empty one.
type restartableStore struct {
	Store
	reopen func() Store
}

// restart closes the store and opens the store again.
func (s *restartableStore) restart(t *testing.T) {
	t.Helper()
	must(t, s.Close())
	s.Store = s.reopen()
}

// record records a batch and ends the test on an error.
func (s *restartableStore) record(t *testing.T, b Batch) {
	t.Helper()
	must(t, s.Record(t.Context(), b))
}

// attempt records an attempt to send a delivery and ends the test on an error.
func (s *restartableStore) attempt(t *testing.T, id int64, a Attempt) {
	t.Helper()
	must(t, s.RecordAttempts(t.Context(), DeliveryAttempt{ID: id, Attempt: a}))
}

// due returns the keys of the deliveries that are due some minutes after noon. It also returns the time at
// which the next delivery must be sent.
func (s *restartableStore) due(t *testing.T, minute int) ([]string, time.Time) {
	t.Helper()
	list, next, err := s.Due(t.Context(), minutesAfterNoon(minute), 10, nil)
	must(t, err)
	return deliveryKeys(list), next
}

// runConformanceTests runs the store's conformance tests twice, with small and with large table segments. Small
// segments have three rows, huge segments are never completed. dsn creates an empty database.
func runConformanceTests(t *testing.T, dsn func(t *testing.T) string) {
	for name, segment := range map[string]int64{"nothing is in a segment": 1 << 15, "segments of 3": 3} {
		t.Run(name, func(t *testing.T) {
			testStore(t, func(t *testing.T) *restartableStore {
				reopen := opener(t, dsn(t), segment)
				return &restartableStore{reopen(), reopen}
			})
		})
	}
	testSchemaUpgrade(t, dsn(t))
}

// testStore runs every conformance test on an open store.
func testStore(t *testing.T, open func(*testing.T) *restartableStore) {
	for name, test := range map[string]func(*testing.T, *restartableStore){
		"a batch is stored whole":          testRecordBatch,
		"a repeated batch changes nothing": testRepeatedBatch,
		"problems page newest first":       testPages,
		"problem counts":                   testProblemsSince,
		"entries by event and time":        testEntries,
		"rows of many nodes":               testRandomRows,
		"due in order per problem":         testDue,
		"due without busy handlers":        testExceptHandlers,
		"clamp due":                        testClampDue,
		"make due":                         testMakeDue,
		"rates":                            testRates,
		"older history":                    testOlderHistory,
		"attempts":                         testAttempts,
		"dead letters":                     testReplayDeadLetters,
		"escalations":                      testEscalations,
		"messages":                         testMessages,
		"marks":                            testAckAndFlappingEntries,
		"any bytes of output":              testOutput,
		"cleaning keeps what is open":      testClean,
		"cleaning in steps":                testCleanSteps,
		"forgetting what is made again":    testForgetChanges,
		"a batch with a fault is nothing":  testInvalidBatchStoresNothing,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			defer func() { s.Close() }()
			test(t, s)
		})
	}
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noError returns the result of a call, or ends the test if the call failed.
func noError[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// equal fails the test unless got equals want. The argument what names the compared values in the error.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// testRecordBatch records a batch with rows of every kind, and checks that all are stored.
func testRecordBatch(t *testing.T, s *restartableStore) {
	first := entry(3, 0)
	first.First, first.Previous = true, model.OK
	b := Batch{
		Entries: []Entry{first, entry(4, 0)}, Opened: []Problem{problem("p1", "web01", 0)},
		Deliveries: []Delivery{delivery("p1", "opened", pager, 0)},
		Places:     map[model.Partition]ChangePosition{5: testPosition(4, 2), 255: testPosition(9, 0)},
	}
	b.Deliveries[0].FurtherProblems = []string{"p3", "p2"}
	s.record(t, b)
	s.restart(t)
	equal(t, "places", noError(s.Positions(t.Context())), b.Places)
	equal(t, "problem", noError(s.Problem(t.Context(), "p1")), b.Opened[0])
	entries := noError(s.Entries(t.Context(), EntryQuery{}))
	slices.Reverse(entries) // newest first; at the same time, the last recorded first
	equal(t, "entries", withoutIDs(entries), b.Entries)
	equal(t, "also told of", noError(s.LinkedProblems(t.Context(), b.Deliveries[0].Key)), []string{"p2", "p3"})
	if _, err := s.Problem(t.Context(), "none"); model.ClassOf(err) != model.NotFound {
		t.Errorf("no such problem: %v", err)
	}
	ids := []string{"none", "p1"}
	for i := range 600 { // more than the keys of one query
		ids = append(ids, fmt.Sprint("none", i))
	}
	equal(t, "known", noError(s.KnownProblems(t.Context(), ids)), map[string]bool{"p1": true})
}

// testRepeatedBatch writes a batch twice and checks that the second time changes nothing.
func testRepeatedBatch(t *testing.T, s *restartableStore) {
	closed := problem("p1", "web01", 0)
	closed.Closed, closed.Status = minutesAfterNoon(5), model.Unknown
	b := Batch{
		Entries: []Entry{entry(4, 0)}, Opened: []Problem{problem("p1", "web01", 0)}, Closed: []Problem{closed},
		Deliveries: []Delivery{delivery("p1", "opened", pager, 0), delivery("p1", "closed", pager, 5)},
		Places:     map[model.Partition]ChangePosition{5: testPosition(4, 2)},
	}
	for range 2 {
		s.record(t, b)
	}
	// The batch is recorded again after a restart, and after an interrupted transaction.
	s.restart(t)
	s.record(t, b)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Record(stopped, Batch{Entries: []Entry{entry(4, 1)}}); err == nil {
		t.Error("recorded though it was stopped")
	}
	s.record(t, b)
	deliveries := noError(s.Deliveries(t.Context(), "p1"))
	entries := noError(s.Entries(t.Context(), EntryQuery{}))
	problems := noError(s.Problems(t.Context(), ProblemQuery{}))
	if len(deliveries) != 2 || len(entries) != 1 || len(problems) != 1 {
		t.Errorf("%d deliveries, %d entries, %d problems", len(deliveries), len(entries), len(problems))
	}
	equal(t, "problem", problems[0].Problem, closed.Problem)
}

// testPages reads the list of problems page by page, and expects the newest first.
func testPages(t *testing.T, s *restartableStore) {
	var b Batch
	for i := range 7 {
		b.Opened = append(b.Opened, problem(fmt.Sprint("p", i), fmt.Sprint("web0", i%2), i/2)) // pairs open together
	}
	s.record(t, b)
	ended := b.Opened[0]
	ended.Closed = minutesAfterNoon(9)
	s.record(t, Batch{Closed: []Problem{ended}})

	list := func(q ProblemQuery) (ids []string) {
		for {
			page := noError(s.Problems(t.Context(), q))
			for _, p := range page {
				ids = append(ids, p.ID)
			}
			if q.Limit == 0 || len(page) < q.Limit {
				return ids
			}
			last := page[len(page)-1]
			q.Before, q.BeforeID = last.Opened, last.ID
		}
	}
	equal(t, "all", list(ProblemQuery{}), []string{"p6", "p5", "p4", "p3", "p2", "p1", "p0"})
	equal(t, "paged", list(ProblemQuery{Limit: 2}), []string{"p6", "p5", "p4", "p3", "p2", "p1", "p0"})
	equal(t, "open on web00", list(ProblemQuery{Open: true, Node: "web00", Limit: 1}), []string{"p6", "p4", "p2"})
	equal(t, "another namespace", list(ProblemQuery{Namespace: "x"}), []string(nil))
	equal(t, "of a node, whatever it was called", list(ProblemQuery{NodeID: 7, Limit: 3}), []string{"p6", "p5", "p4", "p3", "p2", "p1", "p0"})
	equal(t, "of another node", list(ProblemQuery{NodeID: 8}), []string(nil))
	equal(t, "another check", list(ProblemQuery{Check: "cpu"}), []string(nil))
}

// testProblemsSince checks the counts and lists of the problems that opened or closed since a time.
func testProblemsSince(t *testing.T, s *restartableStore) {
	other := problem("p4", "web04", 70)
	other.Namespace = "demo"
	closed := problem("p1", "web01", 0)
	closed.Closed = minutesAfterNoon(65)
	s.record(t, Batch{
		Opened: []Problem{problem("p1", "web01", 0), problem("p2", "web02", 60), problem("p3", "web03", 61), other},
		Closed: []Problem{closed},
	})
	for _, c := range []struct {
		namespace      string
		minute         int
		opened, closed int
	}{{"", 60, 3, 1}, {"default", 60, 2, 1}, {"demo", 60, 1, 0}, {"", 0, 4, 1}, {"", 66, 1, 0}, {"", 71, 0, 0}} {
		opened, closed, err := s.CountProblems(t.Context(), c.namespace, minutesAfterNoon(c.minute))
		must(t, err)
		equal(t, fmt.Sprintf("%+v", c), [2]int{opened, closed}, [2]int{c.opened, c.closed})
	}
}

// testEntries checks the fields of stored history entries, and the queries that select entries.
func testEntries(t *testing.T, s *restartableStore) {
	first, second, other := entry(1, 0), entry(2, 1), entry(3, 2)
	second.Kind, second.Count, second.Expired = ResultsLost, 12, true
	other.Node = "web02"
	s.record(t, Batch{Entries: []Entry{first, second, other}})
	list := func(q EntryQuery) []Entry {
		entries := noError(s.Entries(t.Context(), q))
		return withoutIDs(entries)
	}
	equal(t, "of an event", list(EntryQuery{Namespace: "default", Node: "web01", Check: "disk"}), []Entry{second, first})
	equal(t, "of a node, whatever it was called", list(EntryQuery{NodeID: 7, Check: "disk"}), []Entry{other, second, first})
	equal(t, "of a kind", list(EntryQuery{NodeID: 7, Kind: ResultsLost}), []Entry{second})
	equal(t, "since", list(EntryQuery{Since: minutesAfterNoon(2)}), []Entry{other})
	equal(t, "of a name that is not there", list(EntryQuery{Node: "web03"}), []Entry(nil))
	var pages []Entry
	for q := (EntryQuery{NodeID: 7, Limit: 1}); ; {
		page := noError(s.Entries(t.Context(), q))
		if len(page) == 0 {
			break
		}
		q.Before, q.BeforeID = page[0].At, page[0].ID
		pages = append(pages, page...)
	}
	equal(t, "in pages", withoutIDs(pages), []Entry{other, second, first})
	equal(t, "limited", list(EntryQuery{Limit: 1}), []Entry{other})
}

// testRandomRows writes random rows, and compares every query with a selection from a list in memory.
func testRandomRows(t *testing.T, s *restartableStore) {
	var all []Entry
	var problems []Problem
	random := rand.New(rand.NewPCG(3, 4))
	for batch := range 12 {
		var b Batch
		for range 1 + random.IntN(12) {
			e := entry(uint64(len(all)+1), batch*10+random.IntN(15)) // some are older than rows of the batch before
			e.NodeID = model.NodeID(1 + random.IntN(4))
			e.Node, e.SourceName = fmt.Sprint("n", e.NodeID), fmt.Sprint("c", random.IntN(3))
			if e.NodeID == 4 && batch > 5 {
				e.Node = "n1" // renamed: the name was another node's
			}
			b.Entries, all = append(b.Entries, e), append(all, e)
			p := problem(fmt.Sprintf("p%03d", len(all)), e.Node, batch*10+random.IntN(15))
			p.NodeID, p.SourceName = e.NodeID, e.SourceName
			if b.Opened = append(b.Opened, p); len(all)%3 > 0 {
				p.Closed = p.Opened.Add(time.Hour)
				b.Closed = append(b.Closed, p)
			}
			problems = append(problems, p)
		}
		s.record(t, b)
	}
	slices.Reverse(all) // of the same time, the last recorded first
	slices.SortStableFunc(all, func(a, b Entry) int { return b.At.Compare(a.At) })
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(b.Opened.Compare(a.Opened), cmp.Compare(b.ID, a.ID))
	})
	check := func(what string) {
		t.Helper()
		for _, q := range []EntryQuery{
			{}, {NodeID: 2}, {NodeID: 3, Check: "c1"}, {Node: "n1"}, {Namespace: "default", Node: "n4", Check: "c2"}, {Check: "c0"},
			{NodeID: 1, Since: minutesAfterNoon(60)}, {Node: "n2", Since: minutesAfterNoon(40), Before: minutesAfterNoon(80)}, {Since: minutesAfterNoon(30), Before: minutesAfterNoon(31)}, {NodeID: 1, Limit: 3}, {Node: "n1", Limit: 5},
		} {
			list := noError(s.Entries(t.Context(), q))
			equal(t, fmt.Sprintf("%s, entries of %+v", what, q), withoutIDs(list), firstMatching(all, q.Limit, func(e *Entry) bool {
				return (q.NodeID == 0 || e.NodeID == q.NodeID) && (q.Node == "" || e.Node == q.Node) && (q.Check == "" || e.SourceName == q.Check) &&
					!e.At.Before(q.Since) && (q.Before.IsZero() || e.At.Before(q.Before))
			}))
		}
		for _, q := range []ProblemQuery{
			{}, {NodeID: 2}, {Node: "n1", Open: true}, {NodeID: 3, Check: "c1"}, {Open: true}, {Node: "n2", Before: minutesAfterNoon(50), Limit: 2}, {NodeID: 4, Limit: 3},
		} {
			list := noError(s.Problems(t.Context(), q))
			equal(t, fmt.Sprintf("%s, problems of %+v", what, q), list, firstMatching(problems, q.Limit, func(p *Problem) bool {
				return (q.NodeID == 0 || p.NodeID == q.NodeID) && (q.Node == "" || p.Node == q.Node) && (q.Check == "" || p.SourceName == q.Check) &&
					(!q.Open || p.Closed.IsZero()) && (q.Before.IsZero() || p.Opened.Before(q.Before))
			}))
		}
	}
	check("at first")
	s.restart(t)
	check("after a restart")
	for range 40 { // some steps more than there are rows, so that emptied segments go too
		noError(s.Clean(t.Context(), minutesAfterNoon(60), 5))
	}
	all = slices.DeleteFunc(all, func(e Entry) bool { return e.At.Before(minutesAfterNoon(60)) })
	problems = slices.DeleteFunc(problems, func(p Problem) bool { return !p.Closed.IsZero() && p.Closed.Before(minutesAfterNoon(60)) })
	check("after cleaning")
	e := entry(1000, 200)
	e.NodeID, e.Node = 2, "n2"
	s.record(t, Batch{Entries: []Entry{e}})
	all = append([]Entry{e}, all...)
	check("after what came then")
}

// firstMatching returns the first elements of a list for which a function returns true. The number most limits
// the elements, and 0 means all.
func firstMatching[T any](list []T, most int, keep func(*T) bool) (out []T) {
	for i := range list {
		if keep(&list[i]) && (most == 0 || len(out) < most) {
			out = append(out, list[i])
		}
	}
	return out
}

// withoutIDs returns deliveries without the ids that the store assigned.
func withoutIDs(entries []Entry) []Entry {
	for i := range entries {
		entries[i].ID = 0
	}
	return entries
}

// deliveryKeys returns the keys that identify the given deliveries.
func deliveryKeys(deliveries []Delivery) (list []string) {
	for _, d := range deliveries {
		list = append(list, d.Key)
	}
	return list
}

// testDue checks which deliveries Due returns at a time, and when the next delivery is due.
func testDue(t *testing.T, s *restartableStore) {
	s.record(t, Batch{Deliveries: []Delivery{
		delivery("p1", "opened", pager, 0), delivery("p1", "opened", mail, 0), delivery("p1", "closed", pager, 1), delivery("p2", "opened", pager, 3),
	}})
	now, next := s.due(t, 2)
	equal(t, "due", now, []string{"p1/opened/pager", "p1/opened/mail"})
	equal(t, "next", next, minutesAfterNoon(3))

	list, _, err := s.Due(t.Context(), minutesAfterNoon(2), 1, nil)
	must(t, err)
	equal(t, "whole row", list[0].Payload, []byte(`{"version":1}`))
	s.attempt(t, list[0].ID, Attempt{At: minutesAfterNoon(2), State: Pending, NextAt: minutesAfterNoon(4), Error: "no answer"})
	now, next = s.due(t, 2)
	equal(t, "while the opening is tried again, the closing waits", now, []string{"p1/opened/mail"})
	equal(t, "next", next, minutesAfterNoon(3))
	s.attempt(t, list[0].ID, Attempt{At: minutesAfterNoon(4), State: Dead, Error: "gone"})
	now, next = s.due(t, 5)
	equal(t, "after it", now, []string{"p1/opened/mail", "p1/closed/pager", "p2/opened/pager"})
	equal(t, "next", next, time.Time{})
}

// testClampDue simulates a clock that was set back, and expects deliveries not to wait too long.
func testClampDue(t *testing.T, s *restartableStore) {
	s.record(t, Batch{Deliveries: []Delivery{
		delivery("p1", "opened", pager, 120), delivery("p2", "opened", mail, 4),
	}})
	must(t, s.ClampDue(t.Context(), minutesAfterNoon(2), minutesAfterNoon(5)))
	due, next := s.due(t, 2)
	equal(t, "due", due, []string{"p1/opened/pager"})
	equal(t, "what waits no longer than it may goes on waiting", next, minutesAfterNoon(4))
}

// testOlderHistory simulates history from an old backup, and expects waiting deliveries to be withheld (not
// sent) once.
func testOlderHistory(t *testing.T, s *restartableStore) {
	begin := func(incarnation uint64, lost, want time.Time) {
		t.Helper()
		if got, err := s.RecordIncarnation(t.Context(), incarnation, lost); err != nil || !got.Equal(want) {
			t.Errorf("incarnation %d: unknown until %v, want %v: %v", incarnation, got, want, err)
		}
	}
	states := func(want DeliveryState) {
		t.Helper()
		list, err := s.Deliveries(t.Context(), "p1")
		if err != nil || len(list) != 1 || list[0].State != want {
			t.Errorf("%+v, want %s: %v", list, want, err)
		}
	}
	identity, before := s.Identity(), s.Recorded()
	begin(7, time.Time{}, time.Time{})
	must(t, s.Record(t.Context(), Batch{Deliveries: []Delivery{{Key: "p1/opened/pager", Problem: "p1", Handler: HandlerRef{"default", "pager"}, Kind: "opened", Payload: []byte("{}"), Created: minutesAfterNoon(1)}}}))
	begin(8, time.Time{}, time.Time{})
	states(Pending)
	begin(9, minutesAfterNoon(3), minutesAfterNoon(3))
	states(Withheld)
	s.restart(t)
	begin(9, minutesAfterNoon(4), minutesAfterNoon(3)) // the same incarnation
	if s.Identity() != identity || s.Recorded() != before+1 {
		t.Errorf("identity %d, was %d; %d transactions, before %d", s.Identity(), identity, s.Recorded(), before)
	}
}

// testRates expects Rates to return the last recorded message counts of routes.
func testRates(t *testing.T, s *restartableStore) {
	equal(t, "none", len(noError(s.Rates(t.Context()))), 0)
	first := RouteRate{Route: "default/default", Ends: minutesAfterNoon(60), Sent: 1}
	shadow := RouteRate{Route: "default/default", Shadow: true, Ends: minutesAfterNoon(70), Sent: 7}
	s.record(t, Batch{Rates: []RouteRate{first, shadow}})
	first.Sent = 2
	s.record(t, Batch{Rates: []RouteRate{first}})
	equal(t, "rates", noError(s.Rates(t.Context())), []RouteRate{first, shadow})
}

// testMakeDue checks that MakeDue makes the selected pending deliveries due, and no others.
func testMakeDue(t *testing.T, s *restartableStore) {
	s.record(t, Batch{Deliveries: []Delivery{
		delivery("p1", "opened", pager, 60), delivery("p2", "opened", pager, 60), delivery("p3", "opened", pager, 0),
	}})
	var ids []int64
	for _, problem := range []string{"p1", "p3"} {
		list := noError(s.Deliveries(t.Context(), problem))
		ids = append(ids, list[0].ID)
	}
	s.attempt(t, ids[1], Attempt{At: minutesAfterNoon(1), State: Dead, Error: "gone"})
	must(t, s.MakeDue(t.Context(), append(ids, 1<<40), minutesAfterNoon(2)))
	due, next := s.due(t, 2)
	equal(t, "due", due, []string{"p1/opened/pager"})
	equal(t, "the other waits", next, minutesAfterNoon(60))
	must(t, s.MakeDue(t.Context(), nil, minutesAfterNoon(2)))
}

// testExceptHandlers checks that Due leaves out the deliveries to given handlers.
func testExceptHandlers(t *testing.T, s *restartableStore) {
	s.record(t, Batch{Deliveries: []Delivery{
		delivery("p1", "opened", pager, 0), delivery("p2", "opened", pager, 0), delivery("p3", "opened", mail, 1),
	}})
	list, _, err := s.Due(t.Context(), minutesAfterNoon(2), 1, []HandlerRef{pager})
	must(t, err)
	equal(t, "due", deliveryKeys(list), []string{"p3/opened/mail"})
}

// testAttempts records attempts to send a delivery, and checks the delivery's state, attempt count and last
// error.
func testAttempts(t *testing.T, s *restartableStore) {
	s.record(t, Batch{Deliveries: []Delivery{delivery("p1", "opened", pager, 0)}})
	list := noError(s.Deliveries(t.Context(), "p1"))
	d := list[0]
	dead := delivery("p2", "opened", mail, 0)
	dead.State, dead.LastError, dead.Ended = Dead, "too many wait", minutesAfterNoon(0)
	s.record(t, Batch{Deliveries: []Delivery{dead, delivery("p2", "opened", pager, 0)}})
	equal(t, "pending", noError(s.Pending(t.Context())), map[HandlerRef]int{pager: 2})
	s.attempt(t, d.ID, Attempt{At: minutesAfterNoon(1), State: Pending, NextAt: minutesAfterNoon(2), Error: "answered 503\x00"})
	equal(t, "unsent", noError(s.Unsent(t.Context(), minutesAfterNoon(100_000))), []Unsent{{Handler: pager, Waiting: 2, Failing: 1, Since: minutesAfterNoon(0), LastError: "answered 503\ufffd"}})
	s.attempt(t, d.ID, Attempt{At: minutesAfterNoon(2), State: Delivered})
	list = noError(s.Deliveries(t.Context(), "p1"))
	d.State, d.Attempts, d.NextAt, d.Ended = Delivered, 2, time.Time{}, minutesAfterNoon(2)
	equal(t, "delivery", list, []Delivery{d})
	equal(t, "pending at the end", noError(s.Pending(t.Context())), map[HandlerRef]int{pager: 1})
	list = noError(s.Deliveries(t.Context(), "p2"))
	if len(list) != 2 || list[0].State != Dead || list[0].LastError != dead.LastError || !list[0].Ended.Equal(minutesAfterNoon(0)) {
		t.Errorf("born dead: %+v", list)
	}
}

// testOutput checks that NUL and invalid UTF-8 in outputs are replaced.
func testOutput(t *testing.T, s *restartableStore) {
	e, p := entry(1, 0), problem("p1", "web01", 0)
	e.Output, p.Output = "a\x00b\xffc ✓", "\x00"
	s.record(t, Batch{Entries: []Entry{e}, Opened: []Problem{p}})
	entries := noError(s.Entries(t.Context(), EntryQuery{}))
	equal(t, "output", entries[0].Output, "a�b�c ✓")
}

// testClean checks that old rows are removed and open problems stay.
func testClean(t *testing.T, s *restartableStore) {
	old, recent, still := problem("old", "web01", 0), problem("recent", "web01", 0), problem("still", "web01", 0)
	b := Batch{Opened: []Problem{old, recent, still}, Entries: []Entry{entry(1, 0), entry(2, 50)}}
	for _, p := range b.Opened {
		b.Deliveries = append(b.Deliveries, delivery(p.ID, "opened", pager, 0))
	}
	old.Closed, recent.Closed = minutesAfterNoon(5), minutesAfterNoon(50)
	b.Closed = []Problem{old, recent}
	s.record(t, b)
	for _, p := range b.Opened {
		list := noError(s.Deliveries(t.Context(), p.ID))
		s.attempt(t, list[0].ID, Attempt{At: minutesAfterNoon(1), State: Delivered})
	}
	s.record(t, Batch{Deliveries: []Delivery{delivery("recent", "closed", mail, 2)}})
	removed := noError(s.Clean(t.Context(), minutesAfterNoon(30), 100))
	equal(t, "removed: an entry, a problem and two deliveries", removed, 4)
	equal(t, "problems left", len(noError(s.Problems(t.Context(), ProblemQuery{}))), 2)
	told := noError(s.Deliveries(t.Context(), "still"))
	equal(t, "an open problem remembers who was told", []HandlerRef{told[0].Handler}, []HandlerRef{pager})
	equal(t, "what waits is never removed", deliveryKeys(noError(s.Deliveries(t.Context(), "recent"))), []string{"recent/closed/mail"})
}

// testCleanSteps checks that one call of Clean removes at most n rows.
func testCleanSteps(t *testing.T, s *restartableStore) {
	var b Batch
	for i := range 25 {
		b.Entries = append(b.Entries, entry(uint64(i+1), 0))
	}
	s.record(t, b)
	for _, want := range []int{10, 10, 5, 0} {
		equal(t, "removed", noError(s.Clean(t.Context(), minutesAfterNoon(1), 10)), want)
	}
}

// testInvalidBatchStoresNothing writes a batch with one invalid row, and expects no row of the batch in the
// store.
func testInvalidBatchStoresNothing(t *testing.T, s *restartableStore) {
	broken := delivery("p1", "opened", pager, 0)
	broken.Payload = nil // NOT NULL: the engine refuses it
	err := s.Record(t.Context(), Batch{
		Entries: []Entry{entry(1, 0)}, Deliveries: []Delivery{broken}, Places: map[model.Partition]ChangePosition{1: testPosition(1, 0)},
	})
	if err == nil {
		t.Fatal("a row without payload was taken")
	}
	entries := noError(s.Entries(t.Context(), EntryQuery{}))
	places := noError(s.Positions(t.Context()))
	if len(entries) != 0 || len(places) != 0 {
		t.Errorf("%d entries and %d places of a refused batch", len(entries), len(places))
	}
}

// testReplayDeadLetters resends dead letters (deliveries given up), and expects a skip for a closed problem.
// Dead letters are deliveries given up.
func testReplayDeadLetters(t *testing.T, s *restartableStore) {
	ended := problem("ended", "web02", 0)
	ended.Closed = minutesAfterNoon(5)
	heard := problem("heard", "web03", 0)
	heard.Closed = minutesAfterNoon(5)
	s.record(t, Batch{
		Opened: []Problem{problem("open", "web01", 0)}, Closed: []Problem{ended, heard},
		Deliveries: []Delivery{
			delivery("open", "opened", pager, 0), delivery("ended", "opened", pager, 0), delivery("heard", "opened", pager, 0), delivery("open", "opened", mail, 0),
			delivery("ended", "closed", pager, 5), delivery("heard", "closed", pager, 5),
		},
	})
	id := map[string]int64{}
	for _, p := range []string{"open", "ended", "heard"} {
		list := noError(s.Deliveries(t.Context(), p))
		for _, d := range list {
			id[d.Key] = d.ID
		}
	}
	end := func(key string, state DeliveryState) {
		s.attempt(t, id[key], Attempt{At: minutesAfterNoon(6), State: state, Error: "no"})
	}
	for _, key := range []string{"open/opened/pager", "ended/opened/pager", "heard/closed/pager", "open/opened/mail"} {
		end(key, Dead)
	}
	end("heard/opened/pager", Delivered)
	end("ended/closed/pager", Delivered)

	dead := noError(s.DeadLetters(t.Context(), pager, 0, 2))
	equal(t, "newest first", deliveryKeys(dead), []string{"heard/closed/pager", "ended/opened/pager"})
	equal(t, "next page", deliveryKeys(noError(s.DeadLetters(t.Context(), pager, dead[1].ID, 2))), []string{"open/opened/pager"})

	revive := func(q ReplayQuery) ReplayCounts {
		return noError(s.Revive(t.Context(), pager, minutesAfterNoon(60), q))
	}
	equal(t, "of the limit", revive(ReplayQuery{Limit: 1}), ReplayCounts{Revived: 1, SkippedClosed: 1, More: 1})
	equal(t, "of others' ids", revive(ReplayQuery{Limit: 10, IDs: []int64{id["open/opened/mail"], 4711}}), ReplayCounts{})
	equal(t, "the rest", revive(ReplayQuery{Limit: 10}), ReplayCounts{Revived: 1, SkippedClosed: 1})
	list, _, err := s.Due(t.Context(), minutesAfterNoon(61), 10, nil)
	must(t, err)
	equal(t, "due again", deliveryKeys(list), []string{"open/opened/pager", "heard/closed/pager"})
	if d := list[0]; !d.Replayed.Equal(minutesAfterNoon(60)) || d.Attempts != 0 || !d.Ended.IsZero() || !d.AttemptsStart().Equal(minutesAfterNoon(60)) || !d.Created.Equal(minutesAfterNoon(0)) {
		t.Errorf("%+v", d)
	}
	// The replay of a closed problem's opening also replays its closing, although that was delivered: first the
	// opening, then the closing.
	equal(t, "ended too", revive(ReplayQuery{Limit: 10, Ended: true}), ReplayCounts{Revived: 2})
	end("open/opened/pager", Delivered)
	end("heard/closed/pager", Delivered)
	due, _ := s.due(t, 61)
	equal(t, "its beginning", due, []string{"ended/opened/pager"})
	end("ended/opened/pager", Delivered)
	due, _ = s.due(t, 61)
	equal(t, "its end", due, []string{"ended/closed/pager"})
	equal(t, "nothing is left", revive(ReplayQuery{Limit: 10, Ended: true}), ReplayCounts{})

	equal(t, "who was told of what is open", noError(s.HandlersOfOpenProblems(t.Context())), []HandlerRef{pager})
	list = noError(s.OpenDeliveries(t.Context(), pager, 0, 10))
	equal(t, "of what", deliveryKeys(list), []string{"open/opened/pager"})
	equal(t, "after that", deliveryKeys(noError(s.OpenDeliveries(t.Context(), pager, list[0].ID, 10))), []string(nil))
}

// testEscalations expects the list of escalations to have their last written state. Finished escalations are not in
// the list.
func testEscalations(t *testing.T, s *restartableStore) {
	key := func(problem, route string) EscalationKey {
		return EscalationKey{Problem: problem, Route: route}
	}
	first := Escalation{EscalationKey: key("p2", ""), NodeID: 7, Source: model.CheckSource(1001), Group: "p2", Lead: "p2", Opened: minutesAfterNoon(0), Direct: []HandlerRef{mail}, Next: make(route.Escalation, 1), Notified: []NotifiedHandler{{HandlerRef: mail, Incident: "p2.1", Acked: true}}, AckEnds: minutesAfterNoon(5)}
	held := Escalation{EscalationKey: key("p1", "default/b"), NodeID: 7, Source: model.CheckSource(1001), Group: "g\x00h", Lead: "p0", Opened: minutesAfterNoon(1), Next: route.Escalation{minutesAfterNoon(2), time.Time{}}, Shadow: true, Due: minutesAfterNoon(9),
		Hold: &route.Hold{Kind: route.OverRate, By: route.Name{Namespace: "default", Name: "b"}, Reason: "more than 2 messages in 1h", Until: minutesAfterNoon(9)}}
	closing := Escalation{EscalationKey: key("p1", "default/a"), NodeID: 7, Source: model.CheckSource(1001), Group: "disk", Lead: "p1", Opened: minutesAfterNoon(1), Next: route.Escalation{minutesAfterNoon(3)}, Closing: json.RawMessage(`{"version":1}`), Due: minutesAfterNoon(4)}
	earlier := held
	earlier.Hold, earlier.Due = nil, time.Time{}
	s.record(t, Batch{Escalations: []Escalation{first, earlier, closing}})
	s.record(t, Batch{Escalations: []Escalation{held}})
	s.restart(t)
	equal(t, "all, by problem and route", noError(s.Escalations(t.Context())), []Escalation{closing, held, first})
	equal(t, "of one", noError(s.EscalationsOf(t.Context(), "p1")), []Escalation{closing, held})
	s.record(t, Batch{Finished: []EscalationKey{held.EscalationKey, first.EscalationKey, key("p1", "")}})
	equal(t, "left", noError(s.Escalations(t.Context())), []Escalation{closing})
	equal(t, "of one that is over", len(noError(s.EscalationsOf(t.Context(), "p2"))), 0)
}

// testMessages checks which sent and simulated (shadow) deliveries a report lists, by time and page. Pending
// deliveries, withheld deliveries and beats of the watchdog are no messages.
func testMessages(t *testing.T, s *restartableStore) {
	b := Batch{Opened: []Problem{problem("one", "web01", 0), problem("two", "web02", 0)}}
	b.Opened[1].Namespace = "beside"
	add := func(key, problem, tells string, state DeliveryState, minute int) {
		d := delivery(problem, "opened", pager, minute)
		d.Key, d.State, d.Route, d.Event, d.Count = key, state, "default/on-call", tells, 3
		if state != Pending {
			d.Ended = minutesAfterNoon(minute)
		}
		b.Deliveries = append(b.Deliveries, d)
	}
	add("sent", "one", "opened", Delivered, 1)
	add("dead", "one", "reminder", Dead, 2)
	add("waits", "one", "opened", Pending, 3)
	add("withheld", "one", "opened", Withheld, 3)
	for i := range 4 {
		add(fmt.Sprint("shadow", i), "two", "closed", Shadow, 4+i/2) // two at a time
	}
	add("gone", "another", "", Delivered, 9)
	b.Deliveries = append(b.Deliveries, Delivery{Key: "beat", Problem: "watchdog", Handler: pager, Kind: "beat", Payload: []byte("{}"), Created: minutesAfterNoon(5), State: Delivered, Ended: minutesAfterNoon(5)})
	s.record(t, b)

	list := func(q MessageQuery) (said []string) {
		t.Helper()
		for {
			page := noError(s.Messages(t.Context(), q))
			for _, m := range page {
				said = append(said, fmt.Sprintf("%s %s/%s/%s %s %s %s ×%d %d", m.State, m.Namespace, m.Node, m.SourceName, m.Route, m.Event, m.Ended.Sub(minutesAfterNoon(0)), m.Count, len(m.Payload)))
			}
			if q.Limit == 0 || len(page) < q.Limit {
				return said
			}
			q.Until, q.BeforeID = page[len(page)-1].Ended, page[len(page)-1].ID
		}
	}
	shadow := "shadow beside/web02/disk default/on-call closed %s ×3 %d"
	shadows := func(payload int) (out []string) {
		for _, m := range []string{"5m0s", "5m0s", "4m0s", "4m0s"} {
			out = append(out, fmt.Sprintf(shadow, m, payload))
		}
		return out
	}
	sent := []string{"dead default/web01/disk default/on-call reminder 2m0s ×3 0", "delivered default/web01/disk default/on-call opened 1m0s ×3 0"}
	equal(t, "all", list(MessageQuery{}), append(append([]string{"delivered // default/on-call opened 9m0s ×3 0"}, shadows(0)...), sent...))
	equal(t, "shadow, in pages", list(MessageQuery{Shadow: true, Limit: 1}), shadows(13))
	equal(t, "of a namespace", list(MessageQuery{Namespace: "default"}), sent)
	equal(t, "of a time", list(MessageQuery{Since: minutesAfterNoon(2), Until: minutesAfterNoon(4)}), sent[:1])
}

// testAckAndFlappingEntries expects AckAndFlappingEntries to return only entries about acknowledgements and
// starts of flapping.
func testAckAndFlappingEntries(t *testing.T, s *restartableStore) {
	equal(t, "nothing is kept", noError(s.Oldest(t.Context())), time.Time{})
	var b Batch
	for i, kind := range []EntryKind{StatusChanged, FlappingStarted, Acknowledged, FlappingEnded, FlappingStarted} {
		e := entry(uint64(i+1), i)
		e.Kind = kind
		if i == 4 {
			e.Namespace = "other"
		}
		b.Entries = append(b.Entries, e)
	}
	s.record(t, b)
	list := func(q EntryQuery) (said []string) {
		entries := noError(s.FlappingAndAcknowledgements(t.Context(), q))
		for _, e := range entries {
			said = append(said, fmt.Sprint(e.Kind, e.At.Sub(minutesAfterNoon(0)).Minutes()))
		}
		return said
	}
	equal(t, "all", list(EntryQuery{}), []string{"flapping4", "acknowledged2", "flapping1"})
	equal(t, "of a namespace and time", list(EntryQuery{Namespace: "default", Since: minutesAfterNoon(2), Before: minutesAfterNoon(4)}), []string{"acknowledged2"})
	equal(t, "the oldest", noError(s.Oldest(t.Context())), minutesAfterNoon(0))
	equal(t, "problems since", len(noError(s.Problems(t.Context(), ProblemQuery{Since: minutesAfterNoon(1)}))), 0)
	s.record(t, Batch{Opened: []Problem{problem("before", "web01", 0), problem("since", "web01", 1)}})
	for _, node := range []string{"", "web01"} {
		problems := noError(s.Problems(t.Context(), ProblemQuery{Node: node, Since: minutesAfterNoon(1)}))
		if len(problems) != 1 || problems[0].ID != "since" {
			t.Errorf("problems of %q since: %v", node, problems)
		}
	}
}

// opener returns a function that opens the test's history store with small or large table segments. The number is the
// rows of a segment.
func opener(t *testing.T, dsn string, segment int64) func() Store {
	return func() Store { return noError(open(t.Context(), dsn, segment, SizeLimit{})) }
}

// TestStoreOnSQLite runs the store's conformance tests on SQLite.
func TestStoreOnSQLite(t *testing.T) {
	runConformanceTests(t, func(t *testing.T) string { return filepath.Join(t.TempDir(), "history.db") })
}

// TestStoreOnPostgreSQL runs the store's conformance tests on PostgreSQL.
func TestStoreOnPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := pgtest.Start(t)
	runConformanceTests(t, func(t *testing.T) string { return server.Database(t) })
}

// testSchemaUpgrade simulates a schema upgrade to version 2, and expects the old rows to remain. A program that knows
// only version 1 then refuses the database.
func testSchemaUpgrade(t *testing.T, dsn string) {
	s := opener(t, dsn, 3)()
	identity := s.Identity()
	testenv.NoError(t, s.Close())
	db, err := sqldb.Open(t.Context(), dsn, "history")
	testenv.NoError(t, err)
	next := append(slices.Clone(schema), `ALTER TABLE history_life ADD COLUMN why {text} NOT NULL DEFAULT 'unknown';`)
	testenv.NoError(t, db.Migrate(t.Context(), next))
	var kept int64
	var why string
	if err := db.QueryRow(t.Context(), `SELECT identity, why FROM history_life`).Scan(&kept, &why); err != nil || uint64(kept) != identity || why != "unknown" {
		t.Errorf("identity %d, want %d, why %q, %v", kept, identity, why, err)
	}
	testenv.NoError(t, db.Close())
	if _, err := Open(t.Context(), dsn, SizeLimit{}); model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("version 2: %v", err)
	}
}

// FuzzDecodeEscalation decodes random bytes as an escalation, and expects an error or the same escalation after
// encoding.
func FuzzDecodeEscalation(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"group":"default/web","lead":"01J","told":["a"],"next":[null]}`))
	f.Add([]byte(`{"problem":"other"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		key := EscalationKey{Problem: "p", Route: "r"}
		read, err := decodeEscalation(key, body)
		if err != nil {
			return
		}
		if read.EscalationKey != key {
			t.Fatalf("the row's key is %v, the escalation says %v", key, read.EscalationKey)
		}
		list, err := encodeEscalations([]Escalation{read})
		if err != nil {
			return // a time after the year 9999 decodes but does not encode
		}
		again, err := decodeEscalation(key, list[0].body)
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		twice, err := encodeEscalations([]Escalation{again})
		if err != nil || !reflect.DeepEqual(list[0].body, twice[0].body) {
			t.Fatalf("written %s, then %s (%v)", list[0].body, twice[0].body, err)
		}
	})
}

// testForgetChanges deletes the entries after a journal position, and expects all other entries to stay. Entries before it
// and other partitions stay.
func testForgetChanges(t *testing.T, s *restartableStore) {
	other := entry(9, 9)
	other.Partition = 6
	b := Batch{Entries: []Entry{other}, Places: map[model.Partition]ChangePosition{5: testPosition(8, 3), 6: testPosition(9, 0), 7: testPosition(4, 0)}}
	for n := range uint64(8) {
		b.Entries = append(b.Entries, entry(n+1, int(n+1)))
	}
	s.record(t, b)
	after := [model.Partitions]journal.Position{5: testPosition(5, 0).At, 6: testPosition(9, 0).At, 7: testPosition(6, 0).At}
	must(t, s.ForgetChanges(t.Context(), after))
	numbers := func() (list []uint64) {
		entries, err := s.Entries(t.Context(), EntryQuery{Limit: 100})
		must(t, err)
		for _, e := range entries {
			list = append(list, e.Place.At.Number)
		}
		slices.Sort(list)
		return list
	}
	if got := numbers(); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 9}) {
		t.Errorf("entries of commits %v are left", got)
	}
	places, err := s.Positions(t.Context())
	if want := map[model.Partition]ChangePosition{5: testPosition(5, 0), 6: testPosition(9, 0), 7: testPosition(6, 0)}; err != nil || !reflect.DeepEqual(places, want) {
		t.Errorf("places %+v, %v, want %+v", places, err, want)
	}
	s.record(t, Batch{Entries: []Entry{entry(6, 6)}})
	if got := numbers(); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6, 9}) {
		t.Errorf("entries of commits %v after one was made again", got)
	}
	must(t, s.ForgetChanges(t.Context(), [model.Partitions]journal.Position{}))
	if places, err = s.Positions(t.Context()); err != nil || len(places)+len(numbers()) > 0 {
		t.Errorf("places %+v and entries %v are left of all, %v", places, numbers(), err)
	}
}
