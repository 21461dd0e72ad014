package load

import (
	"cmp"
	"context"
	"crypto/tls"
	"time"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// newSources sets the sources of classes with values or policies.
func (r *run) newSources() error {
	r.plans = judge.SignalsOf(r.cfg.Scenario)
	if p := r.plans.Values; p != nil {
		source := play.NewValues(p)
		for _, c := range r.classes {
			if len(c.spec.Values) > 0 {
				c.source = source
			}
		}
		r.readers = append(r.readers, &play.ValueReader{API: r.cfg.API, Plan: p, Namespace: simulated.Namespace, Name: r.nameOf, Started: r.epoch, Seed: r.cfg.Scenario.Seed})
	}
	p := r.plans.Directives
	if p == nil {
		return nil
	}
	source, err := play.NewDirectives(p, r.epoch.Add(-bootedBefore), func(member int) (tls.Certificate, error) {
		config, err := r.cfg.TLS(r.cfg.Members[member].UID)
		if err != nil {
			return tls.Certificate{}, err
		}
		return config.Certificates[0], nil
	})
	if err != nil {
		return err
	}
	for _, c := range r.classes {
		if len(c.spec.Policies) > 0 {
			c.source = source
		}
	}
	r.readers = append(r.readers, &play.RunReader{API: r.cfg.API, Plan: p, Namespace: simulated.Namespace, Name: func(node int) string { return r.nameOf(p.First + node) }})
	return nil
}

// offers returns how many results the next signal counts as: its values or components, or none if agents also send
// results. Caller holds the lock.
func (a *agent) offers() uint32 {
	if x := a.class.source; x.Unit() == a.run.unit {
		return uint32(x.Weight(a.member, a.ledger.signals))
	}
	return 0
}

// addSignal adds the next signal of the agent's source to a frame, as add does with a result. Nothing waits for
// company. Caller holds the lock.
func (a *agent) addSignal(intended int64) (leaves, began bool) {
	x, r := a.class.source, a.run
	weight := x.Weight(a.member, a.ledger.signals)
	if a.spooled >= r.cfg.Spool {
		a.book.spoolFull(intended, x.Unit(), uint64(weight), a.class.number)
		return false, false
	}
	if f := a.filling; f != nil && f.unit != x.Unit() {
		a.leave(intended)
	}
	f, began := a.fill(intended, x.Unit(), 0)
	before := len(f.signals)
	f.signals = x.AppendSignal(f.signals, a.member, a.ledger.signals, time.Duration(intended)+bootedBefore)
	f.each = append(f.each, sign{intended: intended, end: int32(len(f.signals)), check: signalCheck, digest: uint32(weight)})
	a.ledger.sent++
	a.ledger.signals++
	if a.fate.wrong {
		for _, wrong := range x.Wrong(a.member) {
			wrong.AtMs = r.bootMs(intended)
			f.add(&wrong, &wire.Result{}, intended, wrongCheck)
			a.ledger.sent++
			r.wrong.Add(1)
		}
	}
	a.spooled += len(f.signals) - before
	full := len(f.each)+mostWrong >= wire.MaxSignals || len(f.signals) >= maxFrameBytes
	return full || !a.pace.Slow(time.Duration(intended)) || intended >= a.due(f), began
}

// mostWrong bounds the wrong signals beside one.
const mostWrong = 4

// expectUnused returns an error if the server has signals of an earlier run that make a comparison impossible.
func (r *run) expectUnused(ctx context.Context) error {
	for _, reader := range r.readers {
		if r.cfg.follows() {
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
	if r.heap || len(r.readers) == 0 || r.cfg.AdminURL == "" || r.cfg.follows() {
		return
	}
	r.heap = true
	if heap, err := usage.HeapInUse(ctx, r.cfg.AdminURL); err == nil {
		r.log.Append(observe.Line{At: r.sinceStart(), Heap: heap})
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
	ledgers := append([]observe.Ledgers{r.ledgers()}, r.othersLedgers()...)
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
		if len(r.plans.Findings(ledgers, state, runs)) == 0 || time.Now().After(deadline) || pause.For(ctx, 2*time.Second) != nil {
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
