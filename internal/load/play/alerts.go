package play

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/streamed"
)

// Stops reports whether a fault of the scenario stops machines.
func Stops(sc *scenario.Scenario) bool {
	return slices.ContainsFunc(sc.Faults, func(f scenario.Fault) bool { return f.Stop != nil })
}

// HearAlerts starts a listener for the alerts that the scenario's faults cause, or returns nil if there are none or
// there is no login.
func (f *Fleet) HearAlerts(ctx context.Context) (*alerts.Listener, error) {
	sc := f.cfg.Scenario
	stops, struck := Stops(sc), alerts.Failing(sc)
	if f.cfg.API == nil || !stops && len(alerts.Listened(sc)) == 0 {
		return nil, nil
	}
	l, err := alerts.Listen(alerts.Run{API: f.cfg.API, Log: f.cfg.Log, Scenario: sc, Address: f.facing(), Clock: f.Clock})
	if err != nil {
		return nil, err
	}
	for _, a := range f.agents {
		if stops {
			l.WatchMachine(a.name)
		}
		for name, check := range a.class.index {
			if k := &a.class.checks[check]; (struck[name] || k.tells) && k.about == nil { // of all that hold it: its handler is told of each
				a.watch(int16(check), l.WatchCheck(a.name, k.full, struck[name], k.tells))
			}
		}
	}
	for _, c := range f.classes {
		for name, check := range c.index {
			if k := &c.checks[check]; struck[name] && k.about != nil {
				for i := range k.about.pairs {
					p := &k.about.pairs[i]
					p.mu.Lock()
					p.watched = l.WatchCheck(p.Name, k.full, true, k.tells)
					p.mu.Unlock()
				}
			}
		}
	}
	return l, l.Declare(ctx)
}

// facing returns the address of this machine from which it connects to the server under test.
func (f *Fleet) facing() string {
	if c, err := net.Dial("udp", f.cfg.Server); err == nil { // nothing is sent
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

// Alerts returns the alerts that a listener received so far, and the faults that cause them.
func (s *Script) Alerts(l *alerts.Listener) *observe.Alerts {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, index := l.Seen(s.fleet.Begin())
	for _, a := range s.fleet.agents {
		a.mu.Lock()
		if a.ledger.Stopped {
			for _, w := range a.ledger.watched {
				out.States[index[w.Name]].Gone = true
			}
		}
		a.mu.Unlock()
	}
	row := 0
	for _, x := range s.strikes {
		if x.at == 0 {
			continue
		}
		if x.fault.Fail != nil || x.fault.Stop != nil {
			out.Strikes = append(out.Strikes, s.alerts(x, row, index))
		}
		row++
	}
	return out
}

// alerts returns the part of a strike by which its alerts are judged: its times and the states that it affects. Caller
// holds the lock.
func (s *Script) alerts(x *strike, row int, index map[string]int) observe.Strike {
	begin := s.fleet.Begin()
	out := observe.Strike{Fault: row, At: x.at - begin}
	if x.until > 0 {
		out.Until = x.until - begin
	}
	for _, a := range x.agents {
		a.mu.Lock()
		if x.fault.Stop == nil {
			for _, c := range x.checks[a.class] {
				out.States = append(out.States, index[a.ledger.watched[int16(c)].Name])
			}
			a.mu.Unlock()
			continue
		}
		state := index[alerts.KeepaliveOf(a.name)]
		a.mu.Unlock()
		_, timeout := a.class.spec.Keepalive.EffectiveTimes()
		out.Timeout = int64(timeout)
		out.States = append(out.States, state)
		if !a.attended(x.at, x.at) {
			out.Offline = append(out.Offline, state)
		}
	}
	for _, p := range x.pairs {
		out.States = append(out.States, index[p.watched.Name])
	}
	out.Unsure = x.fault.Stop != nil && s.serverAway(x.at, cmp.Or(x.until, s.fleet.Now()))
	return out
}

// numbers returns the last settled, sent and numbered signal of the agent.
func (a *agent) numbers() streamed.Numbers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return streamed.Numbers{Settled: a.ledger.settled(), Sent: a.ledger.shown, Given: a.ledger.Sent}
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

// HearStream starts a listener for the handler that receives every result, or returns nil if the scenario does not ask
// for it or there is no login.
func (f *Fleet) HearStream(ctx context.Context) (*streamed.Peer, error) {
	s := f.cfg.Scenario.Stream
	if f.cfg.API == nil || s == nil {
		return nil, nil
	}
	k, err := streamed.Listen(streamed.Run{API: f.cfg.API, Log: f.cfg.Log, Address: f.facing(), Clock: f.Clock})
	if err != nil {
		return nil, err
	}
	for _, a := range f.agents {
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
