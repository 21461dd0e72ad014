package app

import (
	"github.com/muster-fleet/muster/internal/api/items"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// valueLoad returns the load of the pipeline that processes item values. It has the counters of its stages, its
// workers, and the costs of items.
func (p *pipeline) valueLoad(most int) items.Load {
	applied, stored, rules := p.metrics.Counts(), p.series.Counts(), p.rules.Counts()
	_, waits := p.stepTurns.Counts()
	out := items.Load{Rate: p.metrics.ValuesPerSecond(), Costs: p.metrics.Costs(most), Stages: []v1.ValueStage{
		{Name: "raw values applied", Total: applied.Values},
		{Name: "of these without a value (unsupported)", Total: applied.Unsupported},
		{Name: "samples of remote write, rules and checks applied", Total: applied.Samples},
		{Name: "values computed of several nodes or by the server", Total: p.computed.Count()},
		{Name: "numbers stored", Total: stored.Values},
		{Name: "numbers refused by the store", Total: stored.Doubled + stored.Late + stored.Dense + stored.Unbounded + stored.Crowded},
		{Name: "late numbers that may share their time with another", Total: stored.Unchecked},
		{Name: "verdicts of triggers written", Total: applied.Verdicts},
		{Name: "batches of slow nodes that waited for others", Total: waits},
		{Name: "rules evaluated", Total: rules.Evaluated},
		{Name: "rules failed or missed", Total: rules.Failed + rules.Missed},
	}}
	if p.remote != nil {
		out.Stages = append(out.Stages, v1.ValueStage{Name: "numbers sent by remote write", Total: p.remote.Sent()})
	}
	for number, w := range p.view.WorkerLoads() {
		out.Workers = append(out.Workers, v1.ValueWorker{Number: number, BusySeconds: w.Busy.Seconds(), Queued: w.Queued})
	}
	return out
}
