package muster

import (
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestAcknowledgedIsInTheLog runs sessions over the real journal on a real disk:
// what was acknowledged is read back from it, each number once.
func TestAcknowledgedIsInTheLog(t *testing.T) {
	dir := t.TempDir()
	view := &memJournal{last: map[model.NodeID]map[wire.StreamKey]uint64{}}
	log, err := journal.Open(dir, journal.Options{Reserve: -1, Tick: -1, Deliver: func(c journal.Commit) {
		view.mu.Lock()
		defer view.mu.Unlock()
		for _, s := range c.Sections() {
			_ = c.Entries(s, func(data []byte) error { view.apply(append([]byte(nil), data...)); return nil })
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Journal, c.View = log, view })
	const agents, batches, each = 20, 30, 5
	uids := make([]uuid.UUID, agents)
	var sending sync.WaitGroup
	for i := range agents {
		uids[i] = w.node(i, 1)
		a := w.agent(uids[i])
		sending.Go(func() {
			for n := range batches {
				if err := a.Send(results(uint64(n*each+1), each, 1)); err != nil {
					t.Error(err)
				}
			}
			a.waitAck(batches * each)
		})
	}
	sending.Wait()
	w.stop()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	again, err := journal.Open(dir, journal.Options{Reserve: -1, Tick: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	next := map[model.NodeID]uint64{}
	err = again.Read(t.Context(), journal.Position{}, func(c journal.Commit) error {
		for _, s := range c.Sections() {
			if err := c.Entries(s, func(data []byte) error {
				var r wire.Record
				if err := r.Decode(data); err != nil || r.Kind != wire.RecordBatch {
					return err
				}
				var b wire.Batch
				if err := b.Decode(r.Batch); err != nil {
					return err
				}
				if b.First != next[r.Node]+1 {
					t.Errorf("node %d: number %d after %d", r.Node, b.First, next[r.Node])
				}
				next[r.Node] = b.First + uint64(len(b.Signals)) - 1
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range agents {
		if got := next[model.NodeID(1000+i)]; got != batches*each {
			t.Errorf("node %d: kept %d of %d", i, got, batches*each)
		}
	}
}
