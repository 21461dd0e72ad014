package plan

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/route"
)

// policyTargets has the targets with which one Policy assigns one directive to nodes.
type policyTargets struct {
	*targets
	policy route.Name
}

// compileDirective compiles a Directive together with the components (checked parts) of its technique. The unit
// lands on the nodes of all policies that name it: a policy itself becomes no unit.
func compileDirective(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec, ns := d.spec.(*model.DirectiveSpec), d.key.Namespace
	found, at := c.resource("Technique", ns, spec.Technique)
	technique, _ := found.(*model.TechniqueSpec)
	if technique == nil { // intent refuses this; only another version has stored it
		technique = &model.TechniqueSpec{}
	}
	compiled, err := policy.Compile(technique, spec.Parameters)
	if err != nil {
		return nil, err
	}
	mode := spec.Mode
	switch reported := len(compiled.Components) > 0 && compiled.Components[0].Method == "rudder"; {
	case reported && spec.Rudder == "":
		return nil, model.Errorf(model.Invalid, "technique %s is for agents of Rudder, but the directive is not", at).WithHint("write rudder: ID, the id of the directive in Rudder").At("", "spec.technique")
	case spec.Rudder != "" && !reported:
		return nil, model.Errorf(model.Invalid, "technique %s is for agents of Muster, but the directive is for agents of Rudder", at).WithHint("leave rudder out, or import the technique: muster import rudder --bridge FILE").At("", "spec.rudder")
	case reported:
		mode = model.ModeAudit // here: Muster changes nothing
	}
	severity, _ := model.ParseSeverity(cmp.Or(spec.Severity, model.Average.String()))
	definition := &model.DirectiveDefinition{
		Definition: model.Definition{Unit: model.UnitID(d.id), Name: d.key.Name, Namespace: c.namespace(ns).ID},
		Technique:  at.String(), Mode: mode, Components: compiled.Components, Blocks: compiled.Blocks, Parameters: compiled.Parameters,
		Interval: time.Duration(spec.Interval), Cron: spec.Cron, TimeZone: spec.TimeZone, Splay: time.Duration(spec.Splay), Timeout: cmp.Or(time.Duration(spec.Timeout), model.DefaultPolicyTimeout),
		Heartbeat: time.Duration(spec.Heartbeat), Severity: severity, Grace: time.Duration(spec.Grace), Rudder: spec.Rudder,
	}
	switch {
	case spec.OneShot != nil:
		definition.OneShot = &model.OneShotWindow{FromUnixMs: unixMs(spec.OneShot.From), UntilUnixMs: unixMs(spec.OneShot.Until)}
	case spec.Cron == "":
		definition.Interval = cmp.Or(definition.Interval, model.DefaultPolicyInterval)
	default:
		definition.TimeZone = cmp.Or(spec.TimeZone, "UTC") // agents and server compute the same times
	}
	u := &unit{
		Unit: &directory.Unit{ID: model.UnitID(d.id), Kind: d.key.Kind, Name: d.name(), Labels: d.meta.Labels, Annotations: d.meta.Annotations,
			DisplayName: d.meta.DisplayName, Disabled: spec.Disabled},
		trustsFacts: spec.Trusted == model.TrustedFacts, needs: references{"Technique": {spec.Technique}},
	}
	if err := u.addSecrets(c, definition, compiled.Secrets, spec, at.Namespace); err != nil {
		return nil, err
	}
	if err := u.addAssets(c, definition, at.Namespace); err != nil {
		return nil, err
	}
	if err := u.addPolicies(c, d, definition); err != nil {
		return nil, err
	}
	if !technique.MultiInstance && len(u.policies) > 0 {
		u.precedence = &precedence{technique: at, priority: model.DefaultPriority, policy: u.policies[0].policy.String(), name: u.Name.String()}
		if spec.Priority != nil {
			u.precedence.priority = *spec.Priority
		}
	}
	u.steps = spec.Rollout
	u.body, err = directiveBody(definition.ToDefinition())
	return u, err
}

