package agent

import (
	"github.com/muster-fleet/muster/internal/agent/schedule"
)

// noPlace is why a server refuses a machine whose checks are no longer its to run:
// nobody wants their results, and a copy of a machine would run each of them a second
// time. A node that is merely unknown goes on: the server may be one that was restored
// from an old copy.
var noPlace = []string{"retired", "deleted", "replaced", "refused", "clone"}

// cease runs no more checks until a server takes this machine back.
func (a *Agent) cease(code string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ceased {
		return
	}
	a.ceased = true
	a.cfg.Log.Warn("no more checks run here until the server takes this machine back", "because", code)
	_ = a.scheduler.Set([]schedule.Job{}) // nothing cannot be wrong
}

// resume takes up again what cease stopped.
func (a *Agent) resume() {
	a.mu.Lock()
	held, ceased := a.held, a.ceased
	a.ceased = false
	a.mu.Unlock()
	if !ceased || held == nil {
		return
	}
	if err := a.apply(held); err != nil {
		a.cfg.Log.Error("cannot apply the assignment", "err", err)
	}
}
