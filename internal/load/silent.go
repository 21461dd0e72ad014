package load

import (
	"context"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// arrive records that the machine has a session from now on. Caller holds the lock.
func (a *agent) arrive(now int64) {
	if a.fate.back == nil {
		a.here = now
	}
}

// depart records that the machine has no session from now on.
func (a *agent) depart() {
	if a.here > 0 {
		a.stays = append(a.stays, observe.Stay{From: a.here, To: a.run.now()})
		a.here = 0
	}
}

// present returns the times at which the machine had a session and network, in ns since the run was made. Caller holds
// the lock.
func (a *agent) present() []observe.Stay {
	if a.here == 0 {
		return a.stays
	}
	return append(slices.Clip(a.stays), observe.Stay{From: a.here, To: observe.Lasts})
}

// speaks records that the agent sends something. If the loader itself sent nothing for long, the server reports the
// machine as silent with reason: such times are longer than the mean of keepalive interval and timeout. Caller holds
// the lock.
func (a *agent) speaks(now int64) {
	interval, timeout := a.class.spec.Keepalive.EffectiveTimes()
	if last := max(a.lastSend, a.since); a.since > 0 && now-last > int64(interval+timeout)/2 {
		a.quiet = append(a.quiet, observe.Stay{From: last, To: now})
	}
	a.lastSend = now
}

// calledSilent reads the keepalive problems that opened after all agents had sent keepalives, or returns nil without a
// login or a server.
func (r *run) calledSilent(ctx context.Context) *observe.Silence {
	if r.cfg.API == nil {
		return nil
	}
	ctx, over := r.cfg.ending(ctx)
	defer over()
	s := &observe.Silence{From: int64(r.houseEvery()) + judge.Slack}
	ahead, behind, err := r.awaitHistory(ctx)
	if s.Behind = behind; err == nil {
		s.Problems, err = r.readSilence(ctx, ahead, s.From)
	}
	s.Unread = textOf(becauseOf(ctx, err))
	return s
}

// awaitHistory waits until the server's history includes the drained results, or the drain is over. It returns by how
// much the server's clock is ahead, and the seconds of the end that history lacks.
func (r *run) awaitHistory(ctx context.Context) (ahead time.Duration, lacks float64, err error) {
	began := r.now()
	for {
		asked := r.now()
		st, err := r.cfg.API.Status(ctx, simulated.Namespace)
		if err != nil {
			return 0, 0, err
		}
		ahead = st.Now.Sub(r.epoch) - time.Duration(asked+r.now())/2
		behind := time.Duration(st.Reactions.BehindSeconds * float64(time.Second))
		if missing := time.Duration(r.drained-asked) + behind; st.Reactions.BehindSeconds == 0 || missing <= 0 {
			return ahead, 0, nil
		} else if r.now()-began > int64(r.cfg.drain()) {
			return ahead, missing.Seconds(), nil
		}
		pause.For(ctx, 100*time.Millisecond)
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
	}
}

// readSilence reads the keepalive problems that opened later than from: first those in history, then the open ones,
// because the view has them sooner.
func (r *run) readSilence(ctx context.Context, ahead time.Duration, from int64) (list []observe.Problem, err error) {
	begin := r.begin.Load()
	add := func(node string, p *v1.OpenProblem) (late bool) {
		x := observe.Problem{ID: p.ID, Node: node, Opened: p.Opened, At: int64(p.Opened.Sub(r.epoch)-ahead) - begin}
		list = append(list, x)
		return x.At > from
	}
	for after, more := "", true; more; more = more && after != "" {
		page, err := r.cfg.API.Problems.List(ctx, simulated.Namespace, "", model.KeepaliveCheckName, false, 1000, after)
		if err != nil {
			return nil, err
		}
		for i := range page.Items { // newest first
			more = add(page.Items[i].Node, &page.Items[i].OpenProblem)
		}
		after = page.Next
	}
	err = alerts.OpenProblems(ctx, r.cfg.API, model.KeepaliveCheckName, func(e *v1.Event) {
		if e.Problem != nil {
			add(e.Node, e.Problem)
		}
	})
	return list, err
}
