package sensu

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/measure"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// readValues returns the metric values of a check's event, with the check's tags. They are the event's points or,
// without points, parsed from its output. A command that failed to run has none, and an agent parses the output of a
// check kept from Sensu itself.
func (e *incomingEvent) readValues(c *model.CheckDefinition, tags map[string]string) (values []model.Value, err error) {
	if e.Metrics {
		if values, err = e.readPointValues(tags); err != nil {
			return nil, err
		}
		if limit := model.MaxValues; len(values) > limit {
			e.srv.metrics.valuesLost.Add(float64(len(values) - limit))
			values = values[:limit]
		}
	}
	if values == nil && c.Metrics != nil && !c.Sensu && e.Status <= uint32(model.Unknown) {
		values, _ = measure.Parse(c.Metrics.Format, e.Output, false, tags)
	}
	return values, nil
}

// readPointValues returns the valid metric points of the event, and counts the invalid points.
func (e *incomingEvent) readPointValues(tags map[string]string) (values []model.Value, err error) {
	err = e.ReadPoints(func(p *sensuwire.Point) {
		v, ok := measure.NewValue(p.Name, p.Value, p.At(), p.Tags, tags)
		if !ok {
			e.srv.metrics.valuesLost.Inc()
			return
		}
		values = append(values, v)
	})
	e.points = len(values)
	return values, err
}

// applyThresholds compares metric values with a check's thresholds, as muster-agent does. A value out of range raises
// the status and adds a line. Lines that raise it come above the output, because tables and messages show the first
// line. For a check kept from Sensu the agent has compared them.
func applyThresholds(c *model.CheckDefinition, status model.Status, values []model.Value) (_ model.Status, above, below string) {
	if len(c.Thresholds) == 0 || c.Metrics == nil || c.Sensu || status == model.Unknown {
		return status, "", ""
	}
	raised, lines := measure.ApplyThresholds(status, values, c.Thresholds)
	switch text := strings.Join(lines, "\n"); {
	case lines == nil:
		return status, "", ""
	case raised != status:
		return raised, text + "\n", ""
	default:
		return status, "", "\n" + text
	}
}

// appendValues appends encoded metric values to the extra fields of a result, up to a maximum length. It
// returns the values that do not fit.
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

// handleMetrics converts an event with metrics but without a check, such as StatsD metrics, to results. They
// are values of the node's event sensu-metrics, which is always OK; as many results as they need.
func (e *incomingEvent) handleMetrics() (out messageOutcome, cause string) {
	if !e.Metrics {
		return e.refuseMessage(emptyEvent, "the event has neither a check nor metrics"), ""
	}
	values, err := e.readPointValues(nil)
	if err != nil {
		return e.refuseMessage(messageMalformed, err.Error()), ""
	}
	pipelines, err := e.metricPipelines()
	if err != nil {
		return e.refuseMessage(messageMalformed, err.Error()), ""
	}
	c := model.BuiltinDefinitionOf(model.BuiltinDefinitionID(model.MetricsCheck))
	if code, reason := e.srv.cfg.View.Admit(e.Node.ID, c); code != "" {
		e.srv.metrics.valuesLost.Add(float64(len(values)))
		return e.refuseAtEventLimit(code, reason), ""
	}
	trailer := wire.AppendExtra(nil, &wire.Extra{Pipelines: pipelines})
	room := min(maxExtraBytes, e.Budget.Limits().OutputBytes) - 64 - len(trailer) // 64 bytes are for the output
	text := fmt.Sprintf("the event has %d metric values but no check", len(values))
	for {
		part := values[:min(len(values), model.MaxValues)]
		extra, rest := appendValues(nil, part, room)
		if extra == nil && len(rest) > 0 {
			e.srv.metrics.valuesLost.Inc()
			rest = rest[1:] // a single value is too long for a result
		}
		values = values[len(part)-len(rest):]
		if extra == nil && len(values) > 0 {
			continue
		}
		result := &wire.Result{Output: []byte(text), Extra: append(extra, trailer...)}
		if len(values) == 0 {
			return e.addSignal(0, c.ID, result, directory.ProxyNode{})
		}
		e.commitServerResult(c.ID, result, directory.ProxyNode{})
	}
}

