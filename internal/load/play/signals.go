package play

import (
	"crypto/tls"
	"time"

	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/wire"
)

// newSources sets the sources of classes with values or policies.
func (f *Fleet) newSources() error {
	f.Values, f.Directives = plan.New(f.cfg.Scenario), plan.NewDirectives(f.cfg.Scenario)
	if p := f.Values; p != nil {
		source := NewValues(p)
		for _, c := range f.classes {
			if len(c.spec.Values) > 0 {
				c.source = source
			}
		}
	}
	p := f.Directives
	if p == nil {
		return nil
	}
	source, err := NewDirectives(p, f.Epoch.Add(-bootedBefore), func(member int) (tls.Certificate, error) {
		config, err := f.cfg.TLS(f.cfg.Members[member].UID)
		if err != nil {
			return tls.Certificate{}, err
		}
		return config.Certificates[0], nil
	})
	if err != nil {
		return err
	}
	for _, c := range f.classes {
		if len(c.spec.Policies) > 0 {
			c.source = source
		}
	}
	return nil
}

// Readers returns a reader for the values, and one for the runs of directives, if agents send some.
func (f *Fleet) Readers() (list []Reader) {
	if p := f.Values; p != nil {
		list = append(list, &ValueReader{API: f.cfg.API, Plan: p, Namespace: simulated.Namespace, Name: f.Called, Started: f.Epoch, Seed: f.cfg.Scenario.Seed})
	}
	if p := f.Directives; p != nil {
		list = append(list, &RunReader{API: f.cfg.API, Plan: p, Namespace: simulated.Namespace, Name: func(node int) string { return f.Called(p.First + node) }})
	}
	return list
}

// offers returns how many results the next signal counts as: its values or components, or none if agents also send
// results. Caller holds the lock.
func (a *agent) offers() uint32 {
	if x := a.class.source; x.Unit() == a.fleet.unit {
		return uint32(x.Weight(a.member, a.ledger.Signals))
	}
	return 0
}

// addSignal adds the next signal of the agent's source to a frame, as add does with a result. Values do not linger, because an agent
// sends those of a second together. Caller holds the lock.
func (a *agent) addSignal(intended int64) (leaves, began bool) {
	x, fleet := a.class.source, a.fleet
	weight := x.Weight(a.member, a.ledger.Signals)
	if a.spooled >= fleet.cfg.Spool {
		a.book.spoolFull(intended, x.Unit(), uint64(weight), a.class.number)
		return false, false
	}
	if f := a.filling; f != nil && f.unit != x.Unit() {
		a.leave(intended)
	}
	linger := a.class.linger
	if x.Unit() == report.Value {
		linger = 0
	}
	f, began := a.fill(intended, x.Unit(), linger)
	before := len(f.signals)
	f.signals = x.AppendSignal(f.signals, a.member, a.ledger.Signals, time.Duration(intended)+bootedBefore)
	f.each = append(f.each, sign{intended: intended, end: int32(len(f.signals)), check: signalCheck, digest: uint32(weight)})
	a.ledger.Sent++
	a.ledger.Signals++
	if a.fate.wrong {
		for _, wrong := range x.Wrong(a.member) {
			wrong.AtMs = fleet.bootMs(intended)
			f.add(&wrong, &wire.Result{}, intended, wrongCheck)
			a.ledger.Sent++
			fleet.note(func(n *notes) { n.counts.Wrong++ })
		}
	}
	a.spooled += len(f.signals) - before
	full := len(f.each)+mostWrong >= wire.MaxSignals || len(f.signals) >= maxFrameBytes
	if a.pace.IsSlowed(time.Duration(intended)) {
		return full || intended >= a.due(f), began
	}
	return full || linger == 0, began
}

// mostWrong bounds the wrong signals beside one.
const mostWrong = 4
