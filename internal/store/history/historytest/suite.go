// Package historytest is the conformance suite of history.Store. Start reading at Run.
package historytest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	pager = history.HandlerRef{Namespace: "default", Name: "pager"}
	mail  = history.HandlerRef{Namespace: "default", Name: "mail"}
)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func place(number uint64, index uint32) history.Place {
	return history.Place{At: journal.Position{Log: 1 << 63, Number: number}, Index: index}
}

func problem(id, node string, opened int) history.Problem {
	return history.Problem{
		Problem: model.Problem{
			ID: id, NodeID: 7, Source: model.CheckSource(1001), Chunk: 3, Status: model.Critical, Severity: model.High,
			Opened: at(opened), Output: "disk full",
		},
		Namespace: "default", Node: node, SourceName: "disk",
	}
}

func delivery(problem, kind string, to history.HandlerRef, created int) history.Delivery {
	return history.Delivery{
		Key: problem + "/" + kind + "/" + to.Name, Problem: problem, Handler: to, Kind: kind,
		Payload: []byte(`{"version":1}`), Created: at(created),
	}
}

func entry(number uint64, minute int) history.Entry {
	return history.Entry{
		At: at(minute), Executed: at(minute), Kind: history.StatusChanged, Namespace: "default", Node: "web01", NodeID: 7,
		Source: model.CheckSource(1001), SourceName: "disk", Status: model.Critical, Previous: model.OK, Output: "disk full",
		Partition: 5, Place: place(number, 0),
	}
}

