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
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// values returns the values of a check's event: its points, or else those that its output has in the check's format. A
// command that failed to run has none.
func (e *incoming) values(c *model.CheckChunk) (values []model.Value, err error) {
	var tags map[string]string
	if c.Metrics != nil {
		tags = c.Metrics.Tags
	}
	if e.Metrics {
		if values, err = e.points(tags); err != nil {
			return nil, err
		}
		if limit := model.MaxValues; len(values) > limit {
			e.srv.metrics.valuesLost.Add(float64(len(values) - limit))
			values = values[:limit]
		}
	}
	if values == nil && c.Metrics != nil && e.Status <= uint32(model.Unknown) {
		values, _ = measure.Parse(c.Metrics.Format, e.Output, false, tags)
	}
	return values, nil
}

// points returns the points of an event's metrics that are valid values, and counts the others.
func (e *incoming) points(tags map[string]string) (values []model.Value, err error) {
	err = e.ReadPoints(func(p *sensuwire.Point) {
		v, ok := measure.Value(p.Name, p.Value, p.At(), p.Tags, tags)
		if !ok {
			e.srv.metrics.valuesLost.Inc()
			return
		}
		values = append(values, v)
	})
	return values, err
}

// applyThresholds judges values by a check's thresholds, as muster-agent does: a value outside raises the status, with a
// line for the output. Lines that raise it come above the output, because tables and messages show the first line.
func applyThresholds(c *model.CheckChunk, status model.Status, values []model.Value) (_ model.Status, above, below string) {
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

// appendValues appends values to an Extra, as many as fit into room bytes, and returns the others.
func appendValues(extra []byte, values []model.Value, room int) (_ []byte, dropped []model.Value) {
	for i := range values {
		longer := wire.AppendValue(extra, &values[i])
		if len(longer) > room {
			return extra, values[i:]
		}
		extra = longer
	}
	return extra, nil
}

// handleMetrics makes results of an event that has metrics and no check, from StatsD or the agent's API. They are values of
// the node's event sensu-metrics, which is always OK; as many results as they need.
func (e *incoming) handleMetrics() (out outcome, cause string) {
	if !e.Metrics {
		return e.refuse(empty, "an event with neither a check nor metrics"), ""
	}
	values, err := e.points(nil)
	if err != nil {
		return e.refuse(malformed, err.Error()), ""
	}
	pipelines, err := e.metricPipelines()
	if err != nil {
		return e.refuse(malformed, err.Error()), ""
	}
	c := model.BuiltinChunkOf(model.BuiltinChunk(model.MetricsCheck))
	if code, reason := e.srv.cfg.View.Admit(e.Node.ID, c); code != "" {
		e.srv.metrics.valuesLost.Add(float64(len(values)))
		return e.refuseState(code, reason), ""
	}
	trailer := wire.AppendExtra(nil, &wire.Extra{Pipelines: pipelines})
	room := min(maxExtraBytes, e.Budget.Limits().OutputBytes) - 64 - len(trailer) // 64: the output
	text := fmt.Sprintf("%d values that the agent measured without a check", len(values))
	for {
		part := values[:min(len(values), model.MaxValues)]
		extra, rest := appendValues(nil, part, room)
		if extra == nil && len(rest) > 0 {
			e.srv.metrics.valuesLost.Inc()
			rest = rest[1:] // too long by itself
		}
		values = values[len(part)-len(rest):]
		if extra == nil && len(values) > 0 {
			continue
		}
		result := &wire.Result{Output: []byte(text), Extra: append(extra, trailer...)}
		if len(values) == 0 {
			return e.add(c.ID, result, directory.ProxyNode{})
		}
		e.commitOwn(c.ID, result, directory.ProxyNode{})
	}
}

// metricPipelines returns the pipelines of an event without a check: those that it names, and those that an import made
// for the handlers that its metrics name.
func (e *incoming) metricPipelines() (names []string, err error) {
	handlers, err := e.ReadMetricHandlers()
	if err != nil {
		return nil, err
	}
	pipelines, err := e.ReadPipelines()
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

// refuseState refuses an event beyond the limit of events of its node or namespace.
func (e *incoming) refuseState(code, reason string) outcome {
	e.Budget.Hit(core.StatesLimit(code), reason)
	return e.refuse(states, reason)
}

// outputLimit returns the most bytes of output that a check's result may have.
func (e *incoming) outputLimit(c *model.CheckChunk) int {
	return min(cmp.Or(max(c.MaxOutput, 0), model.DefaultOutputBytes), e.Budget.Limits().OutputBytes)
}
