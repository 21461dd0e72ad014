package load

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// waitReady waits until every agent has a session and its checks.
func (r *run) waitReady(ctx context.Context, rep *reporting) error {
	n := int64(len(r.agents))
	connected := false
	patience := 30*time.Second + 2*r.ramp()/time.Duration(n)
	began := time.Now()
	idle, last := began, int64(0)
	for r.ready.Load() < n {
		if !connected && r.first.Load() == n {
			connected = true
			rep.ConnectSeconds = time.Since(began).Seconds()
		}
		if now := r.first.Load() + r.ready.Load(); now != last {
			idle, last = time.Now(), now
		}
		if time.Since(idle) > patience {
			return r.whyNot()
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	rep.ReadySeconds = time.Since(began).Seconds()
	if !connected {
		rep.ConnectSeconds = rep.ReadySeconds
	}
	return nil
}

// whyNot explains why not all agents became ready.
func (r *run) whyNot() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if welcomed := int(r.first.Load()); welcomed < len(r.agents) {
		reason, most := "no answer", uint64(0)
		for text, n := range r.failures {
			if n > most {
				reason, most = text, n
			}
		}
		return model.Errorf(model.Unavailable, "%d of %d agents have a session; the others: %s", welcomed, len(r.agents), reason).
			WithHint(howPrepared)
	}
	for _, x := range r.classes {
		if x.fewest < len(x.checks) {
			return model.Errorf(model.Invalid, "%d of %d agents hold their checks; of class %s an assignment with %d of %d was seen",
				r.ready.Load(), len(r.agents), x.spec.Name, max(0, x.fewest), len(x.checks)).WithHint(howPrepared)
		}
	}
	return model.Errorf(model.Unavailable, "%d of %d agents hold their checks", r.ready.Load(), len(r.agents))
}

// howPrepared is what to type.
const howPrepared = "muster load prepare with the same scenario and seed, with the server stopped; or leave --server out: the run then has a server of its own"

// ramp is how long agents take to connect, one after the other.
func (r *run) ramp() time.Duration {
	if p := r.cfg.Scenario.Phases; len(p) > 0 {
		return time.Duration(p[0].Ramp)
	}
	return 0
}

// cause is err in words that many sessions share: without the port of this one.
func cause(err error) string {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		text = strings.ReplaceAll(text, op.Source.String()+"->", "")
	}
	return text
}