// Run runs the suite. open makes an empty store and returns how to open it again.
func Run(t *testing.T, open func(t *testing.T) (reopen func() history.Store)) {
	for name, test := range map[string]func(*testing.T, func() history.Store){
		"a batch is stored whole":          testBatch,
		"a repeated batch changes nothing": testTwice,
		"problems page newest first":       testPages,
		"problem counts":                   testSince,
		"entries by event and time":        testEntries,
		"rows of many nodes":               testMany,
		"due in order per problem":         testDue,
		"due without busy handlers":        testExcept,
		"clamp due":                        testClampDue,
		"make due":                         testMakeDue,
		"rates":                            testRates,
		"alive until":                      testAlive,
		"attempts":                         testAttempts,
		"dead letters":                     testDead,
		"escalations":                      testEscalations,
		"messages":                         testMessages,
		"marks":                            testMarks,
		"any bytes of output":              testOutput,
		"cleaning keeps what is open":      testClean,
		"cleaning in steps":                testCleanSteps,
		"a batch with a fault is nothing":  testAllOrNothing,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ok returns the result of a call that must succeed.
func ok[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func testBatch(t *testing.T, open func() history.Store) {
	s := open()
	first := entry(3, 0)
	first.First, first.Previous = true, model.OK
	b := history.Batch{
		Entries: []history.Entry{first, entry(4, 0)}, Opened: []history.Problem{problem("p1", "web01", 0)},
		Deliveries: []history.Delivery{delivery("p1", "opened", pager, 0)},
		Places:     map[model.Partition]history.Place{5: place(4, 2), 255: place(9, 0)},
	}
	b.Deliveries[0].Also = []string{"p3", "p2"}
	must(t, s.Record(t.Context(), b))
	must(t, s.Close())

	s = open() // a restart
	defer s.Close()
	places := ok(s.Places(t.Context()))
	equal(t, "places", places, b.Places)
	p := ok(s.Problem(t.Context(), "p1"))
	equal(t, "problem", p, b.Opened[0])
	entries := ok(s.Entries(t.Context(), history.EntryQuery{}))
	slices.Reverse(entries) // newest first; of the same time, the last recorded first
	equal(t, "entries", withoutIDs(entries), b.Entries)
	also := ok(s.AlsoProblems(t.Context(), b.Deliveries[0].Key))
	equal(t, "also told of", also, []string{"p2", "p3"})
	if _, err := s.Problem(t.Context(), "none"); model.ClassOf(err) != model.NotFound {
		t.Errorf("no such problem: %v", err)
	}
	ids := []string{"none", "p1"}
	for i := range 600 { // more than one query asks for
		ids = append(ids, fmt.Sprint("none", i))
	}
	known := ok(s.KnownProblems(t.Context(), ids))
	equal(t, "known", known, map[string]bool{"p1": true})
}

func testTwice(t *testing.T, open func() history.Store) {
	s := open()
	closed := problem("p1", "web01", 0)
	closed.Closed, closed.Status = at(5), model.Unknown
	b := history.Batch{
		Entries: []history.Entry{entry(4, 0)}, Opened: []history.Problem{problem("p1", "web01", 0)}, Closed: []history.Problem{closed},
		Deliveries: []history.Delivery{delivery("p1", "opened", pager, 0), delivery("p1", "closed", pager, 5)},
		Places:     map[model.Partition]history.Place{5: place(4, 2)},
	}
	for range 2 {
		must(t, s.Record(t.Context(), b))
	}
	// Again by a store that was opened anew, and by one that was interrupted since.
	must(t, s.Close())
	s = open()
	defer s.Close()
	must(t, s.Record(t.Context(), b))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Record(stopped, history.Batch{Entries: []history.Entry{entry(4, 1)}}); err == nil {
		t.Error("recorded though it was stopped")
	}
	must(t, s.Record(t.Context(), b))
	deliveries := ok(s.Deliveries(t.Context(), "p1"))
	entries := ok(s.Entries(t.Context(), history.EntryQuery{}))
	problems := ok(s.Problems(t.Context(), history.ProblemQuery{}))
	if len(deliveries) != 2 || len(entries) != 1 || len(problems) != 1 {
		t.Errorf("%d deliveries, %d entries, %d problems", len(deliveries), len(entries), len(problems))
	}
	equal(t, "problem", problems[0].Problem, closed.Problem)
}

func testPages(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	var b history.Batch
	for i := range 7 {
		b.Opened = append(b.Opened, problem(fmt.Sprint("p", i), fmt.Sprint("web0", i%2), i/2)) // pairs open together
	}
	must(t, s.Record(t.Context(), b))
	ended := b.Opened[0]
	ended.Closed = at(9)
	must(t, s.Record(t.Context(), history.Batch{Closed: []history.Problem{ended}}))

	list := func(q history.ProblemQuery) (ids []string) {
		for {
			page := ok(s.Problems(t.Context(), q))
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
	equal(t, "all", list(history.ProblemQuery{}), []string{"p6", "p5", "p4", "p3", "p2", "p1", "p0"})
	equal(t, "paged", list(history.ProblemQuery{Limit: 2}), []string{"p6", "p5", "p4", "p3", "p2", "p1", "p0"})
	equal(t, "open on web00", list(history.ProblemQuery{Open: true, Node: "web00", Limit: 1}), []string{"p6", "p4", "p2"})
	equal(t, "another namespace", list(history.ProblemQuery{Namespace: "x"}), []string(nil))
	equal(t, "of a node, whatever it was called", list(history.ProblemQuery{NodeID: 7, Limit: 3}), []string{"p6", "p5", "p4", "p3", "p2", "p1", "p0"})
	equal(t, "of another node", list(history.ProblemQuery{NodeID: 8}), []string(nil))
	equal(t, "another check", list(history.ProblemQuery{Check: "cpu"}), []string(nil))
}

func testSince(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	other := problem("p4", "web04", 70)
	other.Namespace = "demo"
	closed := problem("p1", "web01", 0)
	closed.Closed = at(65)
	must(t, s.Record(t.Context(), history.Batch{
		Opened: []history.Problem{problem("p1", "web01", 0), problem("p2", "web02", 60), problem("p3", "web03", 61), other},
		Closed: []history.Problem{closed},
	}))
	for _, c := range []struct {
		namespace      string
		minute         int
		opened, closed int
	}{{"", 60, 3, 1}, {"default", 60, 2, 1}, {"demo", 60, 1, 0}, {"", 0, 4, 1}, {"", 66, 1, 0}, {"", 71, 0, 0}} {
		opened, closed, err := s.CountProblems(t.Context(), c.namespace, at(c.minute))
		must(t, err)
		equal(t, fmt.Sprintf("%+v", c), [2]int{opened, closed}, [2]int{c.opened, c.closed})
	}
}

func testEntries(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	first, second, other := entry(1, 0), entry(2, 1), entry(3, 2)
	second.Kind, second.Count, second.Expired = history.ResultsLost, 12, true
	other.Node = "web02"
	must(t, s.Record(t.Context(), history.Batch{Entries: []history.Entry{first, second, other}}))
	list := func(q history.EntryQuery) []history.Entry {
		entries := ok(s.Entries(t.Context(), q))
		return withoutIDs(entries)
	}
	equal(t, "of an event", list(history.EntryQuery{Namespace: "default", Node: "web01", Check: "disk"}), []history.Entry{second, first})
	equal(t, "of a node, whatever it was called", list(history.EntryQuery{NodeID: 7, Check: "disk"}), []history.Entry{other, second, first})
	equal(t, "of a kind", list(history.EntryQuery{NodeID: 7, Kind: history.ResultsLost}), []history.Entry{second})
	equal(t, "since", list(history.EntryQuery{Since: at(2)}), []history.Entry{other})
	equal(t, "of a name that is not there", list(history.EntryQuery{Node: "web03"}), []history.Entry(nil))
	var pages []history.Entry
	for q := (history.EntryQuery{NodeID: 7, Limit: 1}); ; {
		page := ok(s.Entries(t.Context(), q))
		if len(page) == 0 {
			break
		}
		q.Before, q.BeforeID = page[0].At, page[0].ID
		pages = append(pages, page...)
	}
	equal(t, "in pages", withoutIDs(pages), []history.Entry{other, second, first})
	equal(t, "limited", list(history.EntryQuery{Limit: 1}), []history.Entry{other})
}

// testMany compares every query on many unordered rows with a sorted list in memory, before and after
// cleaning.
func testMany(t *testing.T, open func() history.Store) {
	s := open()
	var all []history.Entry
	var problems []history.Problem
	random := rand.New(rand.NewPCG(3, 4))
	for batch := range 12 {
		var b history.Batch
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
		must(t, s.Record(t.Context(), b))
	}
	slices.Reverse(all) // of the same time, the last recorded first
	slices.SortStableFunc(all, func(a, b history.Entry) int { return b.At.Compare(a.At) })
	slices.SortFunc(problems, func(a, b history.Problem) int {
		return cmp.Or(b.Opened.Compare(a.Opened), cmp.Compare(b.ID, a.ID))
	})
	check := func(what string) {
		t.Helper()
		for _, q := range []history.EntryQuery{
			{}, {NodeID: 2}, {NodeID: 3, Check: "c1"}, {Node: "n1"}, {Namespace: "default", Node: "n4", Check: "c2"}, {Check: "c0"},
			{NodeID: 1, Since: at(60)}, {Node: "n2", Since: at(40), Before: at(80)}, {Since: at(30), Before: at(31)}, {NodeID: 1, Limit: 3}, {Node: "n1", Limit: 5},
		} {
			list := ok(s.Entries(t.Context(), q))
			equal(t, fmt.Sprintf("%s, entries of %+v", what, q), withoutIDs(list), firstOf(all, q.Limit, func(e *history.Entry) bool {
				return (q.NodeID == 0 || e.NodeID == q.NodeID) && (q.Node == "" || e.Node == q.Node) && (q.Check == "" || e.SourceName == q.Check) &&
					!e.At.Before(q.Since) && (q.Before.IsZero() || e.At.Before(q.Before))
			}))
		}
		for _, q := range []history.ProblemQuery{
			{}, {NodeID: 2}, {Node: "n1", Open: true}, {NodeID: 3, Check: "c1"}, {Open: true}, {Node: "n2", Before: at(50), Limit: 2}, {NodeID: 4, Limit: 3},
		} {
			list := ok(s.Problems(t.Context(), q))
			equal(t, fmt.Sprintf("%s, problems of %+v", what, q), list, firstOf(problems, q.Limit, func(p *history.Problem) bool {
				return (q.NodeID == 0 || p.NodeID == q.NodeID) && (q.Node == "" || p.Node == q.Node) && (q.Check == "" || p.SourceName == q.Check) &&
					(!q.Open || p.Closed.IsZero()) && (q.Before.IsZero() || p.Opened.Before(q.Before))
			}))
		}
	}
	check("at first")
	must(t, s.Close())
	s = open()
	defer s.Close()
	check("after a restart")
	for range 40 { // some steps more than there are rows, so that emptied segments go too
		ok(s.Clean(t.Context(), at(60), 5))
	}
	all = slices.DeleteFunc(all, func(e history.Entry) bool { return e.At.Before(at(60)) })
	problems = slices.DeleteFunc(problems, func(p history.Problem) bool { return !p.Closed.IsZero() && p.Closed.Before(at(60)) })
	check("after cleaning")
	e := entry(1000, 200)
	e.NodeID, e.Node = 2, "n2"
	must(t, s.Record(t.Context(), history.Batch{Entries: []history.Entry{e}}))
	all = append([]history.Entry{e}, all...)
	check("after what came then")
}

func firstOf[T any](list []T, most int, keep func(*T) bool) (out []T) {
	for i := range list {
		if keep(&list[i]) && (most == 0 || len(out) < most) {
			out = append(out, list[i])
		}
	}
	return out
}

// withoutIDs clears the numbers that the store assigned.
func withoutIDs(entries []history.Entry) []history.Entry {
	for i := range entries {
		entries[i].ID = 0
	}
	return entries
}

func keys(deliveries []history.Delivery) (list []string) {
	for _, d := range deliveries {
		list = append(list, d.Key)
	}
	return list
}

func testDue(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	must(t, s.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{
		delivery("p1", "opened", pager, 0), delivery("p1", "opened", mail, 0), delivery("p1", "closed", pager, 1), delivery("p2", "opened", pager, 3),
	}}))
	due := func(minute int) ([]string, time.Time) {
		list, next, err := s.Due(t.Context(), at(minute), 10, nil)
		must(t, err)
		return keys(list), next
	}
	now, next := due(2)
	equal(t, "due", now, []string{"p1/opened/pager", "p1/opened/mail"})
	equal(t, "next", next, at(3))

	list, _, err := s.Due(t.Context(), at(2), 1, nil)
	must(t, err)
	equal(t, "whole row", list[0].Payload, []byte(`{"version":1}`))
	must(t, s.RecordAttempts(t.Context(), history.Outcome{ID: list[0].ID, Attempt: history.Attempt{At: at(2), State: history.Pending, NextAt: at(4), Error: "no answer"}}))
	now, next = due(2)
	equal(t, "while the opening is tried again, the closing waits", now, []string{"p1/opened/mail"})
	equal(t, "next", next, at(3))
	must(t, s.RecordAttempts(t.Context(), history.Outcome{ID: list[0].ID, Attempt: history.Attempt{At: at(4), State: history.Dead, Error: "gone"}}))
	now, next = due(5)
	equal(t, "after it", now, []string{"p1/opened/mail", "p1/closed/pager", "p2/opened/pager"})
	equal(t, "next", next, time.Time{})
}

// testClampDue sets the clock back by two hours.
func testClampDue(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	must(t, s.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{
		delivery("p1", "opened", pager, 120), delivery("p2", "opened", mail, 4),
	}}))
	must(t, s.ClampDue(t.Context(), at(2), at(5)))
	list, next, err := s.Due(t.Context(), at(2), 10, nil)
	must(t, err)
	equal(t, "due", keys(list), []string{"p1/opened/pager"})
	equal(t, "what waits no longer than it may goes on waiting", next, at(4))
}

// testAlive keeps the time of the last RecordAlive.
func testAlive(t *testing.T, open func() history.Store) {
	s := open()
	defer func() { s.Close() }()
	is := func(want time.Time) {
		t.Helper()
		if got, err := s.AliveUntil(t.Context()); err != nil || !got.Equal(want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	is(time.Time{})
	at := time.Unix(1_770_000_000, 123).UTC()
	must(t, s.RecordAlive(t.Context(), at))
	is(at)
	must(t, s.RecordAlive(t.Context(), at.Add(-time.Hour))) // the clock was set back
	is(at.Add(-time.Hour))
	must(t, s.Close())
	s = open()
	is(at.Add(-time.Hour))
}

// testRates: what is used of a rate is what was recorded last.
func testRates(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	list := ok(s.Rates(t.Context()))
	equal(t, "none", len(list), 0)
	first := history.Rate{Route: "default/default", Ends: at(60), Sent: 1}
	shadow := history.Rate{Route: "default/default", Shadow: true, Ends: at(70), Sent: 7}
	must(t, s.Record(t.Context(), history.Batch{Rates: []history.Rate{first, shadow}}))
	first.Sent = 2
	must(t, s.Record(t.Context(), history.Batch{Rates: []history.Rate{first}}))
	list = ok(s.Rates(t.Context()))
	equal(t, "rates", list, []history.Rate{first, shadow})
}

// testMakeDue makes the named pending deliveries due, and no others.
func testMakeDue(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	must(t, s.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{
		delivery("p1", "opened", pager, 60), delivery("p2", "opened", pager, 60), delivery("p3", "opened", pager, 0),
	}}))
	var ids []int64
	for _, problem := range []string{"p1", "p3"} {
		list := ok(s.Deliveries(t.Context(), problem))
		ids = append(ids, list[0].ID)
	}
	must(t, s.RecordAttempts(t.Context(), history.Outcome{ID: ids[1], Attempt: history.Attempt{At: at(1), State: history.Dead, Error: "gone"}}))
	must(t, s.MakeDue(t.Context(), append(ids, 1<<40), at(2)))
	list, next, err := s.Due(t.Context(), at(2), 10, nil)
	must(t, err)
	equal(t, "due", keys(list), []string{"p1/opened/pager"})
	equal(t, "the other waits", next, at(60))
	must(t, s.MakeDue(t.Context(), nil, at(2)))
}

func testExcept(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	must(t, s.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{
		delivery("p1", "opened", pager, 0), delivery("p2", "opened", pager, 0), delivery("p3", "opened", mail, 1),
	}}))
	list, _, err := s.Due(t.Context(), at(2), 1, []history.HandlerRef{pager})
	must(t, err)
	equal(t, "due", keys(list), []string{"p3/opened/mail"})
}

