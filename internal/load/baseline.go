package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// baseline is what each state held when the run began, sorted by node and check: 24 bytes
// each. A server of the run's own has none.
type baseline []began

type began struct {
	node    model.NodeID
	check   model.CheckID
	results uint64
	order   model.Order // of them; zero: not known
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

// readBaseline reads it; without a view it is empty.
func readBaseline(ctx context.Context, view View) (baseline, error) {
	if view == nil {
		return nil, nil
	}
	var b baseline
	err := view.Each(ctx, func(k Kept) error {
		b = append(b, began{k.Node, k.Check, k.Results, k.Order})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the view: %w", err)
	}
	slices.SortFunc(b, began.compare)
	return slices.Clip(b), nil
}
