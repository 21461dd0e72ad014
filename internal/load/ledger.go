package load

import (
	"context"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Kept is what the view says of one event state.
type Kept struct {
	Node    model.NodeID
	Check   model.CheckID
	Results uint64 // applied ever
	Stream  uint64 // of the last one …
	Number  uint64 // … and its number there
}

// View reads all event states, in any order.
type View interface {
	Each(ctx context.Context, fn func(Kept) error) error
}

// place names one event state.
type place struct {
	node  model.NodeID
	check model.CheckID
}

// ledger is what one agent knows of its results. Guarded by the agent's lock.
type ledger struct {
	sent    uint64   // signals numbered
	acked   uint64   // of those, kept
	refused uint64   // of those, refused for good
	results []uint32 // per check: acknowledged
	numbers []uint64 // per check: of the last acknowledged
}

// Imbalance is one disagreement between the ledger and the view.
type Imbalance struct {
	Node    model.NodeID  `json:"node"`
	Check   model.CheckID `json:"check"`
	Problem string        `json:"problem"`
}

// Balance is the verdict of the ledger.
type Balance struct {
	Sent         uint64      `json:"sent"`
	Acknowledged uint64      `json:"acknowledged"`
	Refused      uint64      `json:"refused"`
	Missing      uint64      `json:"missing"`  // sent, neither acknowledged nor refused
	Compared     int         `json:"compared"` // event states compared with the view
	Imbalances   uint64      `json:"imbalances"`
	Examples     []Imbalance `json:"examples,omitempty"` // at most ten
}

// OK: nothing is missing and the view agrees.
func (b *Balance) OK() bool { return b.Missing == 0 && b.Imbalances == 0 }

func (b *Balance) add(p place, format string, args ...any) {
	b.Imbalances++
	if len(b.Examples) < 10 {
		b.Examples = append(b.Examples, Imbalance{p.node, p.check, fmt.Sprintf(format, args...)})
	}
}

// expected is what the view must hold of one state.
type expected struct {
	results, number uint64
	stream          wire.StreamID
}

// balance sums the agents' ledgers and compares them with the view. before is how
// many results each state held when the run began. The agents must be at rest.
func balance(ctx context.Context, agents []*agent, view View, before map[place]uint64) (*Balance, error) {
	b := &Balance{}
	want := map[place]expected{}
	for _, a := range agents {
		a.mu.Lock()
		b.Sent += a.ledger.sent
		b.Acknowledged += a.ledger.acked
		b.Refused += a.ledger.refused
		if view != nil && a.set != nil {
			for i, n := range a.ledger.results {
				if n > 0 {
					want[place{a.node, a.set.chunks[i].Check}] = expected{uint64(n), a.ledger.numbers[i], a.stream}
				}
			}
		}
		a.mu.Unlock()
	}
	b.Missing = b.Sent - b.Acknowledged - b.Refused
	if view == nil {
		return b, nil
	}
	err := view.Each(ctx, func(k Kept) error {
		p := place{k.Node, k.Check}
		e, ok := want[p]
		if !ok {
			return nil // not ours: keepalives, the server's own
		}
		delete(want, p)
		b.Compared++
		if got := k.Results - before[p]; got != e.results {
			b.add(p, "%d results applied, %d acknowledged", got, e.results)
		} else if k.Stream != uint64(e.stream) || k.Number != e.number {
			b.add(p, "last is %x/%d, acknowledged %x/%d", k.Stream, k.Number, uint64(e.stream), e.number)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the view: %w", err)
	}
	for p, e := range want {
		b.add(p, "not in the view, %d results acknowledged", e.results)
	}
	return b, nil
}

// resultsOf reads how many results each state holds.
func resultsOf(ctx context.Context, view View) (map[place]uint64, error) {
	held := map[place]uint64{}
	if view == nil {
		return held, nil
	}
	err := view.Each(ctx, func(k Kept) error {
		held[place{k.Node, k.Check}] = k.Results
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the view: %w", err)
	}
	return held, nil
}