func testAttempts(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	must(t, s.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{delivery("p1", "opened", pager, 0)}}))
	list := ok(s.Deliveries(t.Context(), "p1"))
	d := list[0]
	dead := delivery("p2", "opened", mail, 0)
	dead.State, dead.LastError, dead.Ended = history.Dead, "too many wait", at(0)
	must(t, s.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{dead, delivery("p2", "opened", pager, 0)}}))
	pending := ok(s.Pending(t.Context()))
	equal(t, "pending", pending, map[history.HandlerRef]int{pager: 2})
	must(t, s.RecordAttempts(t.Context(), history.Outcome{ID: d.ID, Attempt: history.Attempt{At: at(1), State: history.Pending, NextAt: at(2), Error: "answered 503\x00"}}))
	unsent := ok(s.Unsent(t.Context()))
	equal(t, "unsent", unsent, []history.Unsent{{Handler: pager, Waiting: 2, Failing: 1, Since: at(0), LastError: "answered 503\ufffd"}})
	must(t, s.RecordAttempts(t.Context(), history.Outcome{ID: d.ID, Attempt: history.Attempt{At: at(2), State: history.Delivered}}))
	list = ok(s.Deliveries(t.Context(), "p1"))
	d.State, d.Attempts, d.NextAt, d.Ended = history.Delivered, 2, time.Time{}, at(2)
	equal(t, "delivery", list, []history.Delivery{d})
	pending = ok(s.Pending(t.Context()))
	equal(t, "pending at the end", pending, map[history.HandlerRef]int{pager: 1})
	list = ok(s.Deliveries(t.Context(), "p2"))
	if len(list) != 2 || list[0].State != history.Dead || list[0].LastError != dead.LastError || !list[0].Ended.Equal(at(0)) {
		t.Errorf("born dead: %+v", list)
	}
}

