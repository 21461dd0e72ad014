package metric

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestProcessingTimeIsChargedDuringBacklog queues five commits, and expects each node's processing time to be
// counted during the backlog. Both nodes pay for their values in each commit behind which another one waits,
// once and in their order, and not for the last one.
func TestProcessingTimeIsChargedDuringBacklog(t *testing.T) {
	definitions := func(id model.DefinitionID) *model.Definition { return testDefinition(id) }
	s := shard.New(shard.Options{Workers: 1, Definitions: definitions, QueueCommits: 10})
	var paid []model.NodeID
	v := &testView{shard: s, View: New(s, Options{Definitions: definitions, Charge: func(node model.NodeID, took time.Duration) {
		if took <= 0 {
			t.Errorf("node %d pays %v", node, took)
		}
		paid = append(paid, node)
	}})}
	var last *testCommit
	for number := uint64(1); number <= 5; number++ {
		one := v.values(10, item.FromFloat(1), item.FromText(`{"last": 5}`))
		other := append(wire.AppendBatchRecord(nil, 8), one[len(wire.AppendBatchRecord(nil, 7)):]...)
		last = &testCommit{number, [][]byte{one, one, other}} // the second one is a repetition
		s.Deliver(last)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	testenv.NoError(t, s.WaitApplied(ctx, last.Position()))
	cancel()
	<-done
	if want := []model.NodeID{7, 8, 7, 8, 7, 8, 7, 8}; !slices.Equal(paid, want) {
		t.Errorf("paid: %v, want %v", paid, want)
	}
}
