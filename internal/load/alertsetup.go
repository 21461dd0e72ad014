package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/streamed"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// alertHandler is the handler by which a run hears of the checks that its faults let fail, and
// of those that its scenario wants told; alertRoute is the route that names it, for those that
// ask for one.
const (
	alertHandler = "load-alerts"
	alertRoute   = "load-alerts"
	alertsOf     = "alerts of a load run" // why they are written
)

// listened are the checks of which a run hears, as they are called on the server, each with
// the way in which it is told.
func listened(sc *scenario.Scenario) map[string]string {
	names := map[string]string{}
	for name := range failing(sc) {
		names[name] = scenario.ByHandler
	}
	for _, k := range sc.Placed() {
		for n := range max(1, k.Count) {
			if k.Alert != "" {
				names[k.FullName(n)] = k.Alert
			}
		}
	}
	return names
}

// alertOf is what a check says that is told so.
func alertOf(how string) *model.Alert {
	if how == scenario.ByRoute {
		return &model.Alert{Route: alertRoute}
	}
	return &model.Alert{Handlers: []string{alertHandler}}
}

// ways are the handler and, where a check asks for it, the route that tells each problem by
// itself and at once.
func (al *alarms) ways(names map[string]string) []model.Resource {
	list := []model.Resource{simulated.Resource(model.Metadata{Name: alertHandler, Namespace: simulated.Namespace}, &model.HandlerSpec{Webhook: &model.Webhook{URL: al.url()}})}
	for _, how := range names {
		if how == scenario.ByRoute {
			at := model.Duration(0)
			return append(list, simulated.Resource(model.Metadata{Name: alertRoute, Namespace: simulated.Namespace},
				&model.RouteSpec{GroupBy: []string{"node", "check"}, GroupWait: &at, Steps: []model.RouteStep{{To: []string{alertHandler}}}}))
		}
	}
	return list
}

// failing are the checks that a scenario's faults let fail, as they are called on the
// server.
func failing(sc *scenario.Scenario) map[string]bool {
	names := map[string]bool{}
	for i := range sc.Faults {
		if f := sc.Faults[i].Fail; f != nil {
			for _, name := range sc.Failing(f) {
				names[name] = true
			}
		}
	}
	return names
}

// stopping says whether machines die without a word.
func stopping(sc *scenario.Scenario) bool {
	return slices.ContainsFunc(sc.Faults, func(f scenario.Fault) bool { return f.Stop != nil })
}

// hearAlerts arranges that the run hears of what its faults bring about. It is nil where
// they bring about no alerts, and where nobody is logged in.
func (r *run) hearAlerts(ctx context.Context) (*alarms, error) {
	stops := stopping(r.cfg.Scenario)
	struck, names := failing(r.cfg.Scenario), listened(r.cfg.Scenario)
	if r.cfg.API == nil || !stops && len(names) == 0 {
		return nil, nil
	}
	al, err := newAlarms(r)
	if err != nil {
		return nil, err
	}
	for _, a := range r.agents {
		if stops {
			al.watchMachine(a.name)
		}
		for name, check := range a.class.index {
			if k := &a.class.checks[check]; (struck[name] || k.tells) && k.about == nil { // of all that hold it: its handler is told of each
				al.watchCheck(a, check, struck[name])
			}
		}
	}
	for _, c := range r.classes {
		for name, check := range c.index {
			if k := &c.checks[check]; struck[name] && k.about != nil {
				al.watchPairs(k)
			}
		}
	}
	go func() { _ = al.server.Serve(al.listener) }() // until end
	if len(names) == 0 {
		return al, nil
	}
	if err := al.inherit(ctx, names); err != nil {
		al.server.Close()
		return nil, err
	}
	if err := simulated.Apply(ctx, al.run.cfg.API, alertsOf, append(al.ways(names), al.checksWith(names, alertOf)...)...); err != nil {
		al.server.Close()
		return nil, fmt.Errorf("set up the handler that hears of problems: %w", err)
	}
	return al, nil
}

