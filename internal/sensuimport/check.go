package sensuimport

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

func (im *importer) check(o *object) {
	s := o.spec
	if o.kind == "Check" && s.values["executed"] != nil {
		s.value("executed")
	}
	publish, said := s.value("publish").(bool)
	if said && !publish && (s.values["command"] == nil || s.values["command"] == "") {
		im.passive(o)
		return
	}
	c := &model.CheckSpec{Command: &model.Command{Shell: im.tokens(o, "command", s.text("command"))}}
	c.Targets = im.targets(o, s.texts("subscriptions"))
	c.Timeout, c.TTL = seconds(s.integer("timeout")), seconds(s.integer("ttl"))
	c.MaxOutput, c.DiscardOutput = model.Size(s.integer("max_output_size")), s.boolean("discard_output")
	c.Env = im.env(o, s.texts("env_vars"))
	if said && !publish {
		c.Disabled = true
		im.noteChanged(o, "publish: false: it is disabled; muster run runs a command once; results by an agent's API or socket are refused, unless passive: true stands in place of its command, targets and times")
	}
	im.times(o, c)
	im.subdues(o, c)
	im.proxy(o, c)
	im.hooks(o, c)
	im.metrics(o, c)
	if s.boolean("stdin") {
		im.noteLost(o, "stdin: true: commands do not get the event before; what they need can stand in stdin: TEXT")
	}
	if c.Disabled = c.Disabled || o.broken || c.Targets == nil; c.Targets == nil {
		im.noteChanged(o, "no subscriptions: it is disabled, until targets says where it runs")
		c.Targets = &model.Targets{Groups: []string{"all"}}
	}
	im.runtimeAssets(o, c)
	im.secrets(o, c)
	im.flapping(o, c)
	im.recipients(o, c)
	s.value("scheduler")
	r := im.declare(o, c)
	for k := range r.Metadata.Annotations {
		if strings.HasPrefix(k, "fatigue_check/") {
			im.noteChanged(o, "annotation %s is read by a filter only: alert.failAfter, and repeat of a Route, say the same", k)
		}
	}
}

// passive is a check that says nothing to run, and that nobody is asked for: agents bring its results.
func (im *importer) passive(o *object) {
	s := o.spec
	c := &model.CheckSpec{Passive: true, TTL: seconds(s.integer("ttl")), MaxOutput: model.Size(s.integer("max_output_size"))}
	for _, field := range []string{"command", "subscriptions", "interval", "cron", "round_robin", "scheduler"} {
		s.value(field) // without publish they mean nothing to Sensu
	}
	im.noteChanged(o, "publish: false, and no command: it is passive, its results come by an agent's API or socket")
	im.flapping(o, c)
	im.recipients(o, c)
	im.declare(o, c)
}

func (im *importer) flapping(o *object, c *model.CheckSpec) {
	high, low := o.spec.integer("high_flap_threshold"), o.spec.integer("low_flap_threshold")
	switch {
	case high > 0 && low > 0:
		im.alert(c).Flapping = &model.Flapping{Start: high, End: min(low, high)}
	case high > 0:
		im.noteLost(o, "high_flap_threshold %d without low_flap_threshold: nothing flaps, as in Sensu; alert.flapping takes both", high)
	case low > 0:
		im.noteLost(o, "low_flap_threshold %d without high_flap_threshold: nothing flaps, as in Sensu; alert.flapping takes both", low)
	}
}

func (im *importer) alert(c *model.CheckSpec) *model.Alert {
	if c.Alert == nil {
		c.Alert = &model.Alert{}
	}
	return c.Alert
}

func seconds(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }

// subscribed are the nodes that subscriptions reach.
func (im *importer) targets(o *object, subscriptions []string) *model.Targets {
	if len(subscriptions) == 0 {
		return nil
	}
	t := &model.Targets{}
	for _, s := range subscriptions {
		if node, ok := strings.CutPrefix(s, "entity:"); ok {
			t.Nodes = append(t.Nodes, name(node))
		} else {
			t.Groups = append(t.Groups, im.group(o, o.namespace, s))
		}
	}
	return t
}

func (im *importer) env(o *object, list []string) map[string]string {
	out := map[string]string{}
	for _, line := range list {
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			im.noteLost(o, "env_vars: %q is not NAME=VALUE", line)
			continue
		}
		out[k] = im.tokens(o, "env_vars "+k, v)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// macros of cron.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func (im *importer) times(o *object, c *model.CheckSpec) {
	c.Interval = seconds(o.spec.integer("interval"))
	cron := o.spec.text("cron")
	if cron == "" {
		return
	}
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(cron, prefix); ok {
			c.TimeZone, cron, _ = strings.Cut(rest, " ")
			cron = strings.TrimSpace(cron)
		}
	}
	if every, ok := strings.CutPrefix(cron, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil {
			c.Interval, c.TimeZone = model.Duration(d), ""
			return
		}
	}
	c.Interval, c.Cron = 0, cmp.Or(macros[cron], cron)
	if c.TimeZone == "" {
		c.TimeZone = "UTC"
		im.noteChanged(o, "cron without a zone ran by the backend's time: it is taken for UTC")
	}
}

