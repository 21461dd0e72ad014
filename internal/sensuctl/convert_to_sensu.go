package sensuctl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

// formWriter is a function that converts a Muster resource to Sensu's JSON format. It returns nil if Sensu has no
// counterpart.
type formWriter = func(*request, *model.Resource) (object, error)

// resourceForm returns a converter to Sensu's format that converts the spec by the given function and adds
// metadata.
func resourceForm[S model.Spec](write func(S) object) formWriter {
	return func(_ *request, m *model.Resource) (object, error) {
		o := write(m.Spec.(S))
		if o != nil {
			o["metadata"] = metadataForm(m, sensuName(m))
			addMissingReferences(o, m)
		}
		return o, nil
	}
}

// checkForm converts a Check to a CheckConfig in Sensu's JSON format. Fields that Sensu lacks are left out.
func checkForm(r *request, m *model.Resource) (object, error) {
	c := m.Spec.(*model.CheckSpec)
	o := object{
		"metadata": metadataForm(m, sensuName(m)), "command": shellCommand(c.Command), "env_vars": envVars(c.Env), "stdin": c.StdinEvent,
		"runtime_assets": nonNil(c.Assets), "secrets": secretsForm(c.Secrets), "timeout": wholeSeconds(cmp.Or(c.Timeout, model.Duration(c.DefaultTimeout()))), "ttl": wholeSeconds(c.TTL),
		"interval": wholeSeconds(c.Interval), "publish": !c.Disabled && !c.Passive, "subdue": nil,
		"subscriptions": subscriptionsOf(c.Targets), "round_robin": c.RoundRobin, "proxy_entity_name": "",
		"handlers": []string{}, "pipelines": []object{}, "check_hooks": hookListsForm(c.Hooks),
		"high_flap_threshold": 0, "low_flap_threshold": 0, "output_metric_format": "", "output_metric_handlers": []string{},
	}
	if c.Cron != "" {
		o["cron"] = "CRON_TZ=" + cmp.Or(c.TimeZone, "UTC") + " " + c.Cron
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
	var handlers []string
	if a := c.Alert; a != nil {
		handlers = a.Handlers
		if f := a.Flapping; f != nil {
			o["high_flap_threshold"], o["low_flap_threshold"] = f.Start, cmp.Or(f.End, f.Start/2)
		}
	}
	if err := addRecipients(r, o, m, handlers); err != nil {
		return nil, err
	}
	if p := c.Proxy; p != nil && p.Where == "" && len(p.Nodes) == 1 && len(p.Groups) == 0 {
		o["proxy_entity_name"] = p.Nodes[0]
	} else if p != nil && p.Where != "" && len(p.Nodes)+len(p.Groups) == 0 && p.Except == nil {
		if attributes, ok := sensuimport.EntityAttributes(p.Where); ok {
			o["proxy_requests"] = object{"entity_attributes": attributes, "splay": false, "splay_coverage": 0}
		}
	}
	if c.Metrics != nil && c.Metrics.Format != model.NoMetrics {
		o["output_metric_format"] = model.SensuMetricFormat(cmp.Or(c.Metrics.Format, model.MetricFormats[0]))
		if len(c.Metrics.Tags) > 0 {
			o["output_metric_tags"] = filter.SensuTags(c.Metrics.Tags)
		}
	}
	if len(c.Thresholds) > 0 {
		o["output_metric_thresholds"] = filter.SensuThresholds(c.Thresholds)
	}
	addMissingReferences(o, m)
	return o, addSubdues(r, o, m, c.Schedule)
}

// addRecipients adds to a Sensu check the handlers and pipelines that receive its events. Recipients are handlers,
// handlers of metrics, and pipelines. Only the last pipelines of the check are shown as handlers, because an import
// puts them last.
func addRecipients(r *request, o object, m *model.Resource, handlers []string) error {
	pipelines, metrics := m.Spec.(*model.CheckSpec).Pipelines, []string{}
	for len(pipelines) > 0 {
		name, ok := strings.CutPrefix(pipelines[len(pipelines)-1], model.SensuPipeline(""))
		of, isMetric := strings.CutSuffix(name, "-metrics")
		if !ok || !isMetric {
			break
		}
		other, err := r.findResource("Handler", m.Metadata.Namespace, name)
		if err != nil {
			return err
		}
		if other != nil { // a handler whose own name ends so
			break
		}
		metrics, pipelines = slices.Insert(metrics, 0, of), pipelines[:len(pipelines)-1]
	}
	first := len(pipelines)
	for first > 0 && strings.HasPrefix(pipelines[first-1], model.SensuPipeline("")) {
		first--
	}
	handlers = slices.Clone(nonNil(handlers))
	for _, name := range pipelines[first:] {
		handlers = append(handlers, strings.TrimPrefix(name, model.SensuPipeline("")))
	}
	o["handlers"], o["output_metric_handlers"], o["pipelines"] = handlers, metrics, referencesForm("Pipeline", pipelines[:first])
	return nil
}

// hookListsForm converts a check's hooks to Sensu's form, a list of hook names per result type. Each list is
// for one result type. Hooks whose command is part of the check have no equivalent in Sensu. An import of the
// lists makes the same hooks in the same order.
func hookListsForm(hooks []model.Hook) []object {
	out := []object{}
	for _, h := range hooks {
		if h.Hook == "" {
			continue
		}
		for _, when := range h.When {
			if when == "non-ok" {
				when = "non-zero"
			}
			out = addHookToList(out, when, h.Hook)
		}
	}
	return out
}

// addHookToList adds a hook to Sensu's list of a check's hooks, under a result type such as critical. It takes
// the last list only if that list is for the same result type.
func addHookToList(lists []object, when, hook string) []object {
	if n := len(lists); n > 0 {
		if names, ok := lists[n-1][when].([]string); ok {
			lists[n-1][when] = append(names, hook)
			return lists
		}
	}
	return append(lists, object{when: []string{hook}})
}

// addSubdues adds to a Sensu check its subdues, the times in which the check does not run.
func addSubdues(r *request, o object, m *model.Resource, s *model.Schedule) error {
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
		w, err := r.findResource("Window", m.Metadata.Namespace, e.Window)
		if err != nil || w == nil || !strings.HasPrefix(e.Window, model.CleanName("subdue-"+sensuName(m))) {
			return err
		}
		subdue, ok := sensuimport.Subdue(w.Spec.(*model.WindowSpec))
		if !ok {
			return nil
		}
		subdues = append(subdues, subdue)
	}
	times, ok := sensuimport.WeekdayTimes(spans)
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

// addMissingReferences adds to a Sensu object the names of referenced resources that did not exist at the
// import. The annotation missingAnnotation lists references of a check, handler, filter or mutator to resources
// that did not exist at the import.
func addMissingReferences(o object, m *model.Resource) {
	for _, entry := range splitList(m.Metadata.Annotations[missingAnnotation]) {
		words := strings.Fields(entry)
		if len(words) < 2 {
			continue
		}
		switch kind, name := words[0], words[1]; {
		case kind == "handler" && len(words) == 3:
			o["output_metric_handlers"] = append(slices.Clone(o["output_metric_handlers"].([]string)), name)
		case kind == "handler":
			o["handlers"] = append(slices.Clone(o["handlers"].([]string)), name)
		case kind == "pipeline":
			o["pipelines"] = append(o["pipelines"].([]object), referencesForm("Pipeline", []string{name})...)
		case kind == "asset":
			o["runtime_assets"] = append(slices.Clone(o["runtime_assets"].([]string)), name)
		case kind == "hook" && len(words) == 3:
			o["check_hooks"] = addHookToList(o["check_hooks"].([]object), words[2], name)
		}
	}
}

// assetForm converts an Asset to the JSON object that Sensu has for assets. Its filters select each build's platform.
// An import of the form makes the same builds.
func assetForm(a *model.AssetSpec) object {
	o := object{"url": "", "sha512": "", "filters": []string{}, "builds": nil, "headers": nil}
	if len(a.Builds) == 1 {
		b := &a.Builds[0]
		o["url"], o["sha512"], o["filters"] = b.URL, b.SHA512, assetFilters(b)
		return o
	}
	builds, most := make([]object, len(a.Builds)), 0
	for i, b := range slices.Backward(a.Builds) {
		filters := assetFilters(&b)
		for len(filters) < most { // Sensu takes the build with most filters, Muster the first
			filters = append(filters, "true")
		}
		most = len(filters)
		builds[i] = object{"url": b.URL, "sha512": b.SHA512, "filters": filters, "headers": nil}
	}
	o["builds"] = builds
	return o
}

// assetFilters converts the platform of an Asset's build to Sensu's filter expressions over an entity.
func assetFilters(b *model.AssetBuild) []string {
	out := []string{}
	arch, armVersion := b.Arch, ""
	if v, ok := strings.CutPrefix(arch, "armv"); ok {
		arch, armVersion = "arm", v
	}
	for _, f := range [...]struct{ of, is string }{{"os", b.OS}, {"arch", arch}, {"platform", b.Distribution}} {
		if f.is != "" {
			out = append(out, "entity.system."+f.of+" == '"+escapeQuotes(f.is)+"'")
		}
	}
	if armVersion != "" {
		out = append(out, "entity.system.arm_version == "+armVersion)
	}
	const major = "parseInt(entity.system.platform_version.split('.')[0])"
	r, _ := model.ParseVersionRange(b.DistributionVersion)
	if r != nil && r.Min > 0 {
		out = append(out, fmt.Sprintf("%s >= %d", major, r.Min))
	}
	if r != nil && r.End > 0 {
		out = append(out, fmt.Sprintf("%s < %d", major, r.End))
	}
	switch v := b.DistributionVersion; {
	case v == "", r != nil:
	case strings.Trim(v, "0123456789") == "":
		out = append(out, "entity.system.platform_version.split('.')[0] == '"+v+"'")
	default:
		out = append(out, "entity.system.platform_version == '"+escapeQuotes(v)+"'")
	}
	return out
}

// escapeQuotes escapes a string for use between single quotes in JavaScript.
func escapeQuotes(text string) string { return strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) }

