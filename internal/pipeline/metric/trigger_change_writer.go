package metric

import (
	"context"
	"log/slog"
	"sort"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// maxAppended is the most verdicts that Run writes at once.
const maxAppended = 1000

// retryAppend is the pause before another attempt to write verdicts that the journal refused.
const retryAppend = time.Second

// Run writes changed states of triggers to the journal, in order within each partition. It ends with ctx. record
// returns when its verdicts are durable; after an error none of them is. Call Run when the replay of the journal has
// ended: from then on each pending verdict is one that the journal lacks.
func (v *View) Run(ctx context.Context, record func(ctx context.Context, list []Verdict, sections []model.Partition) error, log *slog.Logger) error {
	var written [model.Partitions]uint64 // sequence of the last verdict that is in the journal
	for {
		list, sections := v.unwrittenChanges(&written)
		if len(list) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-v.wake:
			}
			continue
		}
		if err := record(ctx, list, sections); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			log.Warn("cannot write the verdicts of triggers to the journal; trying again", "verdicts", len(list), "err", err)
			if pause.For(ctx, retryAppend) != nil {
				return nil
			}
			continue
		}
		for i := range list {
			written[sections[i]] = list[i].sequence
		}
		v.recorded.Add(uint64(len(list)))
	}
}

// unwrittenChanges returns the trigger changes that the journal does not have yet, with their partitions
func (v *View) unwrittenChanges(written *[model.Partitions]uint64) (list []Verdict, sections []model.Partition) {
	for i := range v.partitions {
		p := &v.partitions[i]
		p.Lock()
		first := sort.Search(len(p.pending), func(k int) bool { return p.pending[k].sequence > written[i] })
		for k := first; k < len(p.pending) && len(list) < maxAppended; k++ {
			list, sections = append(list, p.pending[k]), append(sections, model.Partition(i))
		}
		p.Unlock()
	}
	return list, sections
}
