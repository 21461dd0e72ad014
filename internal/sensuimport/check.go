package sensuimport

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// importCheck imports a check of Sensu.
func importCheck(o *object) {
	s := o.spec
	if o.kind == "Check" {
		s.ignore("executed")
	}
	publish, said := s.value("publish").(bool)
	if said && !publish && (s.values["command"] == nil || s.values["command"] == "") {
		importPassiveCheck(o)
		return
	}
	c := &model.CheckSpec{Command: &model.Command{Shell: s.text("command")}, Sensu: true}
	c.Targets = targetsOf(o, s.texts("subscriptions"))
	c.Timeout, c.TTL = seconds(s.integer("timeout")), seconds(s.integer("ttl"))
	c.MaxOutput, c.DiscardOutput = outputSize(o), s.boolean("discard_output")
	c.Env = environmentOf(o, s.texts("env_vars"))
	if c.Timeout == 0 {
		o.importer.withoutTimeout = append(o.importer.withoutTimeout, o)
	}
	if said && !publish {
		c.Disabled = true
		o.noteChange("publish: false: the check is disabled; muster run runs a command once; results by an agent's API or socket are refused, unless passive: true replaces command, targets and times")
	}
	importTimes(o, c)
	importSubdues(o, c)
	importProxy(o, c)
	importRoundRobin(o, c)
	importHooks(o, c)
	importMetrics(o, c)
	c.StdinEvent = s.boolean("stdin")
	if c.Disabled = c.Disabled || c.Targets == nil; c.Targets == nil {
		o.noteChange("no subscriptions: disabled until you set targets")
		c.Targets = &model.Targets{Groups: []string{"all"}}
	}
	importCheckAssets(o, c)
	importCheckSecrets(o, c)
	importFlapping(o, c)
	importRecipients(o, c)
	s.ignore("scheduler")
	if _, err := c.TemplateTexts().Parse(); errors.As(err, new(*model.TemplateError)) {
		o.noteChange("Sensu's agents cannot expand these tokens, either: each run is UNKNOWN there")
	}
	r := o.declareResource(c)
	for k := range r.Metadata.Annotations {
		if strings.HasPrefix(k, "fatigue_check/") {
			o.noteChange("only a filter reads the annotation %s: use alert.failAfter, and repeat of a Route, instead", k)
		}
	}
}

// importPassiveCheck imports a passive check, which receives results from outside because no agent runs the
// check. It has no command and is not published; its results arrive through an agent's API or socket.
func importPassiveCheck(o *object) {
	s := o.spec
	c := &model.CheckSpec{Sensu: true, Passive: true, TTL: seconds(s.integer("ttl")), MaxOutput: outputSize(o)}
	s.ignore("command", "subscriptions", "interval", "cron", "round_robin", "scheduler") // Sensu needs them to publish only
	o.noteChange("publish: false, and no command: the check is passive, its results come by an agent's API or socket")
	importFlapping(o, c)
	importRecipients(o, c)
	o.declareResource(c)
}

// outputSize returns the maximum output size of a Sensu check, cut to the maximum of Muster. A larger one than
// Muster allows becomes the largest.
func outputSize(o *object) model.Size {
	size, most := model.Size(o.spec.integer("max_output_size")), model.Size(model.MaxOutputBytes)
	if size > most {
		o.noteChange("max_output_size: %s at most", most)
		return most
	}
	return size
}

// importFlapping imports the low and high flapping thresholds of a check. Sensu uses them only if both are set.
func importFlapping(o *object, c *model.CheckSpec) {
	high, low := o.spec.integer("high_flap_threshold"), o.spec.integer("low_flap_threshold")
	switch {
	case high > 0 && low > 0:
		ensureAlert(c).Flapping = &model.Flapping{Start: high, End: min(low, high)}
	case high > 0:
		o.noteLoss("high_flap_threshold %d without low_flap_threshold: the check never flaps, as in Sensu; alert.flapping needs both", high)
	case low > 0:
		o.noteLoss("low_flap_threshold %d without high_flap_threshold: the check never flaps, as in Sensu; alert.flapping needs both", low)
	}
}

// ensureAlert returns the alert section of a check, and creates the section if the check has none. If the
// section is missing, an empty section is added first.
func ensureAlert(c *model.CheckSpec) *model.Alert {
	if c.Alert == nil {
		c.Alert = &model.Alert{}
	}
	return c.Alert
}

// seconds returns n seconds as a duration of a Muster resource.
func seconds(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }

// targetsOf converts Sensu subscriptions to the target nodes and groups of a check.
func targetsOf(o *object, subscriptions []string) *model.Targets {
	if len(subscriptions) == 0 {
		return nil
	}
	t := &model.Targets{}
	for _, s := range subscriptions {
		if node, ok := strings.CutPrefix(s, "entity:"); ok {
			t.Nodes = append(t.Nodes, musterName(node))
		} else {
			t.Groups = append(t.Groups, o.subscriptionGroup(s))
		}
	}
	return t
}

