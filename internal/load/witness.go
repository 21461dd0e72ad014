package load

import (
	"sync"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
)

// witness follows one event state whose alerts are judged: those that had to come, which of a check its acknowledged results
// tell, and those that came. Its lock is taken under the agents'.
type witness struct {
	name  string // node/check
	fails bool   // a fault lets the check fail
	tells bool   // the scenario wants it notified

	mu      sync.Mutex
	failing bool
	unclear bool // a deadline has judged in between: the results alone do not tell which alerts had to come
	must    []observe.Turn
	came    []observe.Turn
}

// result is one that was acknowledged, and when it was meant to be made.
func (w *witness) result(status model.Status, intended int64) {
	failing := status != model.OK
	w.mu.Lock()
	defer w.mu.Unlock()
	if failing != w.failing {
		w.failing = failing
		w.must = append(w.must, observe.Turn{At: intended, Open: failing})
	}
}

// told is an alert.
func (w *witness) told(open bool, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came = append(w.came, observe.Turn{At: at, Open: open})
}

// unknown notes that the order in which the server took the results is unknown.
func (w *witness) unknown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unclear = true
}

// seen returns what was seen, with times since an instant.
func (w *witness) seen(begin int64) observe.Alerted {
	since := func(all []observe.Turn) (list []observe.Turn) {
		for _, t := range all {
			list = append(list, observe.Turn{At: t.At - begin, Open: t.Open})
		}
		return list
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return observe.Alerted{Name: w.name, Fails: w.fails, Told: w.tells, Unclear: w.unclear, Must: since(w.must), Came: since(w.came)}
}
