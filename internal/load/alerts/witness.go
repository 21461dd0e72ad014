package alerts

import (
	"sync"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
)

// Witness records the expected and the received alerts of one event state. Its lock is taken under the agents'.
type Witness struct {
	Name  string // node/check
	fails bool   // a fault lets the check fail
	tells bool   // the scenario wants it notified

	mu      sync.Mutex
	failing bool
	unclear bool // a deadline has judged in between: the results alone do not tell which alerts had to come
	must    []observe.Turn
	came    []observe.Turn
}

// Result records an acknowledged result and its intended time.
func (w *Witness) Result(status model.Status, intended int64) {
	failing := status != model.OK
	w.mu.Lock()
	defer w.mu.Unlock()
	if failing != w.failing {
		w.failing = failing
		w.must = append(w.must, observe.Turn{At: intended, Open: failing})
	}
}

// told records a received alert.
func (w *Witness) told(open bool, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came = append(w.came, observe.Turn{At: at, Open: open})
}

// Unknown records that the order of results on the server is unknown.
func (w *Witness) Unknown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unclear = true
}

// Seen returns the alerts of the state, with times since an instant.
func (w *Witness) Seen(begin int64) observe.Alerted {
	since := func(all []observe.Turn) (list []observe.Turn) {
		for _, t := range all {
			list = append(list, observe.Turn{At: t.At - begin, Open: t.Open})
		}
		return list
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return observe.Alerted{Name: w.Name, Fails: w.fails, Told: w.tells, Unclear: w.unclear, Must: since(w.must), Came: since(w.came)}
}