// inherit finds states that have a problem from before the run: whether its end is told is
// not this run's to say.
func (al *alarms) inherit(ctx context.Context, names map[string]string) error {
	for name := range names {
		err := al.run.openProblems(ctx, name, func(e *v1.Event) {
			if w := al.checks[observe.OwnName(e.Node)+"/"+name]; w != nil {
				w.unknown()
			}
		})
		if err != nil {
			return fmt.Errorf("read the problems of check %s: %w", name, err)
		}
	}
	return nil
}

// begin follows the machines from now on: all have their sessions.
func (al *alarms) begin(ctx context.Context) {
	if al == nil || len(al.machines) == 0 {
		return
	}
	ctx, al.stop = context.WithCancel(ctx)
	al.following.Go(func() { al.follow(ctx) })
}

// end takes the handler away again and hears no more.
func (al *alarms) end() {
	if al == nil {
		return
	}
	al.stop()
	al.following.Wait()
	al.server.Close()
	names := listened(al.run.cfg.Scenario)
	if len(names) == 0 {
		return
	}
	ctx, over := context.WithTimeout(context.Background(), 10*time.Second)
	defer over()
	errs := []error{simulated.Apply(ctx, al.run.cfg.API, alertsOf, al.checksWith(names, func(string) *model.Alert { return nil })...)}
	ways := al.ways(names)
	for i := len(ways) - 1; i >= 0; i-- { // the route names the handler
		k, _ := kind.All().Of(ways[i].Kind)
		_, err := al.run.cfg.API.Resources.Delete(ctx, k.KindInfo, simulated.Namespace, ways[i].Metadata.Name, "", "the load run is over", 0, false, true)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		al.run.cfg.Log.Warn("the handler of a load run stays on the server", "handler", simulated.Namespace+"/"+alertHandler, "error", err)
	}
}

// checksWith are some of the scenario's checks, each with what alert says of the way in which
// it is told.
func (al *alarms) checksWith(names map[string]string, alert func(how string) *model.Alert) (list []model.Resource) {
	for _, r := range simulated.Resources(al.run.cfg.Scenario) {
		if spec, isCheck := r.Spec.(*model.CheckSpec); isCheck && names[r.Metadata.Name] != "" {
			spec.Alert = alert(names[r.Metadata.Name])
			list = append(list, r)
		}
	}
	return list
}

// watchCheck follows a state whose check has the handler.
func (al *alarms) watchCheck(a *agent, check int, fails bool) {
	k := &a.class.checks[check]
	w := &witness{name: a.name + "/" + k.full, fails: fails, tells: k.tells}
	al.mu.Lock()
	defer al.mu.Unlock()
	al.checks[w.name] = w
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ledger.watched == nil {
		a.ledger.watched = map[int16]*witness{}
	}
	a.ledger.watched[int16(check)] = w
}

// watchMachine follows a machine's keepalive.
func (al *alarms) watchMachine(node string) {
	al.mu.Lock()
	defer al.mu.Unlock()
	al.machines[node] = &machineWitness{witness: witness{name: node + "/" + model.KeepaliveCheckName}}
}

// patience is for how long alerts that have to come are waited for, after the last one
// that came: a delivery that failed is tried again after seconds.
const patience = 15 * time.Second

// conclude waits until nothing is missing any more, or nothing has come for a while, and
// hears of machines no more: they are about to fall silent.
func (al *alarms) conclude(ctx context.Context, d *faultScript) {
	if al == nil {
		return
	}
	ctx, over := al.run.cfg.ending(ctx)
	defer over()
	began := al.run.now()
	for al.missing(d) && ctx.Err() == nil {
		al.mu.Lock()
		quiet := al.run.now() - max(began, al.heard)
		al.mu.Unlock()
		if quiet > int64(patience) {
			break
		}
		pause.For(ctx, 200*time.Millisecond)
	}
	al.stop()
	al.following.Wait()
	al.run.log.Append(observe.Line{Alerts: al.seen(d)})
}