// unixMs converts a declared time to Unix ms. A time that is not set is zero.
func unixMs(t model.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// addSecrets adds the Secrets in a directive's parameters to its compiled form. A default is of the technique's
// namespace.
func (u *unit) addSecrets(c *unitCompiler, definition *model.DirectiveDefinition, secrets map[string]string, spec *model.DirectiveSpec, technique string) error {
	for _, parameter := range slices.Sorted(maps.Keys(secrets)) {
		ns := technique
		if _, own := spec.Parameters[parameter]; own {
			ns = u.Namespace
		}
		secret, ok := c.secret(ns, secrets[parameter], parameter)
		if !ok {
			return model.Errorf(model.Invalid, "parameter %s: there is no Secret %s", parameter, secret.Name).WithHint("declare it: muster explain secret").At("", "spec.parameters."+parameter)
		}
		definition.Secrets = append(definition.Secrets, secret)
		u.needs["Secret"] = append(u.needs["Secret"], secret.Name)
	}
	if len(definition.Secrets) > model.MaxCheckSecrets {
		return model.Errorf(model.Invalid, "the directive reads %d secrets, more than %d", len(definition.Secrets), model.MaxCheckSecrets)
	}
	return nil
}

// addAssets adds to a compiled directive the Assets that its components (checked parts) need. The components
// write files of these Assets to nodes.
func (u *unit) addAssets(c *unitCompiler, definition *model.DirectiveDefinition, technique string) error {
	for i := range definition.Components {
		component := &definition.Components[i]
		if component.Method != "fileContent" || !bytes.Contains(component.Arguments, []byte(`"asset"`)) {
			continue
		}
		m, err := model.NewMethod(component.Method, component.Arguments)
		if err != nil {
			return err
		}
		name := m.FileContent.Asset
		if name == "" || slices.ContainsFunc(definition.Assets, func(a model.DefinitionAsset) bool { return a.Name == name }) {
			continue
		}
		a, at, ok := c.asset(technique, name)
		if !ok { // intent refuses this; only another version has stored it
			return model.Errorf(model.Invalid, "component %s: there is no Asset %s", component.Name, at)
		}
		definition.Assets = append(definition.Assets, a)
		u.needs["Asset"] = append(u.needs["Asset"], at.String())
	}
	if len(definition.Assets) > model.MaxAssets {
		return model.Errorf(model.Invalid, "the directive has files of %d assets, more than %d", len(definition.Assets), model.MaxAssets)
	}
	return nil
}

// directiveBody returns a compiled directive with its size, and the properties that its components (checked
// parts) read.
func directiveBody(definition *model.Definition) (*body, error) {
	directive := definition.AsDirective()
	names, err := directive.PropertyNames()
	if err != nil {
		return nil, err
	}
	b := &body{definition: definition, properties: append([]string{model.NodeModeProperty}, names...)}
	if len(names) > 0 {
		b.try = directive.ExpandAll
	}
	b.size, err = definitionSize(definition)
	return b, err
}

// addPolicies adds to a compiled directive the targets of all policies that contain the directive. It also adds
// the receivers of the policies to the definition.
func (u *unit) addPolicies(c *unitCompiler, d *declaredResource, definition *model.DirectiveDefinition) error {
	var alert *model.PolicyAlert
	var alertOf string
	for _, p := range c.policiesOf(d.key) {
		spec := p.spec.(*model.PolicySpec)
		u.needs["Policy"] = append(u.needs["Policy"], p.Name.String())
		if spec.Disabled || d.spec.(*model.DirectiveSpec).Disabled {
			continue
		}
		if a := spec.Alert; a != nil {
			a = a.QualifyReferences(p.Namespace)
			if alert != nil && (alert.Route != a.Route || !slices.Equal(alert.Handlers, a.Handlers)) {
				return model.Errorf(model.Invalid, "policies %s and %s of the directive name different receivers of notifications", alertOf, p.Name).
					WithHint("write the same alert in both, or declare a second Directive of the technique")
			}
			alert, alertOf = a, p.Name.String()
		}
		t, err := c.targets(p.Namespace, spec.Targets)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		u.policies = append(u.policies, policyTargets{t, p.Name})
		for _, g := range t.groups {
			u.Groups = insert(u.Groups, g)
		}
		u.targets, u.HasTargets = &targets{}, true // the targets of policies select nodes
	}
	if alert != nil {
		definition.Handlers, definition.Route = alert.Handlers, alert.Route
		u.needs["Handler"] = alert.Handlers
		if alert.Route != "" {
			u.needs["Route"] = []string{alert.Route}
		}
	}
	return nil
}

// policiesOf returns the policies that name a directive, sorted by name.
func (c *unitCompiler) policiesOf(directive intent.Key) []*resourceDef {
	if c.policies == nil {
		return nil
	}
	return c.policies()[directive]
}

// directivesOf returns the names of the directives in a policy. It returns nil if the definition is no policy.
func directivesOf(def any) (list []intent.Key) {
	r, _ := def.(*resourceDef)
	if r == nil {
		return nil
	}
	spec, _ := r.spec.(*model.PolicySpec)
	if spec == nil {
		return nil
	}
	for _, text := range spec.Directives {
		ns, name := model.SplitRef(r.Namespace, text)
		list = append(list, intent.Key{Kind: "Directive", Namespace: ns, Name: name})
	}
	return list
}

// indexPolicies returns for each directive its policies after the changes. It visits all definitions, once for a list
// of changes that touches directives.
func (t *translation) indexPolicies(present map[intent.Key]any) map[intent.Key][]*resourceDef {
	index := map[intent.Key][]*resourceDef{}
	add := func(def any) {
		for _, key := range directivesOf(def) {
			index[key] = append(index[key], def.(*resourceDef))
		}
	}
	for key, def := range present {
		if _, changed := t.defs[key]; !changed && key.Kind == "Policy" {
			add(def)
		}
	}
	for _, def := range t.defs {
		add(def)
	}
	for _, list := range index {
		slices.SortFunc(list, func(a, b *resourceDef) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	}
	return index
}

// addDirectives adds the directives of each changed policy to the changed resources. So the directives are
// compiled again.
func (t *translation) addDirectives(present map[intent.Key]any) {
	for _, policy := range t.keys {
		for _, key := range append(directivesOf(present[policy]), directivesOf(t.defs[policy])...) {
			u, _ := present[key].(*unit)
			if _, changed := t.defs[key]; !changed && u != nil {
				t.set(key, u.source)
			}
		}
	}
}
