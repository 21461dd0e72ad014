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
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestStallingStoreDelaysNoAcknowledgement stops the history database repeatedly, and expects no delayed
// acknowledgement and no lost result.
func TestStallingStoreDelaysNoAcknowledgement(t *testing.T) {
	skipIfShort(t, "half a minute of load")
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
			fleet := harness.Fleet{Agents: 20, Checks: 10, Interval: 250 * time.Millisecond, Changes: c.changes}
			s.Prepare(fleet, prepare...)
			s.Start()
			api := s.Client()
			play := func(span time.Duration) *report.Report {
				t.Helper()
				cfg := s.LoadConfig(fleet, span)
				rep, err := load.Run(t.Context(), cfg)
				require(t, err == nil && rep.OK(), "load run: %v, %+v", err, rep)
				return rep
			}
			without := play(4 * time.Second)
			before := residentMemory(t, s.PID())
			stalled := make(chan stallObservations)
			go func() { stalled <- stallRepeatedly(t.Context(), api, freeze) }()
			with := play(stallCount*(stallLength+stallPause) + time.Second)
			during := <-stalled
			t.Logf("beyond linger without %+v, with %+v; during the stalls %+v", without.BeyondLinger, with.BeyondLinger, during)

			// Stalls take nearly half of the time: if results waited for the store, p99 would be near a stall's length.
			if limit := 3*without.BeyondLinger.P99 + 700; with.BeyondLinger.P99 > limit {
				t.Errorf("acknowledgements: p99 %.0f ms while the store stalls, %.0f ms without", with.BeyondLinger.P99, without.BeyondLinger.P99)
			}
			assert(t, during.deepest != 0 && (during.dropped > 0) == c.overflows,
				"muster get queues shows %d bytes of changes that waited, %d dropped", during.deepest, during.dropped)
			assert(t, during.failed == nil && during.slowest <= 1500*time.Millisecond,
				"people who look wait for the store: %v, %v", during.slowest, during.failed)
			compareChangesWithHistory(t, api, 500)
			after := residentMemory(t, s.PID())
			assert(t, after <= before+64<<20, "%d MiB resident, %d MiB before the stalls", after>>20, before>>20)
			s.Stop()
		})
	}
}

const (
	stallLength, stallPause = 2 * time.Second, 2500 * time.Millisecond
	stallCount              = 3
)

// stallObservations has measurements of the server during a suspension of its database. It has the queue size,
// the lost changes and the slowest request.
type stallObservations struct {
	deepest int64         // bytes of changes that waited for history
	dropped uint64        // changes for which there was no room
	slowest time.Duration // longest time to list a page of events
	failed  error         // error of a reader
}

// stallRepeatedly suspends the history database several times, and measures the server meanwhile. Near the end of each
// stop it measures the server.
func stallRepeatedly(ctx context.Context, api *client.Client, freeze func() (thaw func())) (seen stallObservations) {
	for range stallCount {
		sleep(ctx, stallPause)
		thaw := freeze()
		sleep(ctx, stallLength*3/4)
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
		sleep(ctx, stallLength-time.Since(began)-stallLength*3/4)
		thaw()
	}
	return seen
}

// stallingPostgreSQL starts a server on a PostgreSQL database that the test can suspend.
func stallingPostgreSQL(t *testing.T) (*harness.Server, []string, func() func()) {
	pg := pgtest.Start(t)
	dsn := pg.Database(t)
	s := harness.NewServer(t, "--intent-db", dsn, "--history-db", dsn, "--snapshot-cycle", "2s")
	return s, []string{"--intent-db", dsn}, func() func() { pg.Pause(); return pg.Resume }
}

// overflowingSQLite starts a server with a small queue of history changes, which overflows soon. So history has
// to be computed from the journal later.
func overflowingSQLite(t *testing.T) (*harness.Server, []string, func() func()) {
	s, prepare, freeze := stallingSQLite(t)
	s.Args = append(s.Args, "--queues", "reactions=1048576")
	return s, prepare, freeze
}

// stallingSQLite starts a server whose history file the test can lock against writes. A backup program locks the file
// in the same way.
func stallingSQLite(t *testing.T) (*harness.Server, []string, func() func()) {
	s := harness.NewServer(t, "--snapshot-cycle", "2s")
	return s, nil, func() func() { return lockHistory(t, s) }
}