// missing reports whether alerts have not come yet.
func (al *alarms) missing(d *faultScript) bool {
	seen := al.seen(d)
	_, missing := judge.Alerts(seen)
	return missing > 0 || judge.Messages(seen, al.run.since, nil).Missing > 0
}

// seen returns the alerts so far, and the strikes that they are of.
func (al *alarms) seen(d *faultScript) *observe.Alerts {
	d.mu.Lock()
	defer d.mu.Unlock()
	al.mu.Lock()
	defer al.mu.Unlock()
	begin := al.run.begin.Load()
	out, index := &observe.Alerts{End: al.run.now() - begin, Again: al.again, Strangers: al.strangers, Stranger: al.stranger}, map[*witness]int{}
	for _, name := range slices.Sorted(maps.Keys(al.checks)) {
		index[al.checks[name]] = len(out.States)
		out.States = append(out.States, al.checks[name].seen(begin))
	}
	for _, name := range slices.Sorted(maps.Keys(al.machines)) {
		m := &al.machines[name].witness
		index[m] = len(out.States)
		state := m.seen(begin)
		state.Machine = true
		out.States = append(out.States, state)
	}
	for _, a := range al.run.agents {
		a.mu.Lock()
		if a.ledger.gone {
			for _, w := range a.ledger.watched {
				out.States[index[w]].Gone = true
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
			out.Strikes = append(out.Strikes, al.strike(d, x, row, index))
		}
		row++
	}
	return out
}

// strike returns a strike whose alerts are judged. Caller holds the locks of script and alarms.
func (al *alarms) strike(d *faultScript, x *strike, row int, index map[*witness]int) observe.Strike {
	begin := al.run.begin.Load()
	s := observe.Strike{Fault: row, At: x.at - begin}
	if x.until > 0 {
		s.Until = x.until - begin
	}
	for _, a := range x.agents {
		a.mu.Lock()
		if x.fault.Stop == nil {
			for _, c := range x.checks[a.class] {
				s.States = append(s.States, index[a.ledger.watched[int16(c)]])
			}
			a.mu.Unlock()
			continue
		}
		m := al.machines[observe.OwnName(a.name)]
		a.mu.Unlock()
		_, timeout := a.class.spec.Keepalive.EffectiveTimes()
		s.Timeout = int64(timeout)
		s.States = append(s.States, index[&m.witness])
		if !a.attended(x.at, x.at) {
			s.Offline = append(s.Offline, index[&m.witness])
		}
	}
	for _, p := range x.pairs {
		s.States = append(s.States, index[p.watched])
	}
	s.Unsure = x.fault.Stop != nil && d.serverAway(x.at, cmp.Or(x.until, al.run.now()))
	return s
}

// awayTimes returns the times in which the script had the server away, since an instant.
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

// serverAway says whether the script had the server itself away at some time from one
// instant to another. Caller holds the lock.
func (d *faultScript) serverAway(from, to int64) bool {
	return slices.ContainsFunc(d.strikes, func(x *strike) bool { return x.away(from, to) })
}

// attended says whether the machine had a session all the time.
func (a *agent) attended(from, to int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.present(), func(s observe.Stay) bool { return s.From <= from && s.To >= to })
}

// numbers are those of its signals.
func (a *agent) numbers() streamed.Numbers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return streamed.Numbers{Settled: a.ledger.settled(), Sent: a.ledger.shown, Given: a.ledger.sent}
}

// line is what has to be told of a result. Caller holds the lock.
func (a *agent) line(s *sign) *streamed.Result {
	k := &a.class.checks[s.check]
	r := &streamed.Result{Node: observe.OwnName(a.name), Check: k.full, Status: s.status.String(), At: s.intended}
	if s.about > 0 {
		r.Node = k.about.names[s.about-1]
	}
	return r
}

// hearStream arranges that the run is told of every result. It is nil where the scenario
// does not ask for it, and where nobody is logged in.
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