// namespaceForm converts a Namespace to Sensu's JSON format.
func namespaceForm(_ *request, m *model.Resource) (object, error) {
	return object{"name": m.Metadata.Name}, nil
}

// hookForm converts a Hook to Sensu's JSON format.
func hookForm(h *model.HookSpec) object {
	return object{"command": shellCommand(h.Command), "timeout": cmp.Or(wholeSeconds(h.Timeout), 10), "stdin": h.Stdin, "runtime_assets": nonNil(h.Assets)}
}

// filterForm converts a Filter to Sensu's JSON format. It returns nil if Sensu cannot hold its times, which must be
// UTC times by weekday.
func filterForm(f *model.FilterSpec) object {
	o := object{"action": f.Action, "expressions": nonNil(f.Expressions), "runtime_assets": nonNil(f.Assets), "when": nil}
	if f.When == nil {
		return o
	}
	var spans []string
	for _, s := range f.When.Spans {
		spans = append(spans, s.During) // a span without During has another form
	}
	when, ok := sensuimport.WeekdayTimes(spans)
	if !ok || f.When.Window != "" || f.When.TimeZone != "UTC" {
		return nil
	}
	o["when"] = when
	return o
}

// mutatorForm converts a Mutator to Sensu's JSON format.
func mutatorForm(u *model.MutatorSpec) object {
	o := object{"timeout": wholeSeconds(u.Timeout), "env_vars": envVars(u.Env), "runtime_assets": nonNil(u.Assets), "secrets": secretsForm(u.Secrets)}
	if u.Javascript != "" {
		o["type"], o["eval"] = "javascript", u.Javascript
	} else {
		o["type"], o["command"] = "pipe", shellCommand(u.Command)
	}
	return o
}

