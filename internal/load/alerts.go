package load

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/streamed"
	"github.com/muster-fleet/muster/internal/pause"
)

// stopping reports whether a fault of the scenario stops machines.
func stopping(sc *scenario.Scenario) bool {
	return slices.ContainsFunc(sc.Faults, func(f scenario.Fault) bool { return f.Stop != nil })
}

// hearAlerts starts a listener for the alerts that the scenario's faults cause, or returns nil if there are none or
// there is no login.
func (r *run) hearAlerts(ctx context.Context) (*alerts.Listener, error) {
	sc := r.cfg.Scenario
	stops, struck := stopping(sc), alerts.Failing(sc)
	if r.cfg.API == nil || !stops && len(alerts.Listened(sc)) == 0 {
		return nil, nil
	}
	l, err := alerts.Listen(alerts.Run{API: r.cfg.API, Log: r.cfg.Log, Scenario: sc, Address: r.facing(), Now: r.now})
	if err != nil {
		return nil, err
	}
	for _, a := range r.agents {
		if stops {
			l.WatchMachine(a.name)
		}
		for name, check := range a.class.index {
			if k := &a.class.checks[check]; (struck[name] || k.tells) && k.about == nil { // of all that hold it: its handler is told of each
				a.watch(int16(check), l.WatchCheck(a.name, k.full, struck[name], k.tells))
			}
		}
	}
	for _, c := range r.classes {
		for name, check := range c.index {
			if k := &c.checks[check]; struck[name] && k.about != nil {
				for i := range k.about.pairs {
					p := &k.about.pairs[i]
					p.mu.Lock()
					p.watched = l.WatchCheck(p.name, k.full, true, k.tells)
					p.mu.Unlock()
				}
			}
		}
	}
	return l, l.Declare(ctx)
}

// facing returns the address of this machine from which it connects to the server under test.
func (r *run) facing() string {
	if c, err := net.Dial("udp", r.cfg.Server); err == nil { // nothing is sent
		defer c.Close()
		if a, ok := c.LocalAddr().(*net.UDPAddr); ok {
			return a.IP.String()
		}
	}
	return "127.0.0.1"
}

// watch records the results of a check for the alerts that w expects.
func (a *agent) watch(check int16, w *alerts.Witness) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ledger.watched == nil {
		a.ledger.watched = map[int16]*alerts.Witness{}
	}
	a.ledger.watched[check] = w
}

// patience limits the wait for missing alerts after the last one that came, because the server retries a failed
// delivery after seconds.
const patience = 15 * time.Second

// concludeAlerts waits until all expected alerts came, or none came for a while, then stops watching the machines.
func (r *run) concludeAlerts(ctx context.Context, d *faultScript) {
	if r.alarms == nil {
		return
	}
	ctx, over := r.cfg.ending(ctx)
	defer over()
	for began := r.now(); ctx.Err() == nil && r.alarms.Quiet(began) <= patience && r.alertsMissing(d); {
		pause.For(ctx, 200*time.Millisecond)
	}
	r.alarms.Unfollow()
	r.log.Append(observe.Line{Alerts: r.alertsSeen(d)})
}

// alertsMissing reports whether an expected alert has not come yet.
func (r *run) alertsMissing(d *faultScript) bool {
	seen := r.alertsSeen(d)
	return judge.Alerts(seen, nil) > 0 || judge.Messages(seen, r.since, nil).Missing > 0
}

// alertsSeen returns the alerts so far, and the faults that cause them.
func (r *run) alertsSeen(d *faultScript) *observe.Alerts {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, index := r.alarms.Seen(r.begin.Load())
	for _, a := range r.agents {
		a.mu.Lock()
		if a.ledger.gone {
			for _, w := range a.ledger.watched {
				out.States[index[w.Name]].Gone = true
			}
		}
		a.mu.Unlock()
	}
	row := 0
	for _, x := range d.strikes {
		if x.at == 0 {
			continue
		}
		if x.fault.Fail != nil || x.fault.Stop != nil {
			out.Strikes = append(out.Strikes, d.alerts(x, row, index))
		}
		row++
	}
	return out
}