// lockHistory locks the history database, so that the server cannot write. A call of release ends the lock.
func lockHistory(t *testing.T, s *harness.Server) (release func()) {
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

// residentMemory returns the resident memory of a process in bytes.
func residentMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text := readFile(t, fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb := testenv.Value(strconv.ParseInt(strings.Fields(rest)[0], 10, 64))(t)
	return kb << 10
}

// awaitHistory waits until the history database has recorded all changes of events.
func awaitHistory(t *testing.T, api *client.Client) {
	t.Helper()
	harness.Until(t, 60*time.Second, "history has all transitions", func() (string, bool) {
		st, err := api.Status(t.Context(), "")
		return fmt.Sprint(st.Reactions, err), err == nil && st.Reactions.Waiting == 0 && !st.Reactions.Rederiving && st.Reactions.BehindSeconds == 0
	})
}

// compareChangesWithHistory waits for history, and compares the number of changes of each event.
func compareChangesWithHistory(t *testing.T, api *client.Client, least int) {
	t.Helper()
	awaitHistory(t, api)
	list := testenv.Value(api.Events.List(t.Context(), v1.EventFilter{Limit: 1000}))(t)
	total := 0
	for _, e := range list.Items {
		if strings.HasPrefix(e.Check, "muster-") {
			continue // the server's own events may change between the two requests
		}
		entries := testenv.Value(api.Events.History(t.Context(), e.Namespace, e.Node, e.Check, 1000))(t)
		changes := 0
		for _, entry := range entries.Items {
			if entry.Kind == "status" {
				changes++
			}
		}
		// A first result that is not OK is a history entry and no status change.
		if want := int(e.StateChanges); changes != want && changes != want+1 {
			t.Errorf("%s/%s: %d entries of history, %d changes", e.Node, e.Check, changes, want)
		}
		total += changes
	}
	assert(t, total >= least, "only %d changes: the test shows nothing", total)
}

// TestHistoryCatchesUpAfterFullJournal stops the history database until the journal is full, and expects
// complete history later. History is complete then.
func TestHistoryCatchesUpAfterFullJournal(t *testing.T) {
	skipIfShort(t, "fills a journal")
	t.Parallel()
	fleet := harness.Fleet{Agents: 8, Checks: 4, Interval: 100 * time.Millisecond, OutputBytes: 60_000, Changes: 0.5}
	s := harness.StartFleet(t, fleet, "--journal-budget", "64MiB", "--snapshot-cycle", "2s", "--queues", "reactions=1048576")
	release := lockHistory(t, s)
	cfg := s.LoadConfig(fleet, 8*time.Second)
	ended, _ := runLoadInBackground(t, cfg)
	harness.Until(t, 60*time.Second, "readyz names what keeps the journal from being cut", func() (string, bool) {
		why, _ := s.Ready()
		return why, strings.Contains(why, "size budget") && strings.Contains(why, "The journal cannot delete segments: history is ") && strings.Contains(why, "the server reads the changes from the journal again")
	})
	st, err := s.API.Status(t.Context(), "")
	r := st.Reactions
	assert(t, err == nil && r.Rederiving && r.BehindBytes >= 16<<20 && r.BehindCommits != 0, "status: %+v, %v", r, err)
	release()
	e := <-ended
	assert(t, e.err == nil && hasNoLoss(e.rep), "load run: %v, %+v", e.err, e.rep)
	s.WaitReady(30 * time.Second)
	awaitHistory(t, s.API)
	assert(t, s.Metric("muster_dispatch_rederived_total") != 0, "nothing was made again from the journal: nothing is shown")
	compareChangesWithHistory(t, s.API, 200)
	s.Stop()
}

// toggleResources declares a check whose status is read from a file, and its handler.
const toggleResources = `
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q}}}
---
{kind: Check, metadata: {name: toggle},
  spec: {targets: {groups: [all]}, interval: 1s, command: exit $(cat %s), alert: {handlers: [hook]}}}
`

// A server can keep intent and history in PostgreSQL, and refuses a second server on the same database.
func TestServerRunsOnPostgreSQL(t *testing.T) {
	skipIfShort(t, "starts PostgreSQL")
	t.Parallel()
	pg := pgtest.Start(t)
	dsn := pg.Database(t)
	s := harness.NewServer(t, "--intent-db", dsn, "--history-db", dsn, "--snapshot-cycle", "2s")
	fleet := harness.Fleet{Agents: 10, Checks: 5, Interval: 200 * time.Millisecond}
	s.Prepare(fleet, "--intent-db", dsn)
	s.Start()
	api := s.Client()
	hook := newWebhook(t, 0)

	dir := t.TempDir()
	file := filepath.Join(dir, "status")
	say := func(status string) {
		t.Helper()
		writeFile(t, file+".new", status)
		testenv.NoError(t, os.Rename(file+".new", file))
	}
	say("0")
	declared := filepath.Join(dir, "check.yaml")
	writeFile(t, declared, fmt.Sprintf(toggleResources, hook.URL, file))
	s.CLI("apply", "-f", declared)
	token := testenv.Value(api.Enrolment.CreateToken(t.Context(), v1.JoinTokenRequest{Namespace: "default"}))(t)
	harness.Launch(t, nil, "agent", "--token", token.Token, "--server", s.Listen, "--state-dir", filepath.Join(dir, "agent"), "--name", "web01")

	status := func(want model.Status) {
		t.Helper()
		harness.Until(t, 30*time.Second, "the event is "+want.String(), func() (string, bool) {
			e, err := api.Events.Get(t.Context(), "default", "web01", "toggle")
			return fmt.Sprint(e.Status, err), err == nil && e.Status == want
		})
	}
	status(model.OK)
	say("2")
	status(model.Critical)
	problem := openProblemID(t, api)
	awaitWebhookKinds(t, hook, problem, "opened")

	s.Stop()
	s.Start()
	again := openProblemID(t, api)
	assert(t, again == problem, "after the restart the open problem is %s, was %s", again, problem)

	// A fleet sends while PostgreSQL is down: every result is acknowledged in time.
	end := startLoad(t, s, fleet, 12*time.Second)
	pg.Stop(t)
	say("0")
	status(model.OK)
	expectStoreOutage(t, s, declared)
	pg.Restart(t)
	harness.Until(t, 40*time.Second, "status has no warning left", func() (string, bool) {
		st, err := api.Status(t.Context(), "")
		return fmt.Sprint(st.Warnings, st.Reactions, err), err == nil && len(st.Warnings) == 0 && st.Reactions.Waiting == 0
	})
	awaitWebhookKinds(t, hook, problem, "opened", "closed")
	e := <-end
	assert(t, e.err == nil && e.rep.OK(), "load run: %v, %+v", e.err, e.rep)
	assert(t, e.rep.BeyondLinger.P99 <= 3000, "acknowledgements waited for PostgreSQL: %+v", e.rep.BeyondLinger)
	s.CLI("apply", "-f", declared)
	compareChangesWithHistory(t, api, 50)

	second := harness.NewServer(t, "--intent-db", dsn, "--history-db", dsn)
	second.Launch()
	second.AwaitExit(model.Conflict.Exit(), "another server uses this database: muster intent: process")
	why, ok := s.Ready()
	assert(t, ok, "the first server is not ready: %s", why)
	s.Stop()
}

// openProblemID returns the id of the open problem of the check "toggle".
func openProblemID(t *testing.T, api *client.Client) (id string) {
	t.Helper()
	harness.Until(t, 30*time.Second, "history holds the open problem", func() (string, bool) {
		list, err := api.Problems.List(t.Context(), "default", "web01", "toggle", true, 10, "")
		if len(list.Items) == 1 {
			id = list.Items[0].ID
		}
		return fmt.Sprint(list, err), len(list.Items) == 1
	})
	return id
}

// awaitWebhookKinds waits until the webhook has received the given kinds of messages about a problem.
func awaitWebhookKinds(t *testing.T, hook *webhook, problem string, want ...string) {
	t.Helper()
	awaitEqual(t, "messages about the problem", fmt.Sprint(want), func() string { return fmt.Sprint(hook.kindsOf(problem)) })
}

// expectStoreOutage expects only operations that need PostgreSQL to fail while PostgreSQL is down. PostgreSQL
// is down, and the errors have the reason.
func expectStoreOutage(t *testing.T, s *harness.Server, declared string) {
	t.Helper()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"apply", "-f", declared}, "the intent store does not answer"},
		{[]string{"get", "checks"}, "the intent store does not answer"},
		{[]string{"get", "problems"}, "the history store does not answer"},
	} {
		harness.Run(t, s.Env(), c.args...).Expect(model.Unavailable.Exit(), c.want, "PostgreSQL")
	}
	s.Try("get", "events", "--node", "web01").Expect(0, "toggle")
	s.Try("status").Expect(0, "warning: the database of the intent store does not answer", "warning: the database of the history store does not answer")
	why, ok := s.Ready()
	assert(t, ok, "agents are served, but readyz says %s", why)
}
