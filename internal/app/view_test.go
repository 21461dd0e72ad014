package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/wire"
)

// failing is a commit in which the server says that its first node is not well.
type failing struct{}

func (failing) Position() journal.Position  { return journal.Position{Log: 1, Number: 1} }
func (failing) Received() int64             { return int64(365 * 24 * time.Hour) }
func (failing) Listening() time.Duration    { return time.Second }
func (failing) Sections() []journal.Section { return []journal.Section{1} }
func (failing) Retain()                     {}
func (failing) Release()                    {}
func (failing) Entries(_ journal.Section, fn func([]byte) error) error {
	return fn(wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordOwn, Node: 1,
		Own: &wire.OwnResult{Chunk: model.BuiltinChunk(model.KeepaliveCheck), Status: model.Critical, Output: []byte("silent")}}))
}

// A snapshot that is made between a commit and what it caused is of no use before that has been
// handed on and recorded: a restart from it would never tell of the problem.
func TestASnapshotWaitsForWhatItsLastCommitCaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emits, goOn := make(chan struct{}), make(chan struct{})
		s := &Server{reactor: react.New(react.Options{})}
		s.view = event.New(event.Options{Workers: 1, Emit: func(ts []event.Transition) {
			close(emits)
			<-goOn
			s.reactor.Emit(ts)
		}})
		go func() { _ = s.view.Apply(failing{}) }()
		<-emits
		_, at := s.view.Snapshot(1, nil)
		if at.Number != 1 {
			t.Fatalf("the snapshot is of commit %d", at.Number)
		}
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() { answer <- s.usable(ctx, at) }()
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
