package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/preflight"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/pause"
)

// TargetPlays returns an Unsupported error if RunTarget cannot play a scenario against a target, else nil.
func TargetPlays(sc *scenario.Scenario, t play.Target) error {
	plays := []string{"results", "keepalives", "output-sizes", "tls", "fleet-of-servers"} // the addresses decide about TLS, and there may be several
	return sc.Refused(plays, "target "+t.Name(), "the system under test keeps the time, and its agents only answer", "a scenario with a ramp, steady phases and a drain: muster load show sensu-4000x8x5s")
}

// leaveOut removes goals whose figure depends on acknowledgements, or on metrics of Muster, and returns labels that say so.
func (c *Config) leaveOut(against string) (labels []string) {
	var left []string
	c.Goals = slices.DeleteFunc(slices.Clone(c.Goals), func(g report.Goal) bool {
		measured := slices.Contains([]string{"rate", "connect", "machine", "server-cpu", "loader-memory"}, g.Name)
		if !measured {
			left = append(left, g.Name)
		}
		return !measured
	})
	if slices.Sort(left); len(left) > 0 {
		labels = []string{fmt.Sprintf("not measured against %s, and not judged: %s", against, strings.Join(slices.Compact(left), ", "))}
	}
	return labels
}

// RunTarget plays a scenario's ramp, steady phases and drain against another system, and compares what that holds
// with what was sent.
//
// Of the configuration, Scenario, Goals, MaxLag, ServerPID, Stop, Begun, Played and Progress count, AdminURL,
// where what runs there is Muster, and Server for the ports that are needed: host:port of each address, with commas
// between them.
func RunTarget(ctx context.Context, c Config, t play.Target) (rep *report.Report, err error) {
	if err := TargetPlays(c.Scenario, t); err != nil {
		return nil, err
	}
	if c, err = c.asked(t); err != nil {
		return nil, err
	}
	if err := preflight.Check(c.before()); err != nil {
		return nil, err
	}
	version, err := t.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	r := undriven(c)
	r.target = play.NewTargeted(r.Clock, c.Options, t)
	r.driver, r.version = r.target, version
	rep, err = r.do(ctx)
	cleaning, over := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer over()
	if bad := t.Clean(cleaning); bad != nil && rep != nil {
		rep.Label = append(rep.Label, fmt.Sprintf("what the run made on %s is not all gone: %v", t.Name(), bad))
	}
	return rep, err
}

// asked fills in the configuration of a run against a target.
func (c Config) asked(t play.Target) (Config, error) {
	c.Members = simulated.Members(c.Scenario)
	c.Sources = (len(c.Members) + 19_999) / 20_000 // as its agents do on loopback
	c.MaxLag = cmp.Or(c.MaxLag, report.UsualLag)
	c.Joint, c.Bare, c.API, c.Before = Alone{}, Resident(), nil, nil
	// The objective loader-memory is of Muster's agents: others take more, and --goal asks it of them.
	if err := c.takeObjectives([]string{"loader-memory"}); err != nil {
		return c, err
	}
	c.labels = c.leaveOut(t.Name())
	return c, nil
}

// describeTarget adds the target and its limits to the report.
func (r *run) describeTarget(rep *reporting) {
	t := r.target
	rep.Targeted = &report.Targeted{Name: t.Name(), Version: r.version}
	rep.Label = append(rep.Label, fmt.Sprintf("target: %s %s", t.Name(), r.version),
		"steady phases only: no other rates, steps, churn, faults, operators and intent are played; beside a run of the same scenario against Muster stand results, ledger and what was used, not latency",
		"nothing is acknowledged: latency is from a request's time of issue, in whole seconds, until its result had left")
	if rep.Plan.TLS && !t.Secured() {
		rep.Label = append(rep.Label, "without TLS: the scenario has it, and the address is ws://")
	}
	rep.Plan.TLS = t.Secured()
}

// settleTarget compares the target's events with the sent results until they agree or the drain is over.
func (r *run) settleTarget(ctx context.Context, rep *reporting) error {
	ctx, over := r.cfg.ending(ctx)
	defer over()
	end := time.Now().Add(r.cfg.drain())
	for {
		b := &report.Balance{}
		states, kept, err := r.target.Compare(ctx, func(i report.Imbalance, problem string) {
			b.Differ++
			b.Add(i, "%s", problem)
		})
		t := r.target.Totals()
		if err != nil {
			rep.Balance, rep.Targeted.Totals = &report.Balance{Sent: t.Sent, Unsure: t.Sent}, t
			return becauseOf(ctx, err)
		}
		b.Sent, b.Acknowledged, b.Compared, b.Unsure = t.Sent, kept, states, t.Sent-t.Written
		b.Missing = t.Written - min(kept, t.Written)
		rep.Balance, rep.Targeted.Totals, rep.States = b, t, uint64(states)
		if b.OK() || time.Now().After(end) {
			return nil
		}
		if err := pause.For(ctx, min(time.Second, r.cfg.drain()/4)); err != nil {
			return nil // the last comparison counts
		}
	}
}
