//go:build linux

package test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver named sqlite

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/test/harness"
)

// The store stalls for two seconds again and again while results flow. Nothing is lost,
// nothing is acknowledged later than without it, people may look, memory stays flat.
func TestStallingStore(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of load")
	}
	t.Parallel()
	for _, c := range []struct {
		name      string
		make      func(t *testing.T) (s *harness.Server, prepare []string, freeze func() (thaw func()))
		changes   float64 // share of the results
		overflows bool
	}{
		{"postgresql", stallingPostgreSQL, 0.2, false},
		{"sqlite", stallingSQLite, 0.2, false},
		{"sqlite, more changes than may wait", overflowingSQLite, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, prepare, freeze := c.make(t)
			fleet := harness.Fleet{Agents: 20, Checks: 10, Interval: 250 * time.Millisecond}
			s.Prepare(fleet, prepare...)
			s.Start()
			api := s.Client()
			play := func(span time.Duration) *report.Report {
				t.Helper()
				cfg := s.Load(fleet, span)
				cfg.Changes = c.changes
				rep, err := load.Run(t.Context(), cfg)
				if err != nil || !rep.OK() {
					t.Fatalf("load run: %v, %+v", err, rep)
				}
				return rep
			}
			without := play(4 * time.Second)
			before := residentMemory(t, s.PID())
			stalled := make(chan stalls)
			go func() { stalled <- stallRepeatedly(t.Context(), api, freeze) }()
			with := play(howOften*(stall+calm) + time.Second)
			during := <-stalled
			t.Logf("beyond linger without %+v, with %+v; during the stalls %+v", without.BeyondLinger, with.BeyondLinger, during)

			// Nearly half of the time is a stall: were it in the way, p99 would be near its length.
			if limit := 3*without.BeyondLinger.P99 + 700; with.BeyondLinger.P99 > limit {
				t.Errorf("acknowledgements: p99 %.0f ms while the store stalls, %.0f ms without", with.BeyondLinger.P99, without.BeyondLinger.P99)
			}
			if during.deepest == 0 || (during.dropped > 0) != c.overflows {
				t.Errorf("muster get queues shows %d bytes of changes that waited, %d dropped", during.deepest, during.dropped)
			}
			if during.failed != nil || during.slowest > 1500*time.Millisecond {
				t.Errorf("people who look wait for the store: %v, %v", during.slowest, during.failed)
			}
			harness.Until(t, 30*time.Second, "history has all", func() (string, bool) {
				st, err := api.Status(t.Context(), "")
				return fmt.Sprint(st.Reactions, err), err == nil && st.Reactions.Waiting == 0 && st.Reactions.BehindSeconds == 0
			})
			compareChangesWithHistory(t, api, 500)
			if after := residentMemory(t, s.PID()); after > before+64<<20 {
				t.Errorf("%d MiB resident, %d MiB before the stalls", after>>20, before>>20)
			}
			s.Stop()
		})
	}
}

const (
	stall, calm = 2 * time.Second, 2500 * time.Millisecond
	howOften    = 3
)

// stalls is what was seen during them.
type stalls struct {
	deepest int64         // bytes of changes that waited for history
	dropped uint64        // changes for which there was no room
	slowest time.Duration // page of events
	failed  error         // what somebody got who looked
}

// stallRepeatedly freezes the store again and again, and looks towards the end of each stall.
func stallRepeatedly(ctx context.Context, api *client.Client, freeze func() (thaw func())) (seen stalls) {
	for range howOften {
		sleep(ctx, calm)
		thaw := freeze()
		sleep(ctx, stall*3/4)
		began := time.Now()
		looking, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := api.Events.List(looking, v1.EventFilter{Limit: 100})
		seen.slowest = max(seen.slowest, time.Since(began))
		list, queues := api.Queues(looking)
		cancel()
		seen.failed = errors.Join(seen.failed, err, queues)
		for _, q := range list.Items {
			if q.Name == "reactions" {
				seen.deepest, seen.dropped = max(seen.deepest, q.Depth), q.Overflow
			}
		}
		sleep(ctx, stall-time.Since(began)-stall*3/4)
		thaw()
	}
	return seen
}

func stallingPostgreSQL(t *testing.T) (*harness.Server, []string, func() func()) {
	pg := pgtest.Start(t)
	dsn := pg.Database(t)
	s := harness.NewServer(t, "--intent-db", dsn, "--history-db", dsn, "--snapshot-cycle", "2s")
	return s, []string{"--intent-db", dsn}, func() func() { pg.Pause(); return pg.Resume }
}

// What waits does not fit: it is dropped, and made again from the journal.
func overflowingSQLite(t *testing.T) (*harness.Server, []string, func() func()) {
	s, prepare, freeze := stallingSQLite(t)
	s.Args = append(s.Args, "--queues", "reactions=1048576")
	return s, prepare, freeze
}

// Somebody else holds the write lock of history's file, as a backup program may.
func stallingSQLite(t *testing.T) (*harness.Server, []string, func() func()) {
	s := harness.NewServer(t, "--snapshot-cycle", "2s")
	return s, nil, func() func() { return holdHistory(t, s) }
}

// holdHistory takes the write lock of history's file until the answer is called.
func holdHistory(t *testing.T, s *harness.Server) (release func()) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Data, "history.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Error(err)
		return func() {}
	}
	tx, err := db.Begin()
	if err != nil {
		t.Error(err)
		return func() { db.Close() }
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		db.Close()
	}
}

// residentMemory is the memory of a process, in bytes.
func residentMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// compareChangesWithHistory compares what the events counted with what history lists.
func compareChangesWithHistory(t *testing.T, api *client.Client, least int) {
	t.Helper()
	list, err := api.Events.List(t.Context(), v1.EventFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, e := range list.Items {
		if strings.HasPrefix(e.Check, "muster-") {
			continue // may change between the two looks
		}
		entries, err := api.Events.History(t.Context(), e.Namespace, e.Node, e.Check, 1000)
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		for _, entry := range entries.Items {
			if entry.Kind == "status" {
				changes++
			}
		}
		// A first result that is not OK is an entry, and no change of a status.
		if want := int(e.StateChanges); changes != want && changes != want+1 {
			t.Errorf("%s/%s: %d entries of history, %d changes", e.Node, e.Check, changes, want)
		}
		total += changes
	}
	if total < least {
		t.Errorf("only %d changes: the test shows nothing", total)
	}
}
