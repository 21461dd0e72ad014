package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// baseline is what each state held when the run began, sorted by node and check: 24 bytes
// each. A server of the run's own has none.
type baseline []began

type began struct {
	node    model.NodeID
	check   model.CheckID
	results uint64
	order   model.ResultDigest // of them; zero: not known
}

func (x began) compare(y began) int {
	return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.check, y.check))
}

// of is what a state held; zero: it was not there.
func (b baseline) of(node model.NodeID, check model.CheckID) began {
	if i, found := slices.BinarySearchFunc(b, began{node: node, check: check}, began.compare); found {
		return b[i]
	}
	return began{}
}

// firstWord is how long a server may say nothing while the baseline is read. It may have millions of
// states to say: as long as they come, nobody is in a hurry.
const firstWord = time.Minute

// readBaseline reads it; without a view it is empty.
func (r *run) readBaseline(ctx context.Context) (baseline, error) {
	if r.cfg.Before == nil {
		return nil, nil
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := time.AfterFunc(firstWord, func() { end(r.hangs()) })
	defer silence.Stop()
	var b baseline
	err := r.cfg.Before.Each(ctx, func(k Kept) error {
		silence.Reset(firstWord)
		b = append(b, began{k.Node, k.Check, k.Results, k.Order})
		return nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("read the view: %w", err)
	}
	slices.SortFunc(b, began.compare)
	return slices.Clip(b), nil
}

// hangs is why a run ends before it has sent anything.
func (r *run) hangs() error {
	err := model.Errorf(model.Unavailable, "the server does not say what it holds: nothing came for %s, and nothing was sent to it", firstWord)
	if r.cfg.AdminURL == "" {
		return err.WithHint("muster status says whether it is well")
	}
	return err.WithHint("curl --max-time 10 %s/readyz says whether it is well", r.cfg.AdminURL)
}