// handlerForm converts a handler to Sensu's JSON format. The filters and mutator come from the handler's own imported
// pipeline. A handler of a service has no command in Sensu: its form has the filters of routes, and a command that
// fails.
func handlerForm(r *request, m *model.Resource) (object, error) {
	h := m.Spec.(*model.HandlerSpec)
	o := object{
		"metadata": metadataForm(m, sensuName(m)), "timeout": wholeSeconds(h.Timeout), "env_vars": envVars(literalEnv(h.Env)), "filters": []string{},
		"handlers": []string{}, "runtime_assets": nonNil(h.Assets), "secrets": secretsForm(h.Secrets),
	}
	addMissingReferences(o, m)
	switch {
	case h.Command != nil:
		o["type"], o["command"] = "pipe", model.TemplateLiteral(shellCommand(h.Command))
	case h.TCP != nil:
		o["type"], o["socket"] = "tcp", socketForm(h.TCP.Address)
	case h.UDP != nil:
		o["type"], o["socket"] = "udp", socketForm(h.UDP.Address)
	default:
		o["type"], o["filters"] = "pipe", []string{model.FilterIncident, model.FilterNotSilenced}
		o["command"] = fmt.Sprintf("echo 'Muster notifies %s itself: %s' >&2; exit 1", strings.Join(h.Services(), ", "), musterCommand("get", refOf(m), "-o", "yaml"))
		return o, nil
	}
	own, err := r.findResource("Pipeline", m.Metadata.Namespace, model.SensuPipeline(m.Metadata.Name))
	if err != nil || own == nil {
		return o, err
	}
	if flows := own.Spec.(*model.PipelineSpec).Workflows; len(flows) == 1 && flows[0].Handler == m.Metadata.Name {
		o["filters"], o["mutator"] = nonNil(flows[0].Filters), flows[0].Mutator
	}
	return o, nil
}