// environmentOf converts a list of NAME=VALUE to a map of environment variables.
func environmentOf(o *object, list []string) map[string]string {
	out := map[string]string{}
	for _, line := range list {
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			o.noteLoss("env_vars: %q is not NAME=VALUE", line)
			continue
		}
		out[k] = v
	}
	return nonEmpty(out)
}

// importProxy imports the settings for proxy entities in a check.
func importProxy(o *object, c *model.CheckSpec) {
	s := o.spec
	c.RoundRobin = s.boolean("round_robin")
	if entity := s.text("proxy_entity_name"); strings.Contains(entity, "{{") {
		o.noteLoss("proxy_entity_name %s: a name has no tokens, and Sensu refuses them, too; the check is disabled: write proxy: {nodes: [NAME]} or {where: …}", entity)
		c.Disabled = true
	} else if entity != "" {
		node := o.uniqueName("Node", entity)
		c.Proxy = &model.Targets{Nodes: []string{node}}
		if o.entityNamed(entity) == nil {
			o.addResource(node, &model.NodeSpec{Proxy: true})
		}
	}
	requests := s.object("proxy_requests")
	if attributes := requests.texts("entity_attributes"); len(attributes) > 0 {
		where, err := nodeCondition(attributes)
		if err != nil {
			o.noteLoss("proxy_requests.entity_attributes: %v: write proxy: {where: …}; it is disabled", err)
			c.Disabled, where = true, "false"
		}
		c.Proxy = &model.Targets{Where: where}
	}
	requests.ignore("splay", "splay_coverage") // each proxy node has an offset of its own, always
}

// importRoundRobin adapts an imported round-robin check to Muster, and notes the differences to Sensu. Sensu
// runs the check once per subscription and ignores its TTL.
func importRoundRobin(o *object, c *model.CheckSpec) {
	if !c.RoundRobin {
		return
	}
	if c.Targets != nil && len(c.Targets.Groups)+len(c.Targets.Nodes) > 1 {
		o.noteChange("round_robin: one run per interval for all subscriptions together, in Sensu one for each: for that, write a check for each subscription")
	}
	if c.TTL != 0 && c.Proxy == nil {
		o.noteChange("ttl: left out, because Sensu ignores the TTL of a round-robin check, too")
		c.TTL = 0
	}
}

// entityNamed returns the Sensu entity with the given name from the imported files. It looks in the object's
// namespace, and returns nil if no entity has the name.
func (o *object) entityNamed(name string) *object {
	by := o.importer.objectsByKey
	return cmp.Or(by[resourceKey{"Entity", o.namespace, name}], by[resourceKey{"EntityConfig", o.namespace, name}])
}

// importHooks imports the hooks of a check. They are lists by result type [{critical: [name]}] or objects {type,
// hooks}.
func importHooks(o *object, c *model.CheckSpec) {
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
				o.noteLoss("hooks of type severity are not supported")
				continue
			}
			for _, hook := range byType[kind] {
				ref := musterName(hook)
				if o.findResource("Hook", ref) == nil {
					o.noteMissing("hook", hook, kind)
					continue
				}
				i, ok := at[ref]
				if !ok {
					i = len(c.Hooks)
					at[ref] = i
					c.Hooks = append(c.Hooks, model.Hook{Hook: ref})
				}
				c.Hooks[i].When = appendNew(c.Hooks[i].When, when)
			}
		}
	}
}

// importMetrics imports the metric format of a check, and the thresholds of its values.
func importMetrics(o *object, c *model.CheckSpec) {
	s := o.spec
	if format := s.text("output_metric_format"); format != "" {
		if ours := model.MetricFormatOfSensu(format); ours == "" {
			o.noteLoss("unknown output_metric_format %s", format)
		} else {
			c.Metrics = &model.Metrics{Format: ours, Tags: importMetricTags(o, s.objects("output_metric_tags"))}
		}
	}
	for _, t := range s.objects("output_metric_thresholds") {
		into := model.Threshold{Metric: t.text("name"), Tags: importMetricTags(o, t.objects("tags")),
			Missing: map[int]string{1: "warning", 2: "critical", 3: "unknown"}[t.integer("null_status")]}
		for _, rule := range t.objects("thresholds") {
			bounds := &model.Bounds{}
			for side, at := range map[string]struct {
				number **float64
				token  *string
			}{"min": {&bounds.Min, &bounds.MinToken}, "max": {&bounds.Max, &bounds.MaxToken}} {
				if text := rule.value(side); text != nil && text != "" {
					n, isNumber := numberOf(text)
					token, _ := text.(string)
					switch {
					case isNumber:
						*at.number = &n
					case strings.Contains(token, "{{"):
						*at.token = token
					default:
						o.noteLoss("threshold of %s: %v is not a number", into.Metric, text)
					}
				}
			}
			status := rule.integer("status")
			at := map[int]**model.Bounds{1: &into.Warning, 2: &into.Critical, 3: &into.Unknown}[status]
			switch {
			case status == 0 && rule.values["status"] != nil:
				o.noteChange("threshold of %s: left out, because status 0 raises no status, in Sensu neither", into.Metric)
			case at == nil:
				o.noteLoss("threshold of %s: expected status 1, 2 or 3", into.Metric)
			case *at == nil:
				*at = bounds
			case !mergeBounds(*at, bounds):
				o.noteLoss("threshold of %s: a second threshold of the same status", into.Metric)
			}
		}
		if into.Warning == nil && into.Critical == nil && into.Unknown == nil && into.Missing == "" {
			o.noteChange("threshold of %s: left out, because it has no min, max or null_status", into.Metric)
			continue
		}
		c.Thresholds = append(c.Thresholds, into)
	}
}

