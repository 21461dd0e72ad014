package sensuctl

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// check writes a check as a CheckConfig, without the fields that Sensu does not have.
func (v *view) check(m *model.Resource) (object, error) {
	c := m.Spec.(*model.CheckSpec)
	o := object{
		"metadata": metadata(m, sensuName(m)), "command": shellCommand(c.Command), "handlers": []string{}, "high_flap_threshold": 0, "low_flap_threshold": 0,
		"interval": seconds(c.Interval), "publish": !c.Disabled && !c.Passive, "runtime_assets": nonNil(c.Assets), "subscriptions": subscriptions(c.Targets),
		"proxy_entity_name": "", "check_hooks": hookLists(c.Hooks), "stdin": false, "subdue": nil, "ttl": seconds(c.TTL), "timeout": seconds(c.Timeout),
		"round_robin": c.RoundRobin, "output_metric_format": "", "output_metric_handlers": []string{}, "env_vars": envVars(c.Env), "secrets": secrets(c.Secrets),
		"pipelines": references("Pipeline", c.Pipelines),
	}
	if cron := cronOf(c); cron != "" {
		o["cron"] = cron
	}
	if c.Probe != nil {
		o["command"] = "(probe " + c.Probe.Name + " of muster-agent)"
	}
	if c.MaxOutput > 0 {
		o["max_output_size"] = int64(c.MaxOutput)
	}
	if c.DiscardOutput {
		o["discard_output"] = true
	}
	if a := c.Alert; a != nil {
		o["handlers"] = nonNil(a.Handlers)
		if f := a.Flapping; f != nil {
			o["high_flap_threshold"], o["low_flap_threshold"] = f.Start, f.End
			if f.End == 0 {
				o["low_flap_threshold"] = f.Start / 2
			}
		}
	}
	if p := c.Proxy; p != nil && len(p.Nodes) == 1 && len(p.Groups) == 0 && p.Where == "" {
		o["proxy_entity_name"] = p.Nodes[0]
	}
	if p := c.Proxy; p != nil && p.Where != "" && len(p.Nodes)+len(p.Groups) == 0 && p.Except == nil {
		if attributes, ok := sensuimport.Attributes(p.Where); ok {
			o["proxy_requests"] = object{"entity_attributes": attributes, "splay": false, "splay_coverage": 0}
		}
	}
	if c.Metrics != nil {
		o["output_metric_format"] = metricFormats[c.Metrics.Format]
		if len(c.Metrics.Tags) > 0 {
			o["output_metric_tags"] = metricTags(c.Metrics.Tags)
		}
	}
	if len(c.Thresholds) > 0 {
		o["output_metric_thresholds"] = thresholds(c.Thresholds)
	}
	addMissing(o, m)
	return o, v.subdued(o, m, c.Schedule)
}

var metricFormats = map[string]string{
	"nagios": "nagios_perfdata", "graphite": "graphite_plaintext", "influxdb": "influxdb_line", "opentsdb": "opentsdb_line", "prometheus": "prometheus_text",
}

// hookTypes are Sensu's words for the results that a hook runs after.
var hookTypes = map[string]string{"non-ok": "non-zero", "ok": "ok", "warning": "warning", "critical": "critical", "unknown": "unknown"}

// hookLists leaves out hooks whose command is part of the check. An import of the lists makes the same hooks in the
// same order.
func hookLists(hooks []model.Hook) []object {
	out := []object{}
	for _, h := range hooks {
		if h.Hook == "" {
			continue
		}
		for _, when := range h.When {
			if t, ok := hookTypes[when]; ok {
				when = t
			}
			out = addToList(out, when, h.Hook)
		}
	}
	return out
}

// addToList adds a hook to the last of the lists, if that is of its type.
func addToList(lists []object, when, hook string) []object {
	if n := len(lists); n > 0 {
		if names, ok := lists[n-1][when].([]string); ok {
			lists[n-1][when] = append(names, hook)
			return lists
		}
	}
	return append(lists, object{when: []string{hook}})
}

// thresholds writes the thresholds of values.
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

// subdued writes the times in which a check does not run: times by day in UTC, and the windows that an import made.
func (v *view) subdued(o object, m *model.Resource, s *model.Schedule) error {
	if s == nil {
		return nil
	}
	var spans []string
	var subdues []object
	for _, e := range s.Except {
		if during, utc := strings.CutSuffix(e.During, " UTC"); utc {
			spans = append(spans, during)
			continue
		}
		w, err := v.find("Window", m.Metadata.Namespace, e.Window)
		if err != nil || w == nil || !strings.HasPrefix(e.Window, model.CleanName("subdue-"+sensuName(m))) {
			return err
		}
		subdue, ok := sensuimport.Subdue(w.Spec.(*model.WindowSpec))
		if !ok {
			return nil
		}
		subdues = append(subdues, subdue)
	}
	times, ok := weekdayTimes(spans)
	if !ok {
		return nil
	}
	if o["subdue"] = times; len(spans) == 0 {
		o["subdue"] = nil
	}
	if len(subdues) > 0 {
		o["subdues"] = subdues
	}
	return nil
}

// addMissing adds the resources that a check waits for (waitsFor), so that the form has all that sensuctl sent.
func addMissing(o object, m *model.Resource) {
	for _, entry := range splitList(m.Metadata.Annotations[waitsFor]) {
		words := strings.Fields(entry)
		if len(words) < 2 {
			continue
		}
		switch kind, name := words[0], words[1]; {
		case kind == "handler":
			o["handlers"] = append(slices.Clone(o["handlers"].([]string)), name)
		case kind == "pipeline":
			o["pipelines"] = append(o["pipelines"].([]object), references("Pipeline", []string{name})...)
		case kind == "asset":
			o["runtime_assets"] = append(slices.Clone(o["runtime_assets"].([]string)), name)
		case kind == "hook" && len(words) == 3:
			o["check_hooks"] = addToList(o["check_hooks"].([]object), words[2], name)
		}
	}
}

