package history

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// fillHistory records, for a node, a problem with a long output that opens and closes each minute. The problem of the
// first minute stays open.
func fillHistory(t *testing.T, s Store, minutes int) {
	t.Helper()
	text := strings.Repeat("x", 200_000)
	for i := range minutes {
		p := problem(fmt.Sprintf("p%06d", i), "web01", i)
		p.Output = text
		b := Batch{Entries: []Entry{entry(uint64(i+1), i)}, Opened: []Problem{p}, Places: map[model.Partition]Place{1: place(uint64(i+1), 0)}}
		if i > 0 {
			p.Closed = minutesAfterNoon(i)
			b.Opened, b.Closed = nil, []Problem{p}
		}
		requireNoError(t, s.Record(t.Context(), b))
	}
}

// requireNoError ends the test on an error.
func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// When history reaches its size limit, the oldest rows are removed and counted, and open problems stay.
func TestHistoryStaysWithinItsBudget(t *testing.T) {
	const budget = 8 << 20
	s := noError(open(t.Context(), filepath.Join(t.TempDir(), "history.db"), 16, SizeLimit{Budget: budget}))
	defer s.Close()
	fillHistory(t, s, 200)
	use := s.Use()
	if use.Bytes > budget+1<<20 || use.Budget != budget || use.DiskFull {
		t.Errorf("history uses %+v", use)
	}
	entries := noError(s.Entries(t.Context(), EntryQuery{}))
	if len(entries) < 20 || len(entries) > 60 || !entries[0].At.Equal(minutesAfterNoon(199)) {
		t.Errorf("%d entries, the newest at %s", len(entries), entries[0].At)
	}
	if oldest := entries[len(entries)-1].At; oldest.Before(use.Oldest) || oldest.After(use.Oldest.Add(2*time.Minute)) {
		t.Errorf("the oldest entry is of %s, removed are those before %s", oldest, use.Oldest)
	}
	if removed := uint64(200-len(entries)) + uint64(200-len(noError(s.Problems(t.Context(), ProblemQuery{})))); use.Evicted != removed {
		t.Errorf("%d rows are counted, %d are missing", use.Evicted, removed)
	}
	if p := noError(s.Problem(t.Context(), "p000000")); p.ID == "" || !p.Closed.IsZero() {
		t.Errorf("the open problem is %+v", p)
	}
}

// TestWaitingMessagesMakeRoomLast checks that waiting messages lose their content only if removing all other rows
// frees too little space.
func TestWaitingMessagesMakeRoomLast(t *testing.T) {
	const budget = 8 << 20
	s := noError(open(t.Context(), filepath.Join(t.TempDir(), "history.db"), 16, SizeLimit{Budget: budget}))
	defer s.Close()
	for i := range 100 {
		d := delivery(fmt.Sprint("p", i), "opened", pager, i)
		d.Payload = bytes.Repeat([]byte("x"), 200_000)
		requireNoError(t, s.Record(t.Context(), Batch{Entries: []Entry{entry(uint64(i+1), i)}, Deliveries: []Delivery{d}, Places: map[model.Partition]Place{1: place(uint64(i+1), 0)}}))
	}
	due, _, err := s.Due(t.Context(), minutesAfterNoon(200), 1000, nil)
	requireNoError(t, err)
	dropped := slices.IndexFunc(due, func(d Delivery) bool { return len(d.Payload) > 0 })
	if use := s.Use(); use.Bytes > budget+1<<20 || len(due) != 100 || dropped < 50 || dropped == 100 || slices.ContainsFunc(due[dropped:], func(d Delivery) bool { return len(d.Payload) == 0 }) {
		t.Errorf("%d messages wait, the first %d without payload; history uses %+v", len(due), dropped, use)
	}
}

// On a disk with little free space the history file stops growing, so that the journal's space stays free.
func TestHistoryDoesNotGrowOnFullDisk(t *testing.T) {
	free := int64(1 << 40)
	path := filepath.Join(t.TempDir(), "history.db")
	s := noError(open(t.Context(), path, 16, SizeLimit{Budget: 1 << 30, KeepFree: 64 << 20, Free: func() (int64, error) { return free, nil }}))
	defer s.Close()
	fillHistory(t, s, 200)
	before, _, err := s.(*sqlStore).db.FileSize(t.Context())
	requireNoError(t, err)
	if use := s.Use(); use.Evicted != 0 || before < 30<<20 {
		t.Fatalf("history uses %+v in %d bytes", use, before)
	}
	free = 63 << 20
	for range 3 {
		for i := range 200 {
			p := problem(fmt.Sprintf("q%06d", i), "web01", i)
			p.Output, p.Closed = strings.Repeat("y", 200_000), minutesAfterNoon(i)
			requireNoError(t, s.Record(t.Context(), Batch{Entries: []Entry{entry(uint64(1000+i), 1000+i)}, Closed: []Problem{p}}))
		}
	}
	after, _, err := s.(*sqlStore).db.FileSize(t.Context())
	requireNoError(t, err)
	if use := s.Use(); after > before || !use.DiskFull || use.Evicted == 0 {
		t.Errorf("the file grew from %d to %d bytes; history uses %+v", before, after, use)
	}
}
