package rudderimport

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// importDirective converts a directive of Rudder. Its technique is in the imported files.
func (im *importer) importDirective(p *conversion.Mapping) {
	im.result.Counts.Directives++
	id, title := p.TextOf("id"), p.TextOf("displayName")
	what := "directive " + title
	technique := im.techniques[p.TextOf("techniqueName")]
	p.IgnoreFields("shortDescription", "longDescription", "techniqueVersion", "security", "policyMode", "parameters", "priority", "tags")
	switch {
	case p.TextOf("system") == "true":
		im.noteLoss(p, what, "left out: a directive of Rudder itself")
		return
	case technique == nil:
		im.noteLoss(p, what, "left out: technique %s is not in the files, or was left out; techniques that are built into Rudder have no YAML", p.TextOf("techniqueName"))
		return
	case id == "" || im.directives[id] != "":
		im.noteLoss(p, what, "left out: it has no id, or another directive has it")
		return
	}
	spec := &model.DirectiveSpec{Technique: technique.name, Disabled: p.TextOf("enabled") == "false"}
	if schedule := p.TextOf("scheduleId"); schedule != "" {
		if err := im.addSchedule(p, what, schedule, spec); err != nil {
			im.noteLoss(p, what, "left out: %v", err)
			return
		}
	}
	if n, err := strconv.Atoi(p.TextOf("priority")); err == nil && n != model.DefaultPriority {
		spec.Priority = &n
	}
	if im.Bridge {
		spec.Rudder = id
	} else {
		if mode := p.TextOf("policyMode"); mode == model.ModeAudit || mode == model.ModeEnforce {
			spec.Mode = mode
		}
		if parameters := p.Child("parameters"); parameters != nil {
			im.importValues(parameters, what, technique, spec)
		}
		for i := range technique.spec.Parameters {
			parameter := &technique.spec.Parameters[i]
			if _, ok := spec.Parameters[parameter.Name]; !ok && parameter.Default == nil {
				im.noteLoss(p, what, "left out: it has no value for parameter %s", parameter.Name)
				return
			}
		}
	}
	im.noteUnreadFields(p, what)
	name := im.unusedName("Directive", title, id)
	if im.addLabelled(p, "Directive", name, title, im.labelsOf(p, what), spec) {
		im.directives[id] = name
	}
}

// labelsOf reads the tags of a Rudder directive as labels. Each mapping of the list has one tag.
func (im *importer) labelsOf(p *conversion.Mapping, what string) map[string]string {
	labels := map[string]string{}
	for _, one := range p.List("tags") {
		for _, name := range one.Names() {
			value := conversion.OneLine(one.TextOf(name))
			if !model.IsLabelName(name) {
				im.noteLoss(one, what, "tag %s left out: the name is not valid for a label", name)
				continue
			}
			if value != one.TextOf(name) {
				im.noteChange(one, what, "tag %s was shortened to one line of %d bytes", name, model.MaxText)
			}
			labels[name] = value
		}
	}
	return labels
}

// importValues reads parameter values from the sections of a Rudder directive.
func (im *importer) importValues(p *conversion.Mapping, what string, t *technique, spec *model.DirectiveSpec) {
	section := p.Child("section")
	if section == nil {
		section = p
	}
	for _, one := range section.List("vars") {
		v := one.Child("var")
		if v == nil {
			continue
		}
		id, value := v.TextOf("name"), v.TextOf("value")
		name, known := t.parameters[strings.ToLower(id)]
		text, err := t.expandVariables(value, nil)
		switch {
		case !known:
			im.noteLoss(v, what, "value of %s left out: the technique has no such parameter here", id)
		case err != nil:
			im.noteLoss(v, what, "value of %s left out: %v", name, err)
		default:
			i := slices.IndexFunc(t.spec.Parameters, func(p model.Parameter) bool { return p.Name == name })
			if value == "" && t.spec.Parameters[i].Default != nil {
				continue // Rudder writes empty values where the default counts
			}
			if err := policy.CheckParameter(&t.spec.Parameters[i], model.ParameterValue{Text: model.Scalar(text)}); err != nil {
				im.noteLoss(v, what, "value left out: %v", err)
				continue
			}
			if spec.Parameters == nil {
				spec.Parameters = map[string]model.ParameterValue{}
			}
			spec.Parameters[name] = model.ParameterValue{Text: model.Scalar(text)}
		}
	}
	for _, one := range section.List("sections") {
		im.importValues(one, what, t, spec)
	}
}

