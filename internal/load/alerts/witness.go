package alerts

import (
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
)

// Witness records the expected and the received alerts of one event state, with times in ns since the run was made. Its lock is
// taken under the agents'.
type Witness struct {
	mu sync.Mutex
	observe.Alerted
	failing bool
}

// Result records an acknowledged result and its intended time.
func (w *Witness) Result(status model.Status, intended int64) {
	failing := status != model.OK
	w.mu.Lock()
	defer w.mu.Unlock()
	if failing != w.failing {
		w.failing = failing
		w.Must = append(w.Must, observe.Turn{At: intended, Open: failing})
	}
}

// told records a received alert.
func (w *Witness) told(open bool, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Came = append(w.Came, observe.Turn{At: at, Open: open})
}

// Unknown records that the order of results on the server is unknown.
func (w *Witness) Unknown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Unclear = true
}

// Seen returns the alerts of the state, with times since an instant.
func (w *Witness) Seen(begin int64) observe.Alerted {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.Alerted
	seen.Must, seen.Came = slices.Clone(seen.Must), slices.Clone(seen.Came)
	for _, list := range [][]observe.Turn{seen.Must, seen.Came} {
		for i := range list {
			list[i].At -= begin
		}
	}
	return seen
}