func testOutput(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	e, p := entry(1, 0), problem("p1", "web01", 0)
	e.Output, p.Output = "a\x00b\xffc ✓", "\x00"
	must(t, s.Record(t.Context(), history.Batch{Entries: []history.Entry{e}, Opened: []history.Problem{p}}))
	entries := ok(s.Entries(t.Context(), history.EntryQuery{}))
	equal(t, "output", entries[0].Output, "a�b�c ✓")
}

func testClean(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	old, recent, still := problem("old", "web01", 0), problem("recent", "web01", 0), problem("still", "web01", 0)
	b := history.Batch{Opened: []history.Problem{old, recent, still}, Entries: []history.Entry{entry(1, 0), entry(2, 50)}}
	for _, p := range b.Opened {
		b.Deliveries = append(b.Deliveries, delivery(p.ID, "opened", pager, 0))
	}
	old.Closed, recent.Closed = at(5), at(50)
	b.Closed = []history.Problem{old, recent}
	must(t, s.Record(t.Context(), b))
	for _, p := range b.Opened {
		list := ok(s.Deliveries(t.Context(), p.ID))
		must(t, s.RecordAttempts(t.Context(), history.Outcome{ID: list[0].ID, Attempt: history.Attempt{At: at(1), State: history.Delivered}}))
	}
	must(t, s.Record(t.Context(), history.Batch{Deliveries: []history.Delivery{delivery("recent", "closed", mail, 2)}}))
	removed := ok(s.Clean(t.Context(), at(30), 100))
	equal(t, "removed: an entry, a problem and two deliveries", removed, 4)
	problems := ok(s.Problems(t.Context(), history.ProblemQuery{}))
	equal(t, "problems left", len(problems), 2)
	told := ok(s.Deliveries(t.Context(), "still"))
	equal(t, "an open problem remembers who was told", []history.HandlerRef{told[0].Handler}, []history.HandlerRef{pager})
	waiting := ok(s.Deliveries(t.Context(), "recent"))
	equal(t, "what waits is never removed", keys(waiting), []string{"recent/closed/mail"})
}

func testCleanSteps(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	var b history.Batch
	for i := range 25 {
		b.Entries = append(b.Entries, entry(uint64(i+1), 0))
	}
	must(t, s.Record(t.Context(), b))
	for _, want := range []int{10, 10, 5, 0} {
		n := ok(s.Clean(t.Context(), at(1), 10))
		equal(t, "removed", n, want)
	}
}

func testAllOrNothing(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	broken := delivery("p1", "opened", pager, 0)
	broken.Payload = nil // NOT NULL: the engine refuses it
	err := s.Record(t.Context(), history.Batch{
		Entries: []history.Entry{entry(1, 0)}, Deliveries: []history.Delivery{broken}, Places: map[model.Partition]history.Place{1: place(1, 0)},
	})
	if err == nil {
		t.Fatal("a row without payload was taken")
	}
	entries := ok(s.Entries(t.Context(), history.EntryQuery{}))
	places := ok(s.Places(t.Context()))
	if len(entries) != 0 || len(places) != 0 {
		t.Errorf("%d entries and %d places of a refused batch", len(entries), len(places))
	}
}