func (im *importer) proxy(o *object, c *model.CheckSpec) {
	s := o.spec
	c.RoundRobin = s.boolean("round_robin")
	if entity := s.text("proxy_entity_name"); entity != "" {
		node := im.uniqueName(o, "Node", o.namespace, entity)
		c.Proxy = &model.Targets{Nodes: []string{node}}
		if im.entityOf(o.namespace, entity) == nil {
			im.add(im.ns(o), node, &model.NodeSpec{Proxy: true})
		}
	}
	requests := s.object("proxy_requests")
	if attributes := requests.texts("entity_attributes"); len(attributes) > 0 {
		where, err := condition(attributes)
		if err != nil {
			im.noteLost(o, "proxy_requests.entity_attributes: %v: write proxy: {where: …}; it is disabled", err)
			c.Disabled, where = true, "false"
		}
		c.Proxy = &model.Targets{Where: where}
	}
	requests.value("splay") // each proxy node has an offset of its own here, always
	requests.value("splay_coverage")
}

func (im *importer) entityOf(namespace, name string) *object {
	if o := im.by[key{"Entity", namespace, name}]; o != nil {
		return o
	}
	return im.by[key{"EntityConfig", namespace, name}]
}

// hooks of a check are lists by type: [{critical: [name]}], or {type, hooks} by the API.
func (im *importer) hooks(o *object, c *model.CheckSpec) {
	at := map[string]int{}
	for _, list := range o.spec.objects("check_hooks") {
		byType := map[string][]string{}
		if kind := list.text("type"); kind != "" {
			byType[kind] = list.texts("hooks")
		} else {
			for kind := range list.values {
				byType[kind] = list.texts(kind)
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(byType)) {
			when := kind
			switch kind {
			case "non-zero":
				when = "non-ok"
			case "0":
				when = "ok"
			case "1":
				when = "warning"
			case "2":
				when = "critical"
			case "severity":
				im.noteLost(o, "hooks of the type severity are not known")
				continue
			}
			for _, hook := range byType[kind] {
				ref := name(hook)
				if im.find("Hook", im.ns(o), ref) == nil {
					im.missing(o, "hook", hook, kind)
					continue
				}
				i, ok := at[ref]
				if !ok {
					i = len(c.Hooks)
					at[ref] = i
					c.Hooks = append(c.Hooks, model.Hook{Hook: ref})
				}
				if !slices.Contains(c.Hooks[i].When, when) {
					c.Hooks[i].When = append(c.Hooks[i].When, when)
				}
			}
		}
	}
}

var formats = map[string]string{
	"nagios_perfdata": "nagios", "graphite_plaintext": "graphite", "influxdb_line": "influxdb", "opentsdb_line": "opentsdb", "prometheus_text": "prometheus",
}

func (im *importer) metrics(o *object, c *model.CheckSpec) {
	s := o.spec
	if format := s.text("output_metric_format"); format != "" {
		if formats[format] == "" {
			im.noteLost(o, "output_metric_format %s is not known", format)
		} else {
			c.Metrics = &model.Metrics{Format: formats[format], Tags: im.tags(o, s.objects("output_metric_tags"))}
		}
	}
	status := func(n int) string { return map[int]string{1: "warning", 2: "critical", 3: "unknown"}[n] }
	for _, t := range s.objects("output_metric_thresholds") {
		into := model.Threshold{Metric: t.text("name"), Tags: im.tags(o, t.objects("tags")), Missing: status(t.integer("null_status"))}
		for _, rule := range t.objects("thresholds") {
			bounds := &model.Bounds{}
			for side, at := range map[string]**float64{"min": &bounds.Min, "max": &bounds.Max} {
				if text := rule.value(side); text != nil && text != "" {
					if n, ok := numberOf(text); ok {
						*at = &n
					} else {
						im.noteLost(o, "threshold of %s: %v is no number", into.Metric, text)
					}
				}
			}
			at := map[int]**model.Bounds{1: &into.Warning, 2: &into.Critical, 3: &into.Unknown}[rule.integer("status")]
			switch {
			case at == nil:
				im.noteLost(o, "threshold of %s: its status is none of 1, 2, 3", into.Metric)
			case *at != nil:
				im.noteLost(o, "threshold of %s: a second one of the same status", into.Metric)
			default:
				*at = bounds
			}
		}
		c.Thresholds = append(c.Thresholds, into)
	}
}

func (im *importer) tags(o *object, list []*fields) map[string]string {
	out := map[string]string{}
	for _, t := range list {
		out[t.text("name")] = im.tokens(o, "tag", t.text("value"))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// whoHears are the pipelines and handlers of a check.
func (im *importer) recipients(o *object, c *model.CheckSpec) {
	for _, ref := range o.spec.objects("pipelines") {
		ref.value("api_version")
		ref.value("type")
		of := ref.text("name")
		if im.find("Pipeline", im.ns(o), name(of)) == nil {
			im.missing(o, "pipeline", of, "")
			continue
		}
		c.Pipelines = append(c.Pipelines, name(of))
	}
	for _, h := range o.spec.texts("handlers") {
		im.routeTo(o, c, h, nil)
	}
	for _, h := range o.spec.texts("output_metric_handlers") {
		im.routeTo(o, c, h, []string{model.FilterHasMetrics})
	}
}
