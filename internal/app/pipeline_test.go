package app

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// criticalCommit is a commit in which the server says that its first node is not well.
type criticalCommit struct{}

func (criticalCommit) Position() journal.Position  { return journal.Position{Log: 1, Number: 1} }
func (criticalCommit) Received() int64             { return int64(365 * 24 * time.Hour) }
func (criticalCommit) Listening() time.Duration    { return time.Second }
func (criticalCommit) Sections() []journal.Section { return []journal.Section{1} }
func (criticalCommit) Retain()                     {}
func (criticalCommit) Release()                    {}
func (criticalCommit) Entries(_ journal.Section, fn func([]byte) error) error {
	return fn(wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordServerResult, Node: 1,
		ServerResult: &wire.ServerResult{Chunk: model.BuiltinChunk(model.KeepaliveCheck), Status: model.Critical, Output: []byte("silent")}}))
}

// A snapshot that is made between a commit and what it caused is of no use before that has been
// handed on and recorded: a restart from it would never tell of the problem.
func TestSnapshotWaitsForRecordedTransitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emits, goOn := make(chan struct{}), make(chan struct{})
		s := &pipeline{reactor: react.New(react.Options{})}
		s.view = event.New(shard.New(shard.Options{}), event.Options{Emit: func(ts []event.Transition) {
			close(emits)
			<-goOn
			s.reactor.Emit(ts)
		}})
		go func() { _ = s.view.Apply(criticalCommit{}) }()
		<-emits
		_, at := s.view.Snapshot(1, nil)
		if at.Number != 1 {
			t.Fatalf("the snapshot is of commit %d", at.Number)
		}
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() { answer <- s.waitRecorded(ctx, at) }()
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

// What history lost of an open problem, as a server does that is killed between two writes, is found
// when it starts again.
func TestLostProblemRestoredAtStart(t *testing.T) {
	cfg := settings(t, filepath.Join(t.TempDir(), "data"))
	s, stop := start(t, cfg)
	testenv.Until(t, "ready", func() bool { return s.NotReady() == nil })
	if err := s.recorder.OwnResult(t.Context(), model.IdentityCheck, model.Critical, "two of them"); err != nil {
		t.Fatal(err)
	}
	var id string
	testenv.Until(t, "history has the problem", func() bool {
		if st, ok := s.view.Get(model.ServerNode, model.IdentityCheck); ok && st.Problem != nil {
			id = st.Problem.ID
		}
		_, err := s.history.Problem(t.Context(), id)
		return err == nil
	})
	stop()
	db, err := sql.Open("sqlite", filepath.Join(cfg.Data, "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	if done, err := db.Exec(`DELETE FROM history_problems WHERE id = ?`, id); err != nil {
		t.Fatal(err)
	} else if n, err := done.RowsAffected(); n != 1 {
		t.Fatalf("%d problems deleted, %v", n, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = start(t, cfg)
	testenv.Until(t, "history has it again", func() bool {
		p, err := s.history.Problem(t.Context(), id)
		return err == nil && p.Closed.IsZero() && p.Output == "two of them"
	})
}