// importRule converts a rule of Rudder to a policy of Muster.
func (im *importer) importRule(p *conversion.Mapping) {
	im.result.Counts.Rules++
	title := p.TextOf("displayName")
	what := "rule " + title
	p.IgnoreFields("id", "shortDescription", "longDescription", "categoryId", "category", "tags", "security", "policyMode", "status")
	if p.TextOf("system") == "true" {
		im.noteLoss(p, what, "left out: a rule of Rudder itself")
		return
	}
	if id := p.TextOf("id"); id != "" && im.rules[id] {
		im.noteLoss(p, what, "left out: another rule has this id")
		return
	}
	im.rules[p.TextOf("id")] = true
	spec := &model.PolicySpec{Disabled: p.TextOf("enabled") == "false"}
	for _, id := range p.Texts("directives") {
		if name := im.directives[id]; name != "" {
			spec.Directives = append(spec.Directives, name)
		} else {
			im.noteLoss(p, what, "directive %s was left out", id)
		}
	}
	targets, err := im.convertTargets(p)
	im.noteUnreadFields(p, what)
	switch {
	case len(spec.Directives) == 0:
		im.noteLoss(p, what, "left out: no directive remains")
		return
	case err != nil:
		im.noteLoss(p, what, "left out: %v", err)
		return
	}
	spec.Targets = targets
	im.addResource(p, "Policy", im.unusedName("Policy", title, p.TextOf("id")), title, spec)
}

// convertTargets converts the targets of a rule to targets of a policy. The targets are names, or an inclusion less an
// exclusion.
func (im *importer) convertTargets(p *conversion.Mapping) (*model.Targets, error) {
	list := p.Field("targets")
	if list == nil {
		return nil, fmt.Errorf("the rule has no targets")
	}
	out := &model.Targets{}
	for _, one := range list.Items() {
		if !one.IsMapping() {
			group, err := im.convertTarget(one.Text())
			if err != nil {
				return nil, err
			}
			out.Groups = append(out.Groups, group)
			continue
		}
		composite := conversion.NewMapping(p.File, one)
		if len(list.Items()) > 1 {
			return nil, fmt.Errorf("a rule with several targets, of which one has exceptions, cannot become one Policy")
		}
		included, err := im.convertComposition(composite.Child("include"))
		if err != nil {
			return nil, err
		}
		excluded, err := im.convertComposition(composite.Child("exclude"))
		if err != nil {
			return nil, err
		}
		if out.Groups = included; len(excluded) > 0 {
			out.Except = &model.Targets{Groups: excluded}
		}
	}
	if len(out.Groups) == 0 {
		return nil, fmt.Errorf("the rule has no targets")
	}
	return out, nil
}

// convertComposition returns the groups in an inclusion or exclusion of a Rudder rule.
func (im *importer) convertComposition(p *conversion.Mapping) (groups []string, err error) {
	if p == nil {
		return nil, nil
	}
	all := p.Texts("and")
	if len(all) > 1 {
		return nil, fmt.Errorf("an intersection of several groups has no equivalent in a Muster policy; write a group with a condition")
	}
	for _, target := range append(all, p.Texts("or")...) {
		group, err := im.convertTarget(target)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// convertTarget converts one target of a Rudder rule to the name of a group.
func (im *importer) convertTarget(target string) (string, error) {
	switch id, isGroup := strings.CutPrefix(target, "group:"); {
	case isGroup && im.groups[id] != "":
		return im.groups[id], nil
	case isGroup:
		return "", fmt.Errorf("group %s is not in the imported files, or was left out of the import", id)
	case target == "special:all" || target == "special:all_exceptPolicyServers":
		if im.Bridge {
			return bridgeGroup, nil
		}
		return "all", nil
	}
	return "", fmt.Errorf("target %s has no equivalent in Muster", target)
}
