package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
)

// compileCheck compiles a Check into its targets and the definition that agents receive. Its definition
// contains the text of the Windows, Hooks, Secrets and Assets that the check names: an agent knows no other
// resources.
func compileCheck(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec, ns, id := d.spec.(*model.CheckSpec), d.key.Namespace, model.UnitID(d.id)
	definition, err := checkDefinition(c, d, spec)
	if err != nil {
		return nil, err
	}
	template, err := definition.Template()
	if err != nil {
		return nil, err
	}
	b := &body{definition: definition.ToDefinition(), properties: template.Names()}
	if b.size, err = definitionSize(b.definition); err != nil {
		return nil, err
	}
	if len(b.properties) > 0 && !definition.OwnEntity {
		b.try = func(values model.PropertyValues) error {
			if _, _, known := values(model.EntityProperty); definition.Sensu && !known {
				return nil // a Sensu agent expands the tokens
			}
			_, err := template.Expand(values)
			return err
		}
	}
	u := &unit{
		Unit: &directory.Unit{
			ID: id, Kind: d.key.Kind, Name: d.name(), Labels: d.meta.Labels, Annotations: d.meta.Annotations,
			DisplayName: d.meta.DisplayName, Runbook: spec.Runbook, Passive: spec.Passive, Disabled: spec.Disabled, Proxied: spec.Proxy != nil,
		},
		body:  b,
		needs: references{"Pipeline": spec.Pipelines, "Handler": definition.Handlers},
	}
	for _, name := range spec.DependsOn {
		u.DependsOn = append(u.DependsOn, splitName(ns, name))
	}
	for _, a := range definition.Assets {
		u.needs["Asset"] = append(u.needs["Asset"], a.Name)
	}
	for _, s := range spec.Secrets {
		u.needs["Secret"] = append(u.needs["Secret"], s.Secret)
	}
	for i := range spec.Hooks {
		if name := spec.Hooks[i].Hook; name != "" {
			u.needs["Hook"] = append(u.needs["Hook"], name)
		}
	}
	if definition.Route != "" {
		u.needs["Route"] = []string{definition.Route}
	}
	if spec.Targets != nil && !spec.Disabled {
		if u.targets, err = c.targets(ns, spec.Targets); err != nil {
			return nil, err
		}
		u.Groups, u.HasTargets = u.targets.groups, true
	}
	u.proxies, err = c.targets(ns, spec.Proxy)
	return u, err
}

// checkDefinition compiles a check to the definition that agents receive. The definition has the defaults, and the
// content of the resources that the check names. The ID comes later, see definitionStore.assignIDs.
func checkDefinition(c *unitCompiler, d *declaredResource, spec *model.CheckSpec) (*model.CheckDefinition, error) {
	ns := d.key.Namespace
	out := &model.CheckDefinition{
		Definition: model.Definition{Unit: model.UnitID(d.id), Name: d.key.Name, Namespace: c.namespace(ns).ID},
		Command:    spec.Command, Probe: spec.Probe,
		Interval: time.Duration(spec.Interval), Cron: spec.Cron, TimeZone: spec.TimeZone,
		Timeout: time.Duration(spec.Timeout), TTL: time.Duration(spec.TTL),
		Env: spec.Env, RunAs: spec.RunAs, MaxOutput: int(cmp.Or(spec.MaxOutput, model.DefaultOutputBytes)),
		FailAfter: 1, RecoverAfter: 1, Stdin: spec.Stdin, StdinEvent: spec.StdinEvent, Proxy: spec.Proxy != nil, RoundRobin: spec.RoundRobin,
		Metrics: metricSettings(spec), Thresholds: spec.Thresholds, Pipelines: spec.Pipelines, DiscardOutput: spec.DiscardOutput, Sensu: spec.Sensu,
	}
	if p := spec.Proxy; spec.Sensu && p != nil {
		out.OwnEntity = p.Where == "" && len(p.Groups) == 0
	}
	if out.Timeout == 0 {
		out.Timeout = spec.DefaultTimeout()
	}
	if a := spec.Alert; a != nil {
		out.FailAfter, out.RecoverAfter = uint32(max(a.FailAfter, 1)), uint32(max(a.RecoverAfter, 1))
		out.Handlers, out.Route = a.Handlers, a.Route
		if f := a.Flapping; f != nil {
			out.FlapStart, out.FlapEnd = uint32(f.Start), uint32(cmp.Or(f.End, f.Start/2))
		}
	}
	if err := setSeverities(out, spec.Severity); err != nil {
		return nil, err
	}
	if spec.Schedule != nil {
		for _, e := range spec.Schedule.Except {
			out.Except = append(out.Except, excludedTimes(c, ns, e))
		}
	}
	assets := slices.Clone(spec.Assets)
	for _, h := range spec.Hooks {
		if h.Hook != "" {
			found, at := c.resource("Hook", ns, h.Hook)
			hook, ok := found.(*model.HookSpec)
			if !ok {
				continue
			}
			for _, name := range hook.Assets {
				if at.Namespace != ns && !strings.Contains(name, "/") {
					name = at.Namespace + "/" + name
				}
				if !slices.Contains(assets, name) {
					assets = append(assets, name)
				}
			}
			h = model.Hook{Name: h.Title(), When: h.When, Command: hook.Command, Timeout: hook.Timeout, Stdin: hook.Stdin}
		}
		out.Hooks = append(out.Hooks, h)
	}
	for _, s := range spec.Secrets {
		secret, _ := c.secret(ns, s.Secret, s.Env)
		out.Secrets = append(out.Secrets, secret)
	}
	if len(assets) > model.MaxAssets {
		return nil, model.Errorf(model.Invalid, "the check and its hooks name %d assets, more than %d", len(assets), model.MaxAssets)
	}
	for i, name := range assets {
		if a, _, ok := c.asset(ns, name); ok {
			a.HooksOnly = i >= len(spec.Assets)
			out.Assets = append(out.Assets, a)
		}
	}
	return out, nil
}

