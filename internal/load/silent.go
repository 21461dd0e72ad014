package load

import (
	"context"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// stay is a time that a machine was on the network with a session, ns since the run was made.
type stay struct{ from, to int64 }

// arrive begins a stay, depart ends it. Caller holds the lock.
func (a *agent) arrive(now int64) {
	if a.fate.back == nil {
		a.here = now
	}
}

func (a *agent) depart() {
	if a.here > 0 {
		a.stays = append(a.stays, stay{a.here, a.run.now()})
		a.here = 0
	}
}

// wasHere says whether a machine had a session at an instant, and had had it for a while: a
// silence that its coming ended may be told of a moment later.
func (a *agent) wasHere(at int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.here > 0 && at > a.here+slack ||
		slices.ContainsFunc(a.stays, func(s stay) bool { return at > s.from+slack && at <= s.to })
}

// speaks notes that something is sent. A server is right to call a machine silent of which it heard
// nothing because this loader did not come to send it: so is every time longer than half-way from
// when a sign of life is due to when it is missed. Caller holds the lock.
func (a *agent) speaks(now int64) {
	interval, timeout := a.class.spec.Keepalive.EffectiveTimes()
	if last := max(a.lastSend, a.since); a.since > 0 && now-last > int64(interval+timeout)/2 {
		a.quiet = append(a.quiet, stay{last, now})
	}
	a.lastSend = now
}

// wasQuiet says whether this loader had not sent what a machine should have said.
func (a *agent) wasQuiet(at int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.quiet, func(s stay) bool { return at > s.from && at <= s.to+slack })
}

// calledSilent reads what the server said of machines from the time on at which all of them
// were sending signs of life; nil: there is no login, or no server.
func (r *run) calledSilent(ctx context.Context) *report.Silent {
	if r.cfg.API == nil {
		return nil
	}
	s := &report.Silent{Machines: len(r.agents) + len(r.theirs)}
	ctx, over := r.cfg.ending(ctx)
	defer over()
	ahead, err := r.awaitHistory(ctx, s)
	if err == nil {
		err = r.readSilence(ctx, s, ahead)
	}
	if err != nil {
		s.Unjudged = becauseOf(ctx, err).Error()
	}
	return s
}

// awaitHistory waits until the server's history holds what was drained, or for as long as
// draining may take. It returns by how much the server's clock is ahead.
func (r *run) awaitHistory(ctx context.Context, s *report.Silent) (ahead time.Duration, err error) {
	began := r.now()
	for {
		asked := r.now()
		st, err := r.cfg.API.Status(ctx, simulated.Namespace)
		if err != nil {
			return 0, err
		}
		ahead = st.Now.Sub(r.epoch) - time.Duration(asked+r.now())/2
		behind := time.Duration(st.Reactions.BehindSeconds * float64(time.Second))
		if missing := time.Duration(r.drained-asked) + behind; st.Reactions.BehindSeconds == 0 || missing <= 0 {
			return ahead, nil
		} else if r.now()-began > int64(r.cfg.drain()) {
			s.Behind = missing.Seconds()
			return ahead, nil
		}
		pause.For(ctx, 100*time.Millisecond)
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}

// readSilence judges the problems of history, then those that are open now: the view knows them
// sooner.
func (r *run) readSilence(ctx context.Context, s *report.Silent, ahead time.Duration) error {
	agents := map[string]*agent{}
	for _, a := range slices.Concat(r.agents, r.theirs) {
		agents[ownName(a.called())] = a
	}
	from := r.begin.Load() + int64(r.houseEvery()) + slack
	seen := map[string]bool{}
	judge := func(node string, p *v1.OpenProblem) (late bool) {
		at := int64(p.Opened.Sub(r.epoch) - ahead)
		if a := agents[ownName(node)]; a != nil && at > from && !seen[p.ID] && a.wasHere(at) {
			seen[p.ID] = true
			if a.wasQuiet(at) {
				s.Quiet++
				return at > from
			}
			s.Extra++
			s.Example = node + " at " + p.Opened.UTC().Format(time.TimeOnly) + " UTC"
		}
		return at > from
	}
	for after, more := "", true; more; more = more && after != "" {
		page, err := r.cfg.API.Problems.List(ctx, simulated.Namespace, "", model.KeepaliveCheckName, false, 1000, after)
		if err != nil {
			return err
		}
		for i := range page.Items { // newest first
			more = judge(page.Items[i].Node, &page.Items[i].OpenProblem)
		}
		after = page.Next
	}
	return r.openProblems(ctx, model.KeepaliveCheckName, func(e *v1.Event) {
		if e.Problem != nil {
			judge(e.Node, e.Problem)
		}
	})
}

// openProblems shows the events of a check that have a problem now.
func (r *run) openProblems(ctx context.Context, check string, fn func(*v1.Event)) error {
	filter := v1.EventFilter{Namespace: simulated.Namespace, Check: check, Problem: true, Limit: 500}
	for {
		page, err := r.cfg.API.Events.List(ctx, filter)
		if err != nil {
			return err
		}
		for i := range page.Items {
			fn(&page.Items[i])
		}
		if filter.After = page.Next; filter.After == "" {
			return nil
		}
	}
}
