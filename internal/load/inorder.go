package load

import (
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Why it is not known of a state whether the server applied just the results that it
// acknowledged, in their order.
const (
	orderUntold = "the server does not know"
	orderOpen   = "some had no answer"
	orderUnsure = "some may have been refused"
	orderAtOnce = "several agents sent at once"
)

// inOrder says whether a state that holds n results more than before the run holds just those
// whose order this is. Where that is not known it counts the state, and accuses nobody.
func inOrder(b *report.Balance, k *Kept, before began, came model.ResultDigest, n uint64) bool {
	if k.Order == 0 || before.results > 0 && before.order == 0 {
		b.NotOrdered(orderUntold)
		return true
	}
	b.Ordered++
	return k.Order == came.Prepend(before.order, n)
}