// secret returns a Secret in the form that agents receive. Agents read its value on their node or ask the server for
// it. `as` is the name of the variable or parameter. ok is false if the Secret does not exist.
func (c *unitCompiler) secret(namespace, name, as string) (known model.DefinitionSecret, ok bool) {
	found, at := c.resource("Secret", namespace, name)
	known = model.DefinitionSecret{Env: as, Name: at.String()}
	spec, ok := found.(*model.SecretSpec)
	if ok {
		known.AgentEnv, known.AgentFile = spec.AgentEnv, spec.AgentFile
	}
	return known, ok
}

// asset returns an Asset in the form that agents receive. The form lacks the addresses from which the server downloads
// the archives. ok is false if the Asset does not exist.
func (c *unitCompiler) asset(namespace, name string) (a model.DefinitionAsset, at route.Name, ok bool) {
	found, at := c.resource("Asset", namespace, name)
	spec, ok := found.(*model.AssetSpec)
	if !ok {
		return a, at, false
	}
	a.Name = name
	for _, b := range spec.Builds {
		b.URL = ""
		a.Builds = append(a.Builds, b)
	}
	return a, at, true
}

// setSeverities sets which severity each status of a check has. It takes the declared severity or the default.
func setSeverities(c *model.CheckDefinition, declared map[string]string) error {
	for s := range c.Severities {
		c.Severities[s] = model.DefaultSeverity(model.Status(s))
	}
	for from, to := range declared {
		status, ok := model.ParseStatus(from)
		if !ok {
			return model.Errorf(model.Invalid, "severity: unknown status %q: use ok, warning, critical or unknown", from).
				WithHint("write ok, warning, critical or unknown")
		}
		severity, ok := model.ParseSeverity(to)
		if !ok {
			return model.Errorf(model.Invalid, "severity: unknown severity %q", to).
				WithHint("write not classified, information, warning, average, high or disaster")
		}
		c.Severities[status] = severity
	}
	return nil
}

// excludedTimes returns the calendar of the times at which a check must not run
func excludedTimes(c *unitCompiler, ns string, e model.ScheduleException) model.Span {
	if e.Window == "" {
		return window.SpanOfLine(e.During, c.namespace(ns).Zone)
	}
	found, at := c.resource("Window", ns, e.Window)
	w, ok := found.(*model.WindowSpec)
	if !ok {
		return model.Span{}
	}
	return model.Span{Zone: cmp.Or(w.TimeZone, c.namespace(at.Namespace).Zone), Spans: w.Spans}
}

