package metric

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestCostsFindHotItem applies values of an expensive and a cheap item, and expects the expensive item first. Both
// have the costs of their trigger and node.
func TestCostsFindHotItem(t *testing.T) {
	v := newTestView()
	document := item.FromText(`{"list": [` + strings.Repeat(`{"a": 1}, `, 200) + `0], "last": 5}`)
	for number := range uint64(3000) {
		testenv.NoError(t, v.shard.Apply(&testCommit{number + 1, [][]byte{v.values(10, item.FromFloat(1), document)}}))
	}
	costs := map[string]Cost{}
	steps := 0
	for _, c := range v.Costs(5) {
		if c.Kind == StepCost {
			if steps++; c.Name != "status" || c.Step != 1 || c.Seconds <= 0 {
				t.Errorf("the slowest step %+v", c)
			}
			continue
		}
		if _, twice := costs[c.Name]; twice {
			t.Errorf("%s comes twice", c.Name)
		}
		costs[c.Name] = c
	}
	hot, plain, trigger, node := costs["status"], costs["load"], costs["high"], costs[""]
	if hot.Seconds < 5*plain.Seconds || plain.Seconds <= 0 || hot.Rate <= 0 || hot.Template != 1000 {
		t.Errorf("the hot item %+v, the plain one %+v", hot, plain)
	}
	if trigger.Kind != TriggerCost || trigger.Rate <= 0 || node.Kind != NodeCost || node.Node != 7 || node.Seconds < hot.Seconds {
		t.Errorf("trigger %+v, node %+v", trigger, node)
	}
	if sum := hot.Rate + plain.Rate; node.Rate < sum*0.99 || node.Rate > sum*1.01 {
		t.Errorf("the node has %v values per second, its items %v", node.Rate, sum)
	}
	if first := v.Costs(1); steps != 1 || len(first) != 4 || first[0].Node != 7 || first[1].Name != "status" {
		t.Errorf("the first of each kind: %+v", first)
	}
}