// asset writes an asset with filters for the machines of each build. An import of it makes the same builds.
func (v *view) asset(m *model.Resource) (object, error) {
	a := m.Spec.(*model.AssetSpec)
	o := object{"metadata": metadata(m, sensuName(m)), "url": "", "sha512": "", "filters": []string{}, "builds": nil, "headers": nil}
	if len(a.Builds) == 1 {
		b := &a.Builds[0]
		o["url"], o["sha512"], o["filters"] = b.URL, b.SHA512, assetFilters(b)
		return o, nil
	}
	builds, most := make([]object, len(a.Builds)), 0
	for i := len(builds) - 1; i >= 0; i-- {
		b := &a.Builds[i]
		filters := assetFilters(b)
		for len(filters) < most { // Sensu takes the build with most filters, Muster the first
			filters = append(filters, "true")
		}
		most = len(filters)
		builds[i] = object{"url": b.URL, "sha512": b.SHA512, "filters": filters, "headers": nil}
	}
	o["builds"] = builds
	return o, nil
}

func assetFilters(b *model.AssetBuild) []string {
	out := []string{}
	for _, f := range [...]struct{ of, is string }{{"os", b.OS}, {"arch", b.Arch}, {"platform", b.Distribution}} {
		if f.is != "" {
			out = append(out, "entity.system."+f.of+" == '"+quoted(f.is)+"'")
		}
	}
	switch v := b.DistributionVersion; {
	case v == "":
	case strings.Trim(v, "0123456789") == "":
		out = append(out, "entity.system.platform_version.split('.')[0] == '"+v+"'")
	default:
		out = append(out, "entity.system.platform_version == '"+quoted(v)+"'")
	}
	return out
}

func quoted(text string) string { return strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) }

func (v *view) namespace(m *model.Resource) (object, error) {
	return object{"name": m.Metadata.Name}, nil
}

func (v *view) hook(m *model.Resource) (object, error) {
	h := m.Spec.(*model.HookSpec)
	timeout := seconds(h.Timeout)
	if timeout == 0 {
		timeout = 10
	}
	return object{"metadata": metadata(m, sensuName(m)), "command": shellCommand(h.Command), "timeout": timeout, "stdin": h.Stdin, "runtime_assets": []string{}}, nil
}

// filter has no form for one with other times than by day in UTC.
func (v *view) filter(m *model.Resource) (object, error) {
	f := m.Spec.(*model.FilterSpec)
	o := object{"metadata": metadata(m, sensuName(m)), "action": f.Action, "expressions": nonNil(f.Expressions), "runtime_assets": nonNil(f.Assets), "when": nil}
	if f.When == nil {
		return o, nil
	}
	var spans []string
	for _, s := range f.When.Spans {
		spans = append(spans, s.During) // an empty one has another form
	}
	when, ok := weekdayTimes(spans)
	if !ok || f.When.Window != "" || f.When.TimeZone != "UTC" {
		return nil, nil
	}
	o["when"] = when
	return o, nil
}

func (v *view) mutator(m *model.Resource) (object, error) {
	u := m.Spec.(*model.MutatorSpec)
	o := object{"metadata": metadata(m, sensuName(m)), "timeout": seconds(u.Timeout), "env_vars": envVars(u.Env), "runtime_assets": nonNil(u.Assets), "secrets": secrets(u.Secrets)}
	if u.Javascript != "" {
		o["type"], o["eval"] = "javascript", u.Javascript
	} else {
		o["type"], o["command"] = "pipe", shellCommand(u.Command)
	}
	return o, nil
}

// handler has a form for programs and sockets only, with the filters and the mutator of the pipeline that an import
// makes of these.
func (v *view) handler(m *model.Resource) (object, error) {
	h := m.Spec.(*model.HandlerSpec)
	o := object{"metadata": metadata(m, sensuName(m)), "timeout": seconds(h.Timeout), "env_vars": envVars(h.Env), "filters": []string{}, "handlers": []string{}, "runtime_assets": nonNil(h.Assets), "secrets": secrets(h.Secrets)}
	switch {
	case h.Command != nil:
		o["type"], o["command"] = "pipe", shellCommand(h.Command)
	case h.TCP != nil:
		o["type"], o["socket"] = "tcp", socket(h.TCP.Address)
	case h.UDP != nil:
		o["type"], o["socket"] = "udp", socket(h.UDP.Address)
	default:
		return nil, nil
	}
	own, err := v.find("Pipeline", m.Metadata.Namespace, model.SensuPipeline(m.Metadata.Name))
	if err != nil || own == nil {
		return o, err
	}
	if p, ok := own.Spec.(*model.PipelineSpec); ok && len(p.Workflows) == 1 && p.Workflows[0].Handler == m.Metadata.Name {
		o["filters"], o["mutator"] = nonNil(p.Workflows[0].Filters), p.Workflows[0].Mutator
	}
	return o, nil
}

func (v *view) pipeline(m *model.Resource) (object, error) {
	p := m.Spec.(*model.PipelineSpec)
	flows := []object{}
	for _, w := range p.Workflows {
		o := object{"name": w.Name, "filters": references("EventFilter", w.Filters), "handler": references("Handler", []string{w.Handler})[0]}
		if w.Mutator != "" {
			o["mutator"] = references("Mutator", []string{w.Mutator})[0]
		}
		flows = append(flows, o)
	}
	return object{"metadata": metadata(m, sensuName(m)), "workflows": flows}, nil
}

func socket(address string) object {
	host, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return object{"host": host, "port": n}
}