// alerts returns the part of a strike by which its alerts are judged: its times and the states that it affects. Caller
// holds the lock.
func (d *faultScript) alerts(x *strike, row int, index map[string]int) observe.Strike {
	begin := d.run.begin.Load()
	s := observe.Strike{Fault: row, At: x.at - begin}
	if x.until > 0 {
		s.Until = x.until - begin
	}
	for _, a := range x.agents {
		a.mu.Lock()
		if x.fault.Stop == nil {
			for _, c := range x.checks[a.class] {
				s.States = append(s.States, index[a.ledger.watched[int16(c)].Name])
			}
			a.mu.Unlock()
			continue
		}
		state := index[alerts.KeepaliveOf(a.name)]
		a.mu.Unlock()
		_, timeout := a.class.spec.Keepalive.EffectiveTimes()
		s.Timeout = int64(timeout)
		s.States = append(s.States, state)
		if !a.attended(x.at, x.at) {
			s.Offline = append(s.Offline, state)
		}
	}
	for _, p := range x.pairs {
		s.States = append(s.States, index[p.watched.Name])
	}
	s.Unsure = x.fault.Stop != nil && d.serverAway(x.at, cmp.Or(x.until, d.run.now()))
	return s
}

// awayTimes returns the times since begin in which faults kept the server away.
func (d *faultScript) awayTimes(begin int64) (list []observe.Stay) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.strikes {
		if x.away(0, never) {
			s := observe.Stay{From: x.at - begin, To: observe.Lasts}
			if x.over > 0 {
				s.To = x.over - begin
			}
			list = append(list, s)
		}
	}
	return list
}

// serverAway reports whether a fault kept the server away at some time between from and to. Caller holds the lock.
func (d *faultScript) serverAway(from, to int64) bool {
	return slices.ContainsFunc(d.strikes, func(x *strike) bool { return x.away(from, to) })
}

// attended reports whether the machine had a session from from to to without interruption.
func (a *agent) attended(from, to int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.present(), func(s observe.Stay) bool { return s.From <= from && s.To >= to })
}

// numbers returns the last settled, sent and numbered signal of the agent.
func (a *agent) numbers() streamed.Numbers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return streamed.Numbers{Settled: a.ledger.settled(), Sent: a.ledger.shown, Given: a.ledger.sent}
}

// line returns the expected stream line of a result. The caller holds the lock.
func (a *agent) line(s *sign) *streamed.Result {
	k := &a.class.checks[s.check]
	r := &streamed.Result{Node: observe.OwnName(a.name), Check: k.full, Status: s.status.String(), At: s.intended}
	if s.about > 0 {
		r.Node = k.about.names[s.about-1]
	}
	return r
}

// hearStream starts a listener for the handler that receives every result, or returns nil if the scenario does not ask
// for it or there is no login.
func (r *run) hearStream(ctx context.Context) (*streamed.Peer, error) {
	s := r.cfg.Scenario.Stream
	if r.cfg.API == nil || s == nil {
		return nil, nil
	}
	measured := func(intended int64) bool {
		s := r.present()
		i := s.at(intended)
		return i >= 0 && s[i].Measured
	}
	k, err := streamed.Listen(streamed.Run{API: r.cfg.API, Log: r.cfg.Log, Address: r.facing(), Now: r.now, Since: r.since, Measured: measured, OwnName: observe.OwnName})
	if err != nil {
		return nil, err
	}
	for _, a := range r.agents {
		x := k.Machine(a.stream, observe.OwnName(a.name), a.numbers)
		a.mu.Lock()
		a.ledger.lines = x
		a.mu.Unlock()
	}
	if err := k.Declare(ctx, s.Connections); err != nil {
		k.End()
		return nil, fmt.Errorf("set up the handler that is notified of every result: %w", err)
	}
	return k, nil
}
