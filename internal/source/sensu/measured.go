package sensu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/measure"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wire"
)

// valuesOf are the values of a check's event: its points, where it has any, or those that its
// output has in the check's format. A command that could not say how it is has none.
func (x *session) valuesOf(said *sensuwire.Said, c *model.CheckChunk) (values []model.Value, err error) {
	var tags map[string]string
	if c.Metrics != nil {
		tags = c.Metrics.Tags
	}
	if said.Metrics {
		if values, err = x.points(said, tags); err != nil {
			return nil, err
		}
		if most := model.MaxValues; len(values) > most {
			x.srv.metrics.valuesLost.Add(float64(len(values) - most))
			values = values[:most]
		}
	}
	if values == nil && c.Metrics != nil && said.Status <= uint32(model.Unknown) {
		values, _ = measure.Parse(c.Metrics.Format, said.Output, false, tags)
	}
	return values, nil
}

// points are those of an event's metrics that can be values; the others are counted.
func (x *session) points(said *sensuwire.Said, tags map[string]string) (values []model.Value, err error) {
	err = x.codec.ReadPoints(said, func(p *sensuwire.Point) {
		v, ok := measure.Value(p.Name, p.Value, p.At(), p.Tags, tags)
		if !ok {
			x.srv.metrics.valuesLost.Inc()
			return
		}
		values = append(values, v)
	})
	return values, err
}

// held holds values to a check's thresholds, as our own agents do: what is beyond raises the
// status, and says so. A line that raises it stands above the output, for it is what tables
// and messages show.
func held(c *model.CheckChunk, status model.Status, values []model.Value) (_ model.Status, above, below string) {
	if len(c.Thresholds) == 0 || c.Metrics == nil || status == model.Unknown {
		return status, "", ""
	}
	raised, lines := measure.Judge(status, values, c.Thresholds)
	switch text := strings.Join(lines, "\n"); {
	case lines == nil:
		return status, "", ""
	case raised != status:
		return raised, text + "\n", ""
	default:
		return status, "", "\n" + text
	}
}

// appendValues appends as many values to an Extra as there is room for; left are the others.
func appendValues(extra []byte, values []model.Value, room int) (_ []byte, left []model.Value) {
	for i := range values {
		longer := wire.AppendValue(extra, &values[i])
		if len(longer) > room {
			return extra, values[i:]
		}
		extra = longer
	}
	return extra, nil
}

// measured is the way of an event that has metrics and no check: StatsD, or who posts to the
// agent's API. They are values of the node's event sensu-metrics, which is always OK; as many
// results of it as they need.
func (x *session) measured(said *sensuwire.Said) (out outcome, cause string) {
	if !said.Metrics {
		return x.complain(empty, "an event with neither a check nor metrics"), ""
	}
	values, err := x.points(said, nil)
	if err != nil {
		return x.complain(malformed, err.Error()), ""
	}
	seenBy, err := x.metricPipelines(said)
	if err != nil {
		return x.complain(malformed, err.Error()), ""
	}
	c := model.BuiltinChunkOf(model.BuiltinChunk(model.MetricsCheck))
	if code, reason := x.srv.cfg.View.Admit(x.node.ID, c); code != "" {
		x.srv.metrics.valuesLost.Add(float64(len(values)))
		return x.full(code, reason), ""
	}
	to := wire.AppendExtra(nil, &wire.Extra{Pipelines: seenBy})
	room := min(maxBeside, x.budget.Limits().OutputBytes) - 64 - len(to) // of the sentence, and of whom it is for
	text := fmt.Sprintf("%d values that the agent measured without a check", len(values))
	for {
		part := values[:min(len(values), model.MaxValues)]
		extra, left := appendValues(nil, part, room)
		if extra == nil && len(left) > 0 {
			x.srv.metrics.valuesLost.Inc()
			left = left[1:] // one alone is too long
		}
		values = values[len(part)-len(left):]
		if extra == nil && len(values) > 0 {
			continue
		}
		result := &wire.Result{Output: []byte(text), Extra: append(extra, to...)}
		if len(values) == 0 {
			return x.add(c.ID, result, directory.ProxyNode{})
		}
		x.keep(c.ID, result, directory.ProxyNode{})
	}
}

// metricPipelines are those that are to see an event without a check: those that it names, and those
// that an import made for the handlers that its metrics name.
func (x *session) metricPipelines(said *sensuwire.Said) (names []string, err error) {
	handlers, err := x.codec.ReadMetricHandlers(said)
	if err != nil {
		return nil, err
	}
	pipelines, err := x.codec.ReadPipelines(said)
	if err != nil {
		return nil, err
	}
	add := func(name string) {
		if model.NameError(name) == nil && !slices.Contains(names, name) && len(names) < model.MaxHooks {
			names = append(names, name)
		}
	}
	for _, name := range pipelines {
		add(model.CleanName(name))
	}
	for _, name := range handlers {
		if name = model.CleanName(name); name != "" {
			add(model.SensuPipeline(name))
		}
	}
	return names, nil
}

// full says that there is no room for another event.
func (x *session) full(code, reason string) outcome {
	limit := "node_states"
	if code == "namespace_limit" {
		limit = "namespace_states"
	}
	x.budget.Hit(limit, reason)
	return x.complain(states, reason)
}

// outputRoom is how many bytes of output a check's result may have.
func (x *session) outputRoom(c *model.CheckChunk) int {
	return min(cmp.Or(max(c.MaxOutput, 0), model.DefaultOutputBytes), x.budget.Limits().OutputBytes)
}
