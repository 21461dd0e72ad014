package play

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// noting is a session that notes the first and the last number of each frame.
type noting struct {
	silent
	lasts []uint64
}

// SendFrame notes a frame.
func (n *noting) SendFrame(_ wire.StreamKey, last uint64, _ []byte) error {
	n.lasts = append(n.lasts, last)
	return nil
}

// TestAcknowledgedFramesAreRepeated acknowledges many frames at once, and expects that about one in repeatOneIn comes again, that its
// signals are counted, and that the ledger stays the same.
func TestAcknowledgedFramesAreRepeated(t *testing.T) {
	f := fleetOf(t, scenario.Uniform{Agents: 1, Checks: 1}.Scenario())
	f.Follow(plan.Forever(0, plan.Never))
	f.Deal()
	a, s := f.agents[0], &noting{}
	a.set = &checkSet{definitions: []*model.CheckDefinition{{Definition: model.Definition{ID: 50}}}}
	a.status, a.ledger.States = make([]model.Status, 1), make(observe.Entries, 1)
	a.Welcome(s, &wire.Welcome{Node: 1})
	const frames = 20 * repeatOneIn
	for n := range uint64(frames) {
		a.mu.Lock()
		a.add(task{seq: n}, 5, 5)
		a.leave(5)
		a.mu.Unlock()
		a.Acked(nil, &wire.Ack{Last: []wire.StreamLast{{StreamKey: wire.StreamKey{Stream: a.stream}, Last: a.ledger.Sent}}})
	}
	repeated := len(s.lasts) - frames
	if c := f.Counts(); repeated < 5 || repeated > 50 || c.Repeated != uint64(repeated) || c.Resent > 0 {
		t.Errorf("%d of %d frames came again; %+v", repeated, frames, c)
	}
	if l := a.ledger; l.Sent != frames || l.Acked != frames || l.States[0].Results != frames {
		t.Errorf("%+v", l)
	}
}
