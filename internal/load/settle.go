package load

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// firstWord limits how long a server may send nothing while the baseline is read. It may have millions of states: as
// long as they come, the run waits.
const firstWord = time.Minute

// readBaseline reads the event states on the server before the run; without a view it returns none.
func (r *run) readBaseline(ctx context.Context) (before observe.States, err error) {
	if r.cfg.Before == nil {
		return nil, nil
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := time.AfterFunc(firstWord, func() { end(r.hangs()) })
	defer silence.Stop()
	err = r.cfg.Before(ctx, func(k observe.EventState) error {
		silence.Reset(firstWord)
		before.Add(k)
		return nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("read the view: %w", err)
	}
	return before, nil
}

// hangs returns the error of a server that sends no baseline.
func (r *run) hangs() error {
	err := model.Errorf(model.Unavailable, "the server does not say what it holds: nothing came for %s, and nothing was sent to it", firstWord)
	if r.cfg.AdminURL == "" {
		return err.WithHint("muster status says whether it is well")
	}
	return err.WithHint("curl --max-time 10 %s/readyz says whether it is well", r.cfg.AdminURL)
}

// endWithin limits each request after the last result, in addition to the drain, so that a server that hangs does not
// hang the run.
const endWithin = 2 * time.Minute

// ending returns a context for one request after the last result.
func (c *Config) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := c.drain() + endWithin
	return context.WithTimeoutCause(ctx, limit, model.Errorf(model.Unavailable, "that was not over after %s", limit))
}

// becauseOf returns the cause of the end of ctx if it ended, else err.
func becauseOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// settle waits until the server's event states agree with the ledgers: its view may still be applying the last commits. A
// difference is believed once it stays the same for two seconds. It writes the ledgers and the event states to the log, and
// returns the reason why the event states could not be read.
func (r *run) settle(ctx context.Context, rep *reporting, before observe.States) error {
	if r.target != nil {
		return r.settleTarget(ctx, rep)
	}
	ctx, over := r.cfg.ending(ctx)
	defer over()
	last, same := uint64(0), 0
	for {
		own := r.fleet.Ledgers()
		ledgers := append([]observe.Ledgers{own}, r.othersLedgers()...)
		after, b, err := r.compare(ctx, ledgers, before)
		if err == nil && !b.OK() && same < 2 {
			if now := b.Imbalances + b.Missing; now != last {
				last, same = now, 0
			}
			same++
			if pause.For(ctx, time.Second) == nil {
				continue
			}
		}
		for _, line := range own.Lines(0) {
			r.log.Append(line)
		}
		for _, chunk := range before {
			r.log.Append(observe.Line{View: &observe.View{Before: chunk}})
		}
		for _, chunk := range after {
			r.log.Append(observe.Line{View: &observe.View{After: chunk}})
		}
		r.log.Append(observe.Line{View: &observe.View{Whole: err == nil && r.cfg.Before != nil}})
		return becauseOf(ctx, err)
	}
}

// compare reads the server's event states and compares them with ledgers. The agents must be at rest.
func (r *run) compare(ctx context.Context, ledgers []observe.Ledgers, before observe.States) (after observe.States, b *report.Balance, err error) {
	if r.cfg.Before == nil {
		return nil, judge.Sums(ledgers), nil
	}
	c, err := judge.Compare(ledgers, before)
	if err == nil {
		err = r.cfg.Before(ctx, func(s observe.EventState) error {
			after.Add(s)
			c.State(s)
			return nil
		})
	}
	if err != nil {
		return nil, nil, err
	}
	return after, c.Balance(), nil
}

// calledSilent reads the keepalive problems that opened after all agents had sent keepalives, or returns nil without a
// login or a server.
func (r *run) calledSilent(ctx context.Context) *observe.Silence {
	if r.cfg.API == nil {
		return nil
	}
	ctx, over := r.cfg.ending(ctx)
	defer over()
	s := &observe.Silence{From: int64(play.HouseEvery(r.cfg.Scenario)) + observe.Slack}
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
	began := r.Now()
	for {
		asked := r.Now()
		st, err := r.cfg.API.Status(ctx, simulated.Namespace)
		if err != nil {
			return 0, 0, err
		}
		ahead = st.Now.Sub(r.Epoch) - time.Duration(asked+r.Now())/2
		behind := time.Duration(st.Reactions.BehindSeconds * float64(time.Second))
		if missing := time.Duration(r.drained-asked) + behind; st.Reactions.BehindSeconds == 0 || missing <= 0 {
			return ahead, 0, nil
		} else if r.Now()-began > int64(r.cfg.drain()) {
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
	begin := r.Begin()
	add := func(node string, p *v1.OpenProblem) (late bool) {
		x := observe.Problem{ID: p.ID, Node: node, Opened: p.Opened, At: int64(p.Opened.Sub(r.Epoch)-ahead) - begin}
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

// expectUnused returns an error if the server has signals of an earlier run that make a comparison impossible.
func (r *run) expectUnused(ctx context.Context) error {
	for _, reader := range r.readers {
		if r.cfg.Follows() {
			return nil // the lead asks
		}
		if err := reader.Unused(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureHeap logs the server's heap, once.
func (r *run) measureHeap(ctx context.Context) {
	if r.heap || len(r.readers) == 0 || r.cfg.AdminURL == "" || r.cfg.Follows() {
		return
	}
	r.heap = true
	if heap, err := usage.HeapInUse(ctx, r.cfg.AdminURL); err == nil {
		r.log.Append(observe.Line{At: r.SinceBegin(), Heap: heap})
	}
}

// appliedWithin is the longest time until the server has applied the signals that it acknowledged.
const appliedWithin = time.Minute

// readSignals logs the values and directives that the server has, once none is missing or the time for that is over.
func (r *run) readSignals(ctx context.Context) error {
	if len(r.readers) == 0 {
		return nil
	}
	r.awaitApplied(ctx)
	plans := judge.Signals{Values: r.fleet.Values, Directives: r.fleet.Directives}
	ledgers := append([]observe.Ledgers{r.fleet.Ledgers()}, r.othersLedgers()...)
	for deadline := time.Now().Add(appliedWithin); ; {
		var lines []observe.Line
		var state *observe.State
		var runs *observe.Runs
		for _, reader := range r.readers {
			line, err := reader.Read(ctx)
			if err != nil {
				return err
			}
			lines, state, runs = append(lines, line), cmp.Or(state, line.State), cmp.Or(runs, line.Runs)
		}
		if len(plans.Findings(ledgers, state, runs)) == 0 || time.Now().After(deadline) || pause.For(ctx, 2*time.Second) != nil {
			for _, line := range lines {
				r.log.Append(line)
			}
			return ctx.Err()
		}
	}
}

// awaitApplied waits until the server applies no more signals.
func (r *run) awaitApplied(ctx context.Context) {
	last := -1.0
	for range int(appliedWithin / time.Second) {
		m := r.metrics()
		now := m["muster_metric_values_total"] + m["muster_metric_verdicts_total"] + m["muster_event_signals_received_total"]
		if now == last || pause.For(ctx, time.Second) != nil {
			return
		}
		last = now
	}
}