// definitionSize returns the encoded size of a compiled check. It returns an error if no agent could read the check.
func definitionSize(c *model.Definition) (int, error) {
	data := wire.AppendDefinition(nil, c)
	if _, err := wire.DecodeDefinition(0, data); err != nil {
		return 0, model.Errorf(model.Invalid, "the compiled %s is too large for agents: %w", c.Name, err).
			WithHint("shorten the definition: move long commands to a script on the nodes")
	}
	return len(data), nil
}

// splitName splits the name of a resource, NAMESPACE/NAME or NAME, into its two parts. A name without a namespace gets
// ns.
func splitName(ns, name string) (n route.Name) {
	n.Namespace, n.Name = model.SplitRef(ns, name)
	return n
}

// unit is one compiled resource that the planner assigns to nodes, such as a check or directive. The planner assigns
// units to nodes. A unit is immutable: an edit of the resource makes a new one. The passes of the planner know nothing
// else about a kind.
type unit struct {
	*directory.Unit                    // kind, id, name: everything that readers see
	targets         *targets           // nodes that run the unit; nil: it lands on no node
	policies        []policyTargets    // of a directive: the nodes that policies put it on, in place of targets
	trustsFacts     bool               // of a directive: it enforces also on nodes that values of the machine select
	precedence      *precedence        // of a directive whose technique runs once on a node; nil: it overrides none
	proxies         *targets           // proxy nodes that the check reports about; nil: it reports about the nodes that run it
	*body                              // the body that nodes run now
	next            *rollout           // a second body that some nodes run instead; nil: all nodes run the first
	steps           *model.RolloutSpec // how a new body reaches the nodes; nil: all nodes run it at once

	source *declaredResource // resource of this unit; it is compiled again when a resource in uses changes
	uses   []intent.Key      // other resources whose text is part of the body
	needs  references        // resources that the unit names, counted by their Placement
}

// body is the compiled content of a check in one version, which agents receive. During a gradual roll-out a check has
// two versions.
type body struct {
	definition *model.Definition
	size       int      // length of the encoded definition, in bytes
	properties []string // names of the properties that the body reads, ascending
	// try runs the body's templates with the properties of a node, as the agent will. Its error says why the
	// agent cannot run the body. It is nil if the body reads no properties.
	try func(model.PropertyValues) error
}

// runsNewVersion reports whether a node already runs the new version of a check in a gradual roll-out. A nil unit has
// no second body.
func (u *unit) runsNewVersion(n *node) bool {
	return u != nil && u.next != nil && u.next.includes(n)
}

// bodyFor returns the compiled version of a check, old or new, that nodes with a given unitSet run.
func (u *unit) bodyFor(s *unitSet) *body {
	if u.next != nil && s.runsNewVersion(u.ID) {
		return u.next.body
	}
	return u.body
}

// targetLists returns the targets of a check, separately for the running nodes and for the proxy nodes. One
// list is for the nodes that run the check, one for its proxy nodes. Missing targets give no list.
func (u *unit) targetLists() (list []*targets) {
	if u == nil || u.targets == nil {
		return nil
	}
	list = append(list, u.targets)
	for i := range u.policies {
		list = append(list, u.policies[i].targets)
	}
	if u.proxies != nil {
		list = append(list, u.proxies)
	}
	return list
}

// references has the names of all resources that one resource refers to, by kind. A name is written as in the
// namespace of the needing resource.
type references map[string][]string

// propertiesRead returns the names of the properties that the templates of a check read.
func (u *unit) propertiesRead() []string {
	if u.next == nil {
		return u.properties
	}
	return append(u.properties[:len(u.properties):len(u.properties)], u.next.properties...)
}

// metricSettings returns the settings by which the agent parses metrics from a check's output. Nil: it parses
// none, and the server reads the performance data. The agent parses them if thresholds need them, or if it
// drops the output.
func metricSettings(spec *model.CheckSpec) *model.Metrics {
	switch m := spec.Metrics; {
	case m == nil && (spec.Sensu || len(spec.Thresholds) == 0 && !spec.DiscardOutput):
		return nil
	case m == nil:
		return &model.Metrics{Format: model.MetricFormats[0]}
	case m.Format == "":
		return &model.Metrics{Format: model.MetricFormats[0], Tags: m.Tags}
	default:
		return m
	}
}
