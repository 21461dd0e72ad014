package event

import (
	"bytes"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Observation is an event as one result, deadline or operator left it. Pipelines kept from
// Sensu evaluate each of them; docs/decisions/0012-every-event.md says why the view makes them.
type Observation struct {
	State                // without Beside
	Extra         []byte // further fields of the result, encoded: wire.DecodeExtra
	FlappingBegan bool
	FlappingEnded bool
}

// observe emits the event as it is now, behind the transitions of the same verdict, where
// somebody reads every event: the check names pipelines, the values name pipelines, or it is a
// keepalive, whose node may name them and which counts only where its status changed. status and
// flags are those before the verdict.
func (w *worker) observe(p *partition, id uint32, s *slot, c *model.CheckChunk, status model.Status, flags slotFlags, extra []byte) {
	switch {
	case c != nil && len(c.Pipelines) > 0:
	case s.check == model.KeepaliveCheck && s.status != status:
	case s.check == model.MetricsCheck && namesPipelines(extra):
	default:
		return
	}
	t := w.emit(p, Observed, s)
	if t == nil {
		return
	}
	flapped, flaps := flags&flagFlapping != 0, s.flags&flagFlapping != 0
	t.Observation = &Observation{Extra: bytes.Clone(extra), FlappingBegan: flaps && !flapped, FlappingEnded: flapped && !flaps}
	p.load(id, &t.Observation.State)
	t.Observation.Output = string(p.output(s))
}

// namesPipelines reports whether values without a check name pipelines.
func namesPipelines(extra []byte) bool {
	x, _ := wire.DecodeExtra(extra) // the session validated it; malformed bytes name none
	return len(x.Pipelines) > 0
}
