package app

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testSettings returns the configuration of a test server. All files are in one folder, and the kernel chooses all
// ports.
func testSettings(t *testing.T, dir string, args ...string) *config.Server {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags)
	args = append([]string{"--data", dir, "--listen", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0", "--journal-reserve", "1MiB"}, args...)
	testenv.NoError(t, flags.Parse(args))
	cfg, err := config.Load(flags, func(string) string { return "" })
	testenv.NoError(t, err)
	return cfg
}

// startServer starts a test server, and waits until the server is ready. It also returns a function that stops the
// server.
func startServer(t *testing.T, cfg *config.Server) (s *Server, stop func()) {
	t.Helper()
	s, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
	testenv.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	t.Cleanup(stop)
	testenv.Until(t, "ready", func() bool { return s.NotReady() == nil })
	return s, stop
}

// TestServerEventsSurviveRestart restarts the server, and expects the events about the server itself to remain. A second
// server on the same data folder must fail.
func TestServerEventsSurviveRestart(t *testing.T) {
	cfg := testSettings(t, filepath.Join(t.TempDir(), "data"))
	s, stop := startServer(t, cfg)
	testenv.NoError(t, s.recorder.RecordServerResult(t.Context(), model.JournalCheck, model.Warning, "a word"))
	before, ok := s.view.Get(model.ServerNode, model.CheckSource(model.JournalCheck))
	if !ok || before.Status != model.Warning || before.Output != "a word" {
		t.Fatalf("%+v", before)
	}
	if _, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("a second server opened the same folder")
	}
	stop()
	s, _ = startServer(t, cfg)
	after, ok := s.view.Get(model.ServerNode, model.CheckSource(model.JournalCheck))
	if !ok || after.Status != before.Status || after.Results < before.Results {
		t.Fatalf("before %+v\nafter %+v", before, after)
	}
}

// TestCollectOldDefinitions expects old compiled checks to be deleted once no event state and no journal record
// needs any.
func TestCollectOldDefinitions(t *testing.T) {
	began := time.Now()
	s, _ := startServer(t, testSettings(t, filepath.Join(t.TempDir(), "data")))
	held, err := journal.OldestReceived(t.Context(), s.journal)
	if err != nil || held.Before(began.Add(-time.Second)) || held.After(time.Now()) {
		t.Errorf("the journal holds commits since %s, %v", held, err)
	}
	if _, err := s.planner.Collect(t.Context(), s.view.Definitions(), held, time.Now()); err != nil {
		t.Error(err)
	}
}

// TestAllQueuesListed compares the queues in muster get queues with docs/reference/queues.md, and expects configured
// capacities to apply.
func TestAllQueuesListed(t *testing.T) {
	s, _ := startServer(t, testSettings(t, filepath.Join(t.TempDir(), "data"), "--sensu-listen", "127.0.0.1:0", "--queues", "reactions=block,requests=7,journal=9MiB,event-view=40,deliveries=11"))
	testenv.Until(t, "all parts run", func() bool {
		return slices.ContainsFunc(s.queues.List(), func(q queue.Info) bool { return q.Name == "snapshots" })
	})
	listed := map[string]queue.Info{}
	for _, q := range s.queues.List() {
		name := q.Name
		if strings.HasPrefix(name, "event-view-") {
			name = "event-view"
		}
		listed[name] = q
	}
	for _, k := range queue.Kinds() {
		q, ok := listed[k.Name]
		if !ok || q.Unit != k.Unit || !slices.Contains(k.Policies, q.Policy) {
			t.Errorf("%s: %+v", k.Name, q)
		}
		delete(listed, k.Name)
	}
	for name := range listed {
		t.Errorf("%s is listed and not known", name)
	}
	for _, q := range s.queues.List() {
		want, set := map[string]int64{"requests": 7, "journal": 9 << 20, "event-view-0": 40, "deliveries": 11}[q.Name]
		if set && q.Capacity != want || q.Name == "reactions" && q.Policy != queue.Block {
			t.Errorf("%+v", q)
		}
	}
}

