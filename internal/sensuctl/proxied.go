package sensuctl

import (
	"strconv"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// proxyRequests are the conditions over entities by which a check finds its proxy nodes, where Sensu has
// words for them.
func proxyRequests(c *model.CheckSpec) any {
	p := c.Proxy
	if p == nil || p.Where == "" || len(p.Nodes)+len(p.Groups) > 0 || p.Except != nil {
		return nil
	}
	attributes, ok := sensuimport.Attributes(p.Where)
	if !ok {
		return nil
	}
	return object{"entity_attributes": attributes, "splay": false, "splay_coverage": 0}
}

// thresholds are those of values.
func thresholds(list []model.Threshold) []object {
	out := []object{}
	for i := range list {
		t := &list[i]
		rules := []object{}
		for _, of := range [...]struct {
			bounds *model.Bounds
			status int
		}{{t.Warning, 1}, {t.Critical, 2}, {t.Unknown, 3}} {
			if of.bounds != nil {
				rules = append(rules, object{"min": bound(of.bounds.Min), "max": bound(of.bounds.Max), "status": of.status})
			}
		}
		out = append(out, object{"name": t.Metric, "tags": metricTags(t.Tags), "null_status": map[string]int{"warning": 1, "critical": 2, "unknown": 3}[t.Missing], "thresholds": rules})
	}
	return out
}

func bound(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'g', -1, 64)
}

func metricTags(tags map[string]string) []object {
	out := []object{}
	for _, name := range sorted(tags) {
		out = append(out, object{"name": name, "value": tokensOf(tags[name])})
	}
	return out
}