// pipelineForm converts a Pipeline to Sensu's JSON format. A pipeline that waits for missing handlers returns the
// workflows as sensuctl sent them.
func pipelineForm(_ *request, m *model.Resource) (object, error) {
	form := object{"metadata": metadataForm(m, sensuName(m))}
	if kept := m.Metadata.Annotations[workflowsAnnotation]; kept != "" {
		form["workflows"] = json.RawMessage(kept)
		return form, nil
	}
	flows := []object{}
	for _, w := range m.Spec.(*model.PipelineSpec).Workflows {
		o := object{"name": w.Name, "filters": referencesForm("EventFilter", w.Filters), "handler": referencesForm("Handler", []string{w.Handler})[0]}
		if w.Mutator != "" {
			o["mutator"] = referencesForm("Mutator", []string{w.Mutator})[0]
		}
		flows = append(flows, o)
	}
	form["workflows"] = flows
	return form, nil
}

// socketForm returns an address HOST:PORT as Sensu's {host, port}.
func socketForm(address string) object {
	host, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return object{"host": host, "port": n}
}

// object is a JSON object in the format of Sensu's API.
type object = map[string]any

// wholeSeconds returns a duration in seconds, rounded up.
func wholeSeconds(d model.Duration) int64 {
	return int64((max(time.Duration(d), 0) + time.Second - 1) / time.Second)
}

// unixTime returns a time as seconds since 1970. The zero time gives 0.
func unixTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// subscriptionsOf converts a check's targets to Sensu subscriptions. A group becomes its name, and a node entity:NAME.
func subscriptionsOf(t *model.Targets) []string {
	out := []string{}
	if t == nil {
		return out
	}
	out = append(out, t.Groups...)
	for _, node := range t.Nodes {
		out = append(out, "entity:"+node)
	}
	return out
}

// shellCommand converts a command with its arguments to one line for the shell.
func shellCommand(c *model.Command) string {
	if c == nil {
		return ""
	}
	if c.Argv == nil {
		return c.Shell
	}
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// envVars returns environment variables as a list of NAME=VALUE.
func envVars(env map[string]string) []string {
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// literalEnv returns a handler's environment variables with plain braces in place of escaped template braces.
func literalEnv(env map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range env {
		out[name] = model.TemplateLiteral(value)
	}
	return out
}

// secretsForm converts the secrets of a command to Sensu's JSON format.
func secretsForm(list []model.CommandSecret) []object {
	out := []object{}
	for _, s := range list {
		out = append(out, object{"name": s.Env, "secret": s.Secret})
	}
	return out
}

// nonNil returns an empty list in place of nil, because lists in Sensu's JSON are never null. Lists in Sensu's
// JSON are never null.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// referencesForm converts names of one resource type to Sensu's references {name, type, api_version}. A
// reference is {name, type, api_version}.
func referencesForm(kind string, names []string) []object {
	out := []object{}
	for _, name := range names {
		out = append(out, object{"name": name, "type": kind, "api_version": "core/v2"})
	}
	return out
}