// TestTrafficLimitsOfNamespaces declares each kind of traffic limit of a namespace, and expects the server to
// throttle a node. The list of the namespace's limits must show each limit with its use.
func TestTrafficLimitsOfNamespaces(t *testing.T) {
	s, _ := startServer(t, testSettings(t, filepath.Join(t.TempDir(), "data")))
	for scope, c := range map[string]struct {
		limits model.Limits
		fields [4]string
	}{
		"node": {
			model.Limits{ResultsPerSec: 1000, NodeResultsSec: 11, ValuesPerSec: 1000, NodeValuesPerSec: 12, ReportsPerSec: 1000, NodeReportsPerSec: 13, BytesPerSec: 1000, NodeBytesPerSec: 14},
			[4]string{"nodeResultsPerSec", "nodeValuesPerSec", "nodeReportsPerSec", "nodeBytesPerSec"},
		},
		"namespace": {
			model.Limits{ResultsPerSec: 11, NodeResultsSec: 1000, ValuesPerSec: 12, NodeValuesPerSec: 1000, ReportsPerSec: 13, NodeReportsPerSec: 1000, BytesPerSec: 14, NodeBytesPerSec: 1000},
			[4]string{"resultsPerSec", "valuesPerSec", "reportsPerSec", "bytesPerSec"},
		},
	} {
		name := "by-" + scope
		_, err := s.intent.Apply(t.Context(), intent.Actor{User: "ada"}, []model.Resource{{APIVersion: model.APIVersion, Kind: "Namespace", Metadata: model.Metadata{Name: name},
			Spec: &model.NamespaceSpec{Limits: &c.limits}}}, intent.ApplyOptions{Yes: true})
		testenv.NoError(t, err)
		var id model.NamespaceID
		testenv.Until(t, "the namespace is in the directory", func() (ok bool) { id, ok = s.directory.NamespaceByName(name); return ok })
		var b core.Budget
		b.Open(s.sessions.Limiter(), &core.Node{ID: 77, Name: "web01", Namespace: id})
		for load, field := range c.fields {
			var charge core.TrafficCost
			charge[load] = 1 << 20
			debt := b.Spend(&charge)
			if reason := debt.Reason(); debt.Wait < time.Hour || !strings.Contains(reason, fmt.Sprintf("its limit of %d ", 11+load)) {
				t.Errorf("%s: %v, %s", field, debt.Wait, reason)
			}
			b.Hit(debt.Limit(), debt.Reason())
			if !slices.ContainsFunc(s.limitUses(name), func(u v1.LimitUse) bool { return u.Name == field && u.Limit == float64(11+load) && u.Reached == 1 }) {
				t.Errorf("%s is not listed with its use: %+v", field, s.limitUses(name))
			}
			charge[load] *= -1
			b.Spend(&charge)
		}
	}
}

// TestRestoredSnapshotIsComplete restores a snapshot into a second, empty event state, and expects an equal
// snapshot from the second. A replay of the journal also uses a second copy. A section without a reducer would
// be lost.
func TestRestoredSnapshotIsComplete(t *testing.T) {
	s, _ := startServer(t, testSettings(t, filepath.Join(t.TempDir(), "data")))
	testenv.NoError(t, s.recorder.RecordServerResult(t.Context(), model.JournalCheck, model.Warning, "a word"))
	partition := s.view.PartitionOf(model.ServerNode).ID
	live, at := s.view.Snapshot(partition, nil)
	second := event.New(shard.New(s.shardOptions()), event.Options{})
	s.replays.AddReducers(second.Shard)
	testenv.NoError(t, second.Restore(partition, at, live))
	if again, _ := second.Snapshot(partition, nil); !bytes.Equal(again, live) {
		t.Errorf("%d bytes, want the %d of the live view", len(again), len(live))
	}
}

// TestCloneEventSurvivesRestart restarts the server, and expects the event about two machines with one identity
// to remain. Clones are two machines with one identity. Package selfcheck tests that the next server continues
// the event.
func TestCloneEventSurvivesRestart(t *testing.T) {
	cfg := testSettings(t, filepath.Join(t.TempDir(), "data"))
	s, stop := startServer(t, cfg)
	member, err := s.intent.Register(t.Context(), "key of web01", pki.JoinToken{Namespace: model.DefaultNamespaceName}, pki.EnrolRequest{Name: "web01"})
	testenv.NoError(t, err)
	info, _ := s.intent.LookupNode(member.UID)
	testenv.Until(t, "the planner knows the node", func() bool { return s.directory.AssignmentOf(info.ID) != nil })
	s.monitor.ReportClone(core.Clone{
		Node:    core.Node{ID: info.ID, Name: info.Name},
		Holder:  core.Peer{Address: "10.0.0.1", Machine: "11111111", Since: time.Unix(1_700_000_000, 0).UTC()},
		Refused: core.Peer{Address: "10.0.0.2", Machine: "22222222"},
	})
	critical := func() bool {
		e, ok := s.view.Get(info.ID, model.CheckSource(model.IdentityCheck))
		return ok && e.Status == model.Critical && strings.Contains(e.Output, "10.0.0.2 (machine 22222222)")
	}
	testenv.Until(t, "the event tells", critical)
	stop()
	s, _ = startServer(t, cfg)
	if !critical() {
		t.Error("the event is gone after a restart")
	}
}

