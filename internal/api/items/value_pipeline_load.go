package items

import (
	"context"
	"fmt"

	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
)

// Load holds the present load of the pipeline that processes item values, such as values per second.
type Load struct {
	Rate    float64 // raw values per second
	Stages  []v1.ValueStage
	Workers []v1.ValueWorker
	Costs   []metric.Cost
}

// shownCosts is the number of items, of triggers and of nodes in an answer.
const shownCosts = 20

// showLoad returns the load of the pipeline that processes item values. It has the counters of each stage, the load of
// workers, and the most expensive items, triggers and nodes.
func (s *itemRequest) showLoad(_ context.Context, _ *struct{}) (*op.Body[v1.ValueLoad], error) {
	load := s.Load(shownCosts)
	out := v1.ValueLoad{At: s.Now().UTC(), Rate: load.Rate, Stages: load.Stages, Workers: load.Workers, Costs: []v1.ValueCost{}}
	for _, c := range load.Costs {
		one := v1.ValueCost{Name: c.Name, Rate: c.Rate, Seconds: c.Seconds}
		visible := false
		switch c.Kind {
		case metric.NodeCost:
			one.Kind = "node"
			one.Namespace, one.Name, visible = s.Directory.NodeName(c.Node)
		case metric.TriggerCost:
			one.Kind = "trigger"
			one.Namespace, one.Template, visible = s.Directory.SourceName(model.TriggerSource(c.Template, ""))
		default:
			one.Kind = "item"
			if c.Kind == metric.StepCost {
				one.Kind, one.Name = "step", fmt.Sprintf("%s, step %d", c.Name, c.Step)
			}
			one.Namespace, one.Template, visible = s.Directory.SourceName(model.TriggerSource(c.Template, ""))
		}
		if visible {
			out.Costs = append(out.Costs, one)
		}
	}
	return op.Answer(out), nil
}
