package event

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
)

// worker is the event view's half of a shard's worker: one goroutine uses it. The shard
// calls its exported methods (shard.Applier), with the mutex of p held.
type worker struct {
	*shard.Worker
	view      *View
	calendars map[model.ChunkID]window.Set // see pause

	p        *partition // being applied
	index    uint32     // of the next transition in it
	observed uint32     // of the next Observed transition in it
	silent   bool       // reactions recorded its transitions before

	transitions []Transition // of the commit
	body        wire.Result  // of the signal being applied
	text        []byte       // reused for every output that the view writes
}

func newWorker(v *View, w *shard.Worker) *worker { return &worker{Worker: w, view: v} }

// EnterPartition implements shard.Applier.
func (w *worker) EnterPartition(p *shard.Partition) {
	w.p, w.index, w.observed = w.view.partitions[p.ID], 0, 0
	order, same := w.Position.Compare(w.view.opts.EmitAfter)
	w.silent = w.view.opts.Emit == nil || same && order <= 0
}

// Signal implements shard.Applier.
func (w *worker) Signal(n uint32, s *wire.Signal, from *shard.Arrival) shard.Outcome {
	return w.result(w.p, n, s, from)
}

// Record implements shard.Applier.
func (w *worker) Record(r *wire.Record) {
	switch r.Kind {
	case wire.RecordServerResult:
		w.Count(w.serverResult(w.p, r.Node, r.ServerResult), 1)
	case wire.RecordAction:
		w.action(w.p, r.Node, r.Action)
	}
}

// EndCommit implements shard.Applier: it hands on the transitions.
func (w *worker) EndCommit() {
	if len(w.transitions) > 0 {
		w.view.metrics.transitions.Add(float64(len(w.transitions)))
		w.view.opts.Emit(w.transitions)
		clear(w.transitions)
		w.transitions = w.transitions[:0]
	}
}

// check resolves the chunk of a check; nil where it is unknown or of another kind.
func (w *worker) check(id model.ChunkID) *model.CheckChunk { return w.Chunk(id).AsCheck() }
