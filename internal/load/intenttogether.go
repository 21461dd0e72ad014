package load

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/model"
)

// The loader that leads changes intent; each looks at its own agents. Those that follow know
// what is changed when it is an entry's turn, and hear when it is, and when the API had
// answered. What they timed is merged bucket by bucket, and a change is held once the last agent
// of all loaders holds it.

// Order is news of a change of intent, on its way to the loaders that follow: an entry's next
// turn has come, or the API has answered it. The zero entry with Over: nothing is changed any more.
type Order struct {
	Entry    int  `json:"entry"` // of the scenario's intent
	Answered bool `json:"answered,omitempty"`
	Over     bool `json:"over,omitempty"`
}

// Reformed is what a loader's agents did about one entry of intent.
type Reformed struct {
	Agents int     `json:"agents"`
	Never  int     `json:"never"`
	Took   []byte  `json:"took"`  // packed
	Lasts  []int64 `json:"lasts"` // of each change, ns from its answer until the last agent held it; -1: not all of them did
}

const holdsFigure = "holds-p99"

// order tells the others what became of a change at an instant of the run, and returns by how
// much their clocks may be off.
func (r *run) order(o Order, at int64) time.Duration {
	if r.cfg.Others == nil {
		return 0
	}
	return r.cfg.Others.Order(o, r.epoch.Add(time.Duration(at)))
}

// ordered hears of it.
func (r *run) ordered(o Order, at time.Time) error {
	f, since := r.reform, int64(at.Sub(r.epoch))
	if f == nil || o.Entry < 0 || o.Entry >= len(f.held) {
		return model.Errorf(model.Invalid, "the loader that leads changes what is not in the scenario")
	}
	switch {
	case f.isOver():
		return model.Errorf(model.Invalid, "the loader that leads changes something after all")
	case o.Over:
		close(f.over)
	case !o.Answered:
		next, _, _ := f.next(f.held[o.Entry])
		f.open(next, since)
	case f.last == nil || f.last.revision.n != o.Entry || f.last.answered != 0:
		return model.Errorf(model.Invalid, "the loader that leads has an answer to what it did not ask")
	default:
		f.answer(f.last, since)
	}
	return nil
}

func (f *reform) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// awaitOrders waits until nothing is changed any more, and this loader's agents hold what was.
func (r *run) awaitOrders(ctx context.Context) {
	if r.reform == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-r.reform.over:
	}
	r.reform.await(ctx)
}

// handOverHolds fills in what the agents here did about each entry.
func (r *run) handOverHolds(m *Measured) {
	if r.reform == nil {
		return
	}
	for _, x := range r.reform.held {
		m.Reformed = append(m.Reformed, Reformed{Agents: x.sum.Agents, Never: x.sum.Never, Took: packHistogram(x.took), Lasts: x.lasts})
	}
	m.Holds = map[int][]byte{}
	r.beside.mu.Lock()
	defer r.beside.mu.Unlock()
	for k, h := range r.beside.took {
		if k.figure == holdsFigure {
			m.Holds[k.part] = packHistogram(h)
		}
	}
}

// mergeHolds adds what another loader's agents did. Where intent was not changed there is
// nothing to add.
func (r *run) mergeHolds(m *Measured) error {
	f := r.reform
	if f == nil {
		return nil
	}
	if len(m.Reformed) != len(f.held) {
		return model.Errorf(model.Invalid, "%d changes of intent, of %d", len(m.Reformed), len(f.held))
	}
	for i, x := range f.held {
		theirs := &m.Reformed[i]
		took, err := unpackHistogram(x.took, theirs.Took)
		if err != nil {
			return err
		}
		if len(theirs.Lasts) != len(x.lasts) {
			return model.Errorf(model.Invalid, "%s: heard of %d times, asked for %d times", x.sum.What, len(theirs.Lasts), len(x.lasts))
		}
		x.took.Merge(took)
		x.sum.Agents += max(0, theirs.Agents)
		x.sum.Never += max(0, theirs.Never)
		for i, last := range theirs.Lasts {
			if last < 0 || x.lasts[i] < 0 {
				x.lasts[i] = -1
			} else {
				x.lasts[i] = max(x.lasts[i], last)
			}
		}
	}
	for part, packed := range m.Holds {
		h, err := unpackHistogram(hdrhistogram.New(1, maxLatency, 3), packed)
		if err != nil {
			return err
		}
		r.beside.merge(besideKey{holdsFigure, part}, h)
	}
	return nil
}
