package compliance

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// historyServer simulates a server with a compliance history file, which tests crash and reopen. The test
// simulates crashes of the server.
type historyServer struct {
	*testView
	path     string
	store    *compliancelog.Store
	snapshot []byte // the last one
	at       journal.Position
}

// open opens the compliance history and restores the test view from the last snapshot and the journal.
func (s *historyServer) open(t *testing.T, commits []journal.Commit) {
	t.Helper()
	s.store = testenv.Value(compliancelog.Open(t.Context(), s.path, compliancelog.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler)}))(t)
	v := &testView{}
	v.events = event.New(shard.New(shard.Options{Definitions: testDefinition}), event.Options{Emit: func([]event.Transition) {}})
	v.View = New(v.events.Shard, s.store)
	if s.snapshot != nil {
		testenv.NoError(t, v.events.Restore(7, s.at, s.snapshot))
	}
	for _, c := range commits {
		if v.number = c.Position().Number; c.Position().Number > s.at.Number {
			testenv.NoError(t, v.events.Apply(c))
		}
	}
	v.commits = commits
	s.testView = v
}

// historyText formats the directive runs of node 7 at a past time, as read from the compliance history.
func (s *historyServer) historyText(t *testing.T, at time.Time) (text string) {
	t.Helper()
	states, err := s.RunsAt(t.Context(), 7, at)
	testenv.NoError(t, err)
	for _, r := range states {
		text += fmt.Sprint(r.Unit, r.Definition, r.Codes, r.Enforced, r.Ended, ";")
	}
	return text
}

// TestHistoryHasRunsOfEachCommit applies random runs and crashes, and expects the compliance history to show
// the runs after each commit. After a crash the lost entries are replayed. Half way the history is lost, and
// begins again.
func TestHistoryHasRunsOfEachCommit(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s := &historyServer{path: filepath.Join(t.TempDir(), "compliance.db")}
	s.open(t, nil)
	var want []string // runs after each commit
	for round := range 400 {
		switch what := random.IntN(20); {
		case what == 0:
			s.apply(t, wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordForget, Node: 7, Forget: &wire.ForgetRecord{Check: model.CheckID(1000 + random.IntN(2))}}))
		default:
			definition := model.DefinitionID(5 + random.IntN(3))
			statuses := make([]policy.Status, len(testDefinition(definition).AsDirective().Components))
			for i := range statuses {
				statuses[i] = policy.Status(1 + random.IntN(2)*random.IntN(7))
			}
			r := report(statuses...)
			r.Enforced = random.IntN(8) == 0
			s.report(t, definition, wire.Live, 0, r)
		}
		text := ""
		for _, r := range s.Runs(7) {
			text += fmt.Sprint(r.Unit, r.Definition, r.Codes, r.Enforced, r.EarlyEndReason() != "", ";")
		}
		want = append(want, text)
		switch random.IntN(30) {
		case 0: // a snapshot waits for history
			s.snapshot, s.at = s.events.Snapshot(7, nil)
			testenv.NoError(t, s.FlushHistory(t.Context(), 7, s.at))
		case 1: // a crash: entries that were not written are lost
			testenv.NoError(t, s.store.Close())
			s.open(t, s.commits)
		case 2: // part of the entries since the snapshot is written
			testenv.NoError(t, s.store.Flush(t.Context()))
		}
		if round == 200 {
			testenv.NoError(t, s.store.Close())
			s.path = filepath.Join(t.TempDir(), "compliance.db") // history is lost: its next entry is a checkpoint
			s.open(t, s.commits)
		}
	}
	compared := 0
	for i := range want {
		if i <= 200 {
			continue // of the lost history
		}
		compared++
		if got := s.historyText(t, time.Unix(0, 1e18+int64(i+1)*int64(time.Minute))); got != want[i] {
			t.Fatalf("commit %d: history has %q, want %q", i+1, got, want[i])
		}
	}
	if compared < 150 {
		t.Errorf("%d commits were compared", compared)
	}
	testenv.NoError(t, s.store.Close())
}