// criticalCommit is a test double of a journal commit, with one keepalive event that is CRITICAL.
type criticalCommit struct{}

// Position returns commit number 1 as the journal position of the test commit.
func (criticalCommit) Position() journal.Position { return journal.Position{Log: 1, Number: 1} }

// Received returns a fixed time at which the test commit was received.
func (criticalCommit) Received() int64 { return int64(365 * 24 * time.Hour) }

// Listening returns one second, the time for which the server could receive results before the test commit.
func (criticalCommit) Listening() time.Duration { return time.Second }

// Sections returns the only section of the test commit, the part about one partition of nodes. A section has
// the records of one partition of nodes.
func (criticalCommit) Sections() []journal.Section { return []journal.Section{1} }

// Retain does nothing, because the buffer of the test commit is never reused.
func (criticalCommit) Retain() {}

// Release does nothing, because the buffer of the test commit is never reused.
func (criticalCommit) Release() {}

// Entries calls fn with the record of a keepalive event that is CRITICAL.
func (criticalCommit) Entries(_ journal.Section, fn func([]byte) error) error {
	return fn(wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordServerResult, Node: 1,
		ServerResult: &wire.ServerResult{Definition: model.BuiltinDefinitionID(model.KeepaliveCheck), Status: model.Critical, Output: []byte("silent")}}))
}

// TestSnapshotWaitsForHistory takes a snapshot, and expects its end only after history has stored all event
// changes. Otherwise a restart could lose a notification.
func TestSnapshotWaitsForHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emits, goOn := make(chan struct{}), make(chan struct{})
		s := &pipeline{dispatcher: dispatch.New(dispatch.Options{})}
		s.view = event.New(shard.New(shard.Options{}), event.Options{Emit: func(ts []event.Transition) {
			close(emits)
			<-goOn
			s.dispatcher.Emit(ts)
		}})
		go func() { _ = s.view.Apply(criticalCommit{}) }()
		<-emits
		_, at := s.view.Snapshot(1, nil)
		if at.Number != 1 {
			t.Fatalf("the snapshot is of commit %d", at.Number)
		}
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() { answer <- s.waitForHistory(ctx, 1, at) }()
		before := func(what string) {
			synctest.Wait()
			select {
			case err := <-answer:
				t.Fatalf("it may be used before the problem %s (%v)", what, err)
			default:
			}
		}
		before("was handed on")
		close(goOn)
		before("is recorded")
		cancel()
		if err := <-answer; err == nil {
			t.Error("it may be used, and nobody has recorded the problem")
		}
	})
}

// TestLostProblemRestoredAtStart deletes an open problem from the history database, and expects the next start
// to restore the problem. A kill of the server may have the same effect.
func TestLostProblemRestoredAtStart(t *testing.T) {
	cfg := testSettings(t, filepath.Join(t.TempDir(), "data"))
	s, stop := startServer(t, cfg)
	testenv.NoError(t, s.recorder.RecordServerResult(t.Context(), model.IdentityCheck, model.Critical, "two of them"))
	var id string
	testenv.Until(t, "history has the problem", func() bool {
		if st, ok := s.view.Get(model.ServerNode, model.CheckSource(model.IdentityCheck)); ok && st.Problem != nil {
			id = st.Problem.ID
		}
		_, err := s.history.Problem(t.Context(), id)
		return err == nil
	})
	stop()
	db, err := sql.Open("sqlite", filepath.Join(cfg.Data, "history.db"))
	testenv.NoError(t, err)
	if done, err := db.Exec(`DELETE FROM history_problems WHERE id = ?`, id); err != nil {
		t.Fatal(err)
	} else if n, err := done.RowsAffected(); n != 1 {
		t.Fatalf("%d problems deleted, %v", n, err)
	}
	testenv.NoError(t, db.Close())
	s, _ = startServer(t, cfg)
	testenv.Until(t, "history has it again", func() bool {
		p, err := s.history.Problem(t.Context(), id)
		return err == nil && p.Closed.IsZero() && p.Output == "two of them"
	})
}