// mergeBounds fills the missing minimum or maximum of a metric's good range from another range. If both have
// the same side, it returns false.
func mergeBounds(bounds, more *model.Bounds) bool {
	if bounds.MinText() != "" && more.MinText() != "" || bounds.MaxText() != "" && more.MaxText() != "" {
		return false
	}
	bounds.Min, bounds.MinToken = cmp.Or(bounds.Min, more.Min), cmp.Or(bounds.MinToken, more.MinToken)
	bounds.Max, bounds.MaxToken = cmp.Or(bounds.Max, more.Max), cmp.Or(bounds.MaxToken, more.MaxToken)
	return true
}

// importMetricTags imports the tags of a check's metrics.
func importMetricTags(o *object, list []*objectFields) map[string]string {
	out := map[string]string{}
	for _, t := range list {
		out[t.text("name")] = t.text("value")
	}
	return nonEmpty(out)
}

// importRecipients imports the pipelines and handlers that receive the events of a Sensu check.
func importRecipients(o *object, c *model.CheckSpec) {
	for _, ref := range o.spec.objects("pipelines") {
		of := ref.reference()
		if o.findResource("Pipeline", musterName(of)) == nil {
			o.noteMissing("pipeline", of, "")
			continue
		}
		c.Pipelines = append(c.Pipelines, musterName(of))
	}
	for _, h := range o.spec.texts("handlers") {
		routeToHandler(o, c, h, nil)
	}
	for _, h := range o.spec.texts("output_metric_handlers") {
		routeToHandler(o, c, h, []string{model.FilterHasMetrics})
	}
}

// importCheckAssets adds the assets that a check names to the imported check. It notes assets, also of its hooks, that
// no machine can have together.
func importCheckAssets(o *object, c *model.CheckSpec) {
	c.Assets = assetsOf(o, "check")
	together := slices.Clone(c.Assets)
	for _, h := range c.Hooks {
		if hook := o.findResource("Hook", h.Hook); hook != nil {
			more := slices.DeleteFunc(slices.Clone(hook.Spec.(*model.HookSpec).Assets), func(a string) bool { return slices.Contains(together, a) })
			together = append(together, more...)
		}
	}
	for i, a := range together {
		for _, b := range together[:i] {
			if !assetsSharePlatform(o, a, b) {
				o.noteLoss("runtime_assets: no machine has an archive of %s and one of %s, so that the check is UNKNOWN everywhere: make one Asset of the builds of both, or two checks", b, a)
			}
		}
	}
}

// assetsOf returns the asset names of a check, hook, handler, mutator or filter.
func assetsOf(o *object, what string) (list []string) {
	for _, of := range o.spec.texts("runtime_assets") {
		addAsset(o, &list, of, what)
	}
	return list
}

// addAsset adds an asset name to the list of assets of an imported check, hook or handler. If the asset does
// not exist, it returns false.
func addAsset(o *object, list *[]string, of, what string) bool {
	ref := musterName(of)
	switch {
	case o.findResource("Asset", ref) == nil && o.importer.objectsByKey[resourceKey{"Asset", o.namespace, of}] != nil:
		o.noteLoss("asset %s was not imported: the %s runs without it", of, what)
		return false
	case o.findResource("Asset", ref) == nil:
		o.noteMissing("asset", of, "")
		return false
	case slices.Contains(*list, ref):
	case len(*list) == model.MaxAssets:
		o.noteLoss("asset %s: a %s has at most %d", of, what, model.MaxAssets)
		return false
	default:
		*list = append(*list, ref)
	}
	return true
}

// assetsSharePlatform reports whether one machine could use builds of both assets. So it compares the platforms of the
// builds.
func assetsSharePlatform(o *object, a, b string) bool {
	for _, x := range assetBuildsOf(o, a) {
		for _, y := range assetBuildsOf(o, b) {
			if _, ok := intersectPlatforms(x, y); ok {
				return true
			}
		}
	}
	return false
}

// assetBuildsOf returns the builds (one per platform) of an imported asset.
func assetBuildsOf(o *object, of string) []model.AssetBuild {
	return o.findResource("Asset", of).Spec.(*model.AssetSpec).Builds
}