// metricPipelines returns the pipelines that receive an event with metrics but without a check. They are its
// own, and those imported from its metric handlers.
func (e *incomingEvent) metricPipelines() (names []string, err error) {
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

// refuseAtEventLimit refuses a message because its node or namespace has reached its limit of events.
func (e *incomingEvent) refuseAtEventLimit(code, reason string) messageOutcome {
	e.Budget.Hit(core.EventLimitName(code), reason)
	return e.refuseMessage(stateLimit, reason)
}

// outputLimit returns the maximum output of a check's result in bytes.
func (e *incomingEvent) outputLimit(c *model.CheckDefinition) int {
	return min(cmp.Or(max(c.MaxOutput, 0), model.DefaultOutputBytes), e.Budget.Limits().OutputBytes)
}

const (
	hookTimeout = 10 * time.Second // default of a hook
	// maxExtraBytes bounds hooks and values of a result.
	maxExtraBytes = 192 << 10
	// hookBytes bounds the encoding of a hook's result without its name and output.
	hookBytes = 64
)

// agentHookName is the form of hook names that agents accept.
var agentHookName = regexp.MustCompile(`\A[\w.\-:]+\z`)

// wireHookName returns the name by which Sensu agents know a check's i-th hook.
func wireHookName(c *model.CheckDefinition, i int) string {
	if name := c.Hooks[i].Title(); agentHookName.MatchString(name) {
		return name
	}
	return fmt.Sprintf("hook-%d", i)
}

// hooksOf converts a check's hooks to the hooks of a check request. The agent runs them by the command's exit code.
// text escapes the tokens that the agent shall not expand.
func hooksOf(c *model.CheckDefinition, run *model.ExpandedCommand, text func(string) string) (list []sensuwire.Hook) {
	export := ""
	if !c.Sensu { // agents of Sensu set the environment of a check for its command only
		export = exportLines(run.Env)
	}
	for i := range c.Hooks {
		h := &c.Hooks[i]
		timeout := time.Duration(h.Timeout)
		if timeout <= 0 {
			timeout = hookTimeout
		}
		when := slices.Clone(h.When)
		for i, w := range when {
			if when[i] = strings.ToLower(w); w == "non-ok" {
				when[i] = "non-zero"
			}
		}
		list = append(list, sensuwire.Hook{
			Name: wireHookName(c, i), When: when, Timeout: uint32((timeout + time.Second - 1) / time.Second), Stdin: h.Stdin,
			Command: text(export + shellLine(&model.ExpandedCommand{Shell: run.Hooks[i].Shell, Argv: run.Hooks[i].Argv})),
		})
	}
	return list
}

// exportLines returns shell lines that export a check's environment variables. Sensu agents do not set the variables
// for hooks.
func exportLines(env map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString("export " + name + "=" + quoteShell(env[name]) + "\n")
	}
	return b.String()
}

// encodeExtra encodes the hook results and metric values of a result, and reports omitted values in the output. Hooks
// and values become extra fields. If values do not fit, the output says so.
func (e *incomingEvent) encodeExtra(c *model.CheckDefinition, values []model.Value, text []byte, limit int) (_, extra []byte, err error) {
	room := min(e.Budget.Limits().OutputBytes-len(text), maxExtraBytes)
	if e.HasHooks() && len(c.Hooks) > 0 {
		hooks, err := e.ReadHooks(model.MaxHooks)
		if err != nil {
			return nil, nil, err
		}
		for i := range hooks {
			hooks[i].Output = string(e.redact(c, []byte(hooks[i].Output)))
		}
		extra = wire.AppendExtra(nil, &wire.Extra{Hooks: hookResults(c, hooks, room)})
	}
	extra, dropped := appendValues(extra, values, room)
	if len(dropped) > 0 {
		e.srv.metrics.valuesLost.Add(float64(len(dropped)))
		note := fmt.Sprintf("\n(%d of %d values omitted: the result would be too large)", len(dropped), len(values))
		if len(text)+len(note) <= limit && len(extra)+len(text)+len(note) <= e.Budget.Limits().OutputBytes {
			text = append(text[:len(text):len(text)], note...)
		}
	}
	return text, extra, nil
}

// hookResults converts the results of the check's own hooks, as many as fit into `room` bytes.
func hookResults(c *model.CheckDefinition, hooks []sensuwire.HookResult, room int) (list []model.HookResult) {
	for i := range c.Hooks {
		at := slices.IndexFunc(hooks, func(h sensuwire.HookResult) bool { return h.Name == wireHookName(c, i) })
		if at < 0 {
			continue
		}
		h, name := &hooks[at], c.Hooks[i].Title()
		if room -= hookBytes + len(name); room <= 0 {
			break
		}
		status := model.Unknown
		if h.Status >= 0 && h.Status < int32(model.Unknown) {
			status = model.Status(h.Status)
		}
		text, cut := limitOutput("", []byte(h.Output), min(room, model.MaxHookOutput), true)
		room -= len(text)
		list = append(list, model.HookResult{Name: name, Status: status, Output: string(text), Cut: cut, ExitCode: uint32(h.Status), Duration: model.Duration(time.Duration(secondsToMs(h.Duration)) * time.Millisecond)})
	}
	return list
}
