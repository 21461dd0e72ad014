package kind

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// Technique returns the resource kind Technique, a list of configuration methods with parameters. The
// components keep that part as declared.
func Technique() Kind {
	return Define(Definition[*model.TechniqueSpec]{
		KindInfo: model.KindInfo{Name: "Technique", Plural: "techniques", Short: "tq", Namespaced: true},
		Users:    true,
		Example: `kind: Technique
metadata: {name: sshd}
spec:
  parameters:
    - {name: permitRoot, oneOf: ["no", prohibit-password], default: "no"}
  methods:
    - component: root login
      fileKeyValue: {path: /etc/ssh/sshd_config, key: PermitRootLogin, value: "{{ .params.permitRoot }}", separator: " "}
    - component: service
      service: {name: ssh, state: running}
`,
		Validate: validateTechnique,
		Columns: []Column[*model.TechniqueSpec]{
			{"USED BY", 0, func(v ResourceView, _ *model.TechniqueSpec) string {
				return dashIfEmpty(strings.Replace(v.State.UsedBy, "check", "directive", 1))
			}},
			{"METHODS", 0, func(_ ResourceView, s *model.TechniqueSpec) string { return fmt.Sprint(len(s.Methods)) }},
			{"DESCRIPTION", 60, func(_ ResourceView, s *model.TechniqueSpec) string { return dashIfEmpty(s.Description) }},
		},
		Effect: func(_ *model.Resource, s *model.TechniqueSpec, l ResourceUsage, _ bool) (note, warning string) {
			model.EachMethod(s.Methods, "", func(_ string, m *model.Method) {
				if m.Mode == model.ModeEnforce && warning == "" {
					warning = "component " + m.Component + " has mode: enforce, so it changes nodes also for directives that audit. Remove the mode unless this is intended"
				}
			})
			if l.Checks == 0 {
				return "used by no directive yet", warning
			}
			return "used by " + model.CountNoun(l.Checks, "directive"), warning
		},
		Details: func(_ ResourceView, s *model.TechniqueSpec) (list []Detail) {
			for i := range s.Parameters {
				p := &s.Parameters[i]
				text := p.Name + "  " + cmp.Or(p.Type, "string")
				if p.Default != nil {
					text += ", default " + strconv.Quote(p.Default.String())
				}
				list = append(list, Detail{"parameter", text})
			}
			return append(list, componentDetails(s.Methods, "")...)
		},
	})
}

// componentDetails returns the lines that `muster describe` prints about the components (checked parts) of a
// technique. The components of a block follow it, and its name precedes theirs.
func componentDetails(methods []model.Method, prefix string) (list []Detail) {
	for i := range methods {
		m := &methods[i]
		names, _ := m.Selected()
		text, word := prefix+m.Component+"  "+strings.Join(names, ", "), "component"
		if m.Block != nil {
			text, word = prefix+m.Component+"  "+cmp.Or(m.Reporting, model.ReportWeighted.String()), "block"
			if m.Focus != "" {
				text += " on " + m.Focus
			}
		} else if m.Reporting != "" {
			text += ", reporting disabled"
		}
		if m.Mode != "" {
			text += "  mode " + m.Mode
		}
		if m.ForEach != "" {
			text += "  for each of " + m.ForEach
		}
		if m.When != "" {
			text += "  when " + m.When
		}
		list = append(list, Detail{word, text})
		list = append(list, componentDetails(m.Block, prefix+m.Component+"/")...)
	}
	return list
}

// Directive returns the resource kind Directive, a technique with values for its parameters.
func Directive() Kind {
	return Define(Definition[*model.DirectiveSpec]{
		KindInfo: model.KindInfo{Name: "Directive", Plural: "directives", Short: "di", Namespaced: true},
		Unit:     model.DefinitionDirective,
		LandsAs:  "holds",
		Example: `kind: Directive
metadata: {name: sshd-no-root}
spec:
  technique: sshd
  parameters: {permitRoot: "no"}
  mode: audit
`,
		Validate: validateDirective,
		References: func(refs *References, s *model.DirectiveSpec) {
			if s.Rollout != nil {
				for i, step := range s.Rollout.Steps {
					if _, share := model.ParseShare(step); !share {
						refs.AddOptional("Group", fmt.Sprintf("spec.rollout.steps[%d]", i), step)
					}
				}
			}
		},
		Columns: []Column[*model.DirectiveSpec]{
			nodesColumn[*model.DirectiveSpec](),
			{"TECHNIQUE", 40, func(_ ResourceView, s *model.DirectiveSpec) string { return s.Technique }},
			{"MODE", 0, func(_ ResourceView, s *model.DirectiveSpec) string { return cmp.Or(s.Mode, "of the node") }},
		},
		Details: func(_ ResourceView, s *model.DirectiveSpec) []Detail {
			list := []Detail{{"technique", s.Technique}, {"mode", cmp.Or(s.Mode, "of the node")}, {"runs", directiveScheduleText(s)}}
			for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
				list = append(list, Detail{"parameter", name + "  " + s.Parameters[name].String()})
			}
			return list
		},
		Effect: func(_ *model.Resource, s *model.DirectiveSpec, l ResourceUsage, _ bool) (note, warning string) {
			switch {
			case s.Disabled:
				return "disabled: holds no node", ""
			case l.Nodes == 0 && len(l.OverriddenBy) > 0:
				return "holds no node; " + l.overriddenText(), "other directives of technique " + s.Technique + " run in its place. Lower spec.priority, or write multiInstance: true in the technique"
			case l.Nodes == 0:
				return "holds no node", "no policy puts it on a node. Write a Policy that names it: muster explain policy"
			}
			return joinNonEmpty("; ", "holds "+l.nodesText(), l.overriddenText(), l.auditOnlyText()), l.AuditOnlyWarning()
		},
	})
}

// directiveScheduleText says when or how often a directive runs.
func directiveScheduleText(s *model.DirectiveSpec) string {
	if s.OneShot != nil {
		text := "once"
		if !s.OneShot.From.IsZero() {
			text += " from " + s.OneShot.From.Format(time.RFC3339)
		}
		if !s.OneShot.Until.IsZero() {
			text += " until " + s.OneShot.Until.Format(time.RFC3339)
		}
		if s.Splay > 0 {
			text += ", spread over " + s.Splay.String()
		}
		return text
	}
	if s.Cron == "" {
		text := "every " + cmp.Or(s.Interval, model.Duration(model.DefaultPolicyInterval)).String()
		if s.Heartbeat > 0 {
			text += "; equal runs are reported every " + s.Heartbeat.String()
		}
		return text
	}
	text := fmt.Sprintf("at %s (%s)", s.Cron, cmp.Or(s.TimeZone, "UTC"))
	if s.Splay > 0 {
		text += ", spread over " + s.Splay.String()
	}
	return text
}

// Policy returns the resource kind Policy, which assigns a list of directives to nodes.
func Policy() Kind {
	return Define(Definition[*model.PolicySpec]{
		KindInfo: model.KindInfo{Name: "Policy", Plural: "policies", Short: "po", Namespaced: true},
		Example: `kind: Policy
metadata: {name: baseline}
spec:
  directives: [sshd-no-root]
  targets: {groups: [all], except: {groups: [lab]}}
  alert: {route: oncall}
`,
		Validate: validatePolicy,
		Columns: []Column[*model.PolicySpec]{
			nodesColumn[*model.PolicySpec](),
			{"DIRECTIVES", 60, func(_ ResourceView, s *model.PolicySpec) string { return strings.Join(s.Directives, ", ") }},
			{"TARGETS", 40, func(_ ResourceView, s *model.PolicySpec) string { return targetText(s.Targets) }},
		},
		Details: func(_ ResourceView, s *model.PolicySpec) []Detail {
			return []Detail{{"directives", strings.Join(s.Directives, ", ")}, {"targets", targetText(s.Targets)}}
		},
		Effect: func(_ *model.Resource, s *model.PolicySpec, l ResourceUsage, _ bool) (note, warning string) {
			directives := model.CountNoun(len(s.Directives), "directive")
			switch {
			case s.Disabled:
				return "disabled: puts nothing on nodes", ""
			case l.Nodes == 0:
				return "puts " + directives + " on no node", "no node matches the targets of the policy. List nodes: muster get nodes"
			}
			return "puts " + directives + " on " + l.nodesText() + "; see them: muster get compliance", ""
		},
	})
}

// Bounds of policies; the protocol has them, too.
const (
	maxMethods        = 5000
	maxArguments      = 64 << 10 // bytes of a method's arguments in JSON
	minPolicyInterval = model.Duration(10 * time.Second)
	maxPolicyTimeout  = model.Duration(time.Hour)
	// maxPolicyHeartbeat bounds the time after which a silent node is noticed.
	maxPolicyHeartbeat = model.Duration(24 * time.Hour)
	maxPolicyGrace     = model.Duration(30 * 24 * time.Hour)
	maxPriority        = 10
	maxPolicySplay     = model.Duration(24 * time.Hour)
	maxBlocks          = 8 // in each other
)

// validateTechnique validates the spec of a Technique.
func validateTechnique(v *Validator, s *model.TechniqueSpec) {
	v.RequireLine("spec.description", s.Description, model.MaxText)
	v.LimitElements("spec.parameters", len(s.Parameters))
	names := map[string]bool{}
	for i := range s.Parameters {
		validateParameter(v, fmt.Sprintf("spec.parameters[%d]", i), &s.Parameters[i], names)
	}
	v.MissingIf(len(s.Methods) == 0, "spec.methods", "write a list such as [{component: motd, filePresent: {path: /etc/motd}}]", "missing")
	t := methodValidator{Validator: v, technique: s, before: map[string]bool{}}
	t.validateMethods("spec.methods", s.Methods, nil)
	v.FlawIf(t.count > maxMethods, "spec.methods", "divide the technique", "%d methods, at most %d", t.count, maxMethods)
	validateRudderTechnique(v, s)
}

// validateRudderTechnique records an error if Rudder agents can run some but not all components of a technique.
// It also refuses conditions and loops on components of Rudder.
func validateRudderTechnique(v *Validator, s *model.TechniqueSpec) {
	theirs, ours, modes := false, false, false
	model.EachMethod(s.Methods, "spec.methods", func(at string, m *model.Method) {
		theirs, ours, modes = theirs || m.Rudder != nil, ours || m.Rudder == nil && m.Block == nil, modes || m.Mode != ""
		v.FlawIf(m.Rudder != nil && m.When+m.ForEach != "", at, "remove when and forEach", "Rudder's agents have the condition and the loop, and report what came of them")
	})
	v.FlawIf(theirs && modes, "spec.methods", "remove mode", "Rudder decides in which mode its agents run a component")
	v.FlawIf(theirs && ours, "spec.methods", "divide the technique", "Rudder's agents run either all components of a technique or none")
}

// validateParameter validates one parameter of a technique. names has the names of those before it.
func validateParameter(v *Validator, at string, p *model.Parameter, names map[string]bool) {
	v.requireUniqueTitle(at+".name", "parameter", p.Name, "write a name such as path", names)
	if p.Name != "" {
		v.recordCompileError(at+".name", model.PropertyNameError(p.Name))
	}
	v.requireOneOf(at+".type", p.Type, "string", "integer", "boolean", "list", "map", model.SecretParameter)
	v.RequireLine(at+".description", p.Description, model.MaxText)
	v.LimitElements(at+".oneOf", len(p.OneOf))
	v.FlawIf((p.Min != nil || p.Max != nil) && p.Type != "integer" && !p.IsLoop(), at, "write type: integer, list or map", "min and max are those of a number, or of a number of elements")
	v.FlawIf(p.Type == model.SecretParameter && (len(p.OneOf) > 0 || p.Pattern != ""), at, "remove oneOf and pattern", "nobody tests a secret value")
	v.FlawIf(p.Min != nil && p.Max != nil && *p.Min > *p.Max, at+".min", "", "%d is above max", valueOr(p.Min))
	if p.Pattern != "" {
		if _, err := policy.CompilePattern(p.Pattern); err != nil {
			v.recordCompileError(at+".pattern", err)
			return
		}
	}
	if p.Default != nil {
		v.recordCompileError(at+".default", policy.CheckParameter(p, *p.Default))
	}
}

// valueOr returns the number behind a pointer, or zero for a nil pointer.
func valueOr(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// methodValidator validates the components of a policy technique.
type methodValidator struct {
	*Validator
	technique *model.TechniqueSpec
	before    map[string]bool // names of the components so far, as BLOCK/COMPONENT
	count     int
	loop      bool // around the component
}

// parameter returns a parameter of the policy technique, or nil if the technique has none of that name.
func (t *methodValidator) parameter(name string) *model.Parameter {
	i := slices.IndexFunc(t.technique.Parameters, func(p model.Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &t.technique.Parameters[i]
}

// validateMethods validates the components (method calls) of a technique, or of a block in the technique.
// prefixes begin the names of components in this block and in the blocks around it, the innermost first.
func (t *methodValidator) validateMethods(at string, methods []model.Method, prefixes []string) {
	if len(prefixes) > maxBlocks {
		t.Flaw(at, "", "more than %d blocks in each other", maxBlocks)
		return
	}
	own := map[string]bool{}
	prefixes = append(slices.Clip(prefixes), "")
	for i := range methods {
		field := fmt.Sprintf("%s[%d]", at, i)
		t.requireUniqueTitle(field+".component", "component", methods[i].Component, "write a name such as root login", own)
		t.validateMethod(field, &methods[i], prefixes)
		t.before[prefixes[0]+methods[i].Component] = true
	}
}

// validateMethod validates one component (method call) or block of a technique.
func (t *methodValidator) validateMethod(at string, m *model.Method, prefixes []string) {
	t.count++
	t.validateCondition(at+".when", m.When, prefixes)
	if m.Report != nil {
		t.MissingIf(m.Report.If == "", at+".report.if", `write a condition such as ok("root login")`, "missing")
		t.validateCondition(at+".report.if", m.Report.If, prefixes)
	}
	around := t.loop
	if m.ForEach != "" {
		p := t.parameter(m.ForEach)
		t.FlawIf(p == nil, at+".forEach", "declare it in spec.parameters", "the technique has no parameter %q", m.ForEach)
		t.FlawIf(p != nil && !p.IsLoop(), at+".forEach", "write type: list or map in the parameter", "parameter %s is no list and no map", m.ForEach)
		t.loop = true
	}
	defer func() { t.loop = around }()
	t.requireOneOf(at+".reporting", m.Reporting, model.Reportings()...)
	t.requireOneOf(at+".mode", m.Mode, model.ModeAudit, model.ModeEnforce)
	names, arguments := m.Selected()
	if m.Block != nil {
		t.FlawIf(len(names) > 0, at, "put the method into the block", "block and %s exclude each other", strings.Join(names, " and "))
		t.MissingIf(len(m.Block) == 0, at+".block", "write a list of components", "missing")
		t.validateFocus(at, m)
		t.validateMethods(at+".block", m.Block, append([]string{prefixes[0] + m.Component + "/"}, prefixes[:len(prefixes)-1]...))
		return
	}
	t.FlawIf(m.Reporting != "" && m.Reporting != model.ReportDisabled.String(), at+".reporting", "write block: [COMPONENTS]", "%s is a mode of blocks", m.Reporting)
	t.FlawIf(m.Focus != "", at+".focus", "write block: [COMPONENTS]", "only a block has a focus")
	t.MissingIf(len(names) == 0, at, "write one such as filePresent: {path: /etc/motd}; list them: muster explain technique.methods", "the method is missing")
	t.FlawIf(len(names) > 1, at, "make a component of each", "%s exclude each other", strings.Join(names, " and "))
	if len(names) == 1 {
		t.validateArgumentsOf(at+"."+names[0], names[0], arguments[0])
	}
}

// validateCondition validates the condition under which a component of a technique applies, or accepts an
// absent condition.
func (t *methodValidator) validateCondition(at, text string, prefixes []string) {
	if text == "" {
		return
	}
	t.FlawIf(len(text) > policy.MaxCondition, at, "", "longer than %d bytes", policy.MaxCondition)
	condition, err := policy.ParseCondition(text)
	t.recordCompileError(at, err)
	if err != nil {
		return
	}
	for _, name := range condition.Components() {
		known := slices.ContainsFunc(prefixes, func(prefix string) bool { return t.before[prefix+name] })
		t.FlawIf(!known, at, "name a component that stands before this one", "no component %q runs before", name)
	}
}

// validateFocus validates the field focus, the name of the one component that alone decides a block's
// compliance.
func (t *methodValidator) validateFocus(at string, m *model.Method) {
	focuses := m.Reporting == model.ReportFocus.String()
	t.MissingIf(focuses && m.Focus == "", at+".focus", "write the name of a component of the block", "missing")
	t.FlawIf(!focuses && m.Focus != "", at+".focus", "write reporting: focus", "the block has another mode of reporting")
	known := slices.ContainsFunc(m.Block, func(inner model.Method) bool { return inner.Component == m.Focus })
	t.FlawIf(m.Focus != "" && !known, at+".focus", "write the name of a component of the block", "the block has no component %q", m.Focus)
}

// validateArgumentsOf validates the arguments of a method and the variables in its texts.
func (t *methodValidator) validateArgumentsOf(at, method string, arguments any) {
	validateArguments(t.Validator, at, arguments)
	data, err := json.Marshal(arguments)
	if err != nil {
		t.Flaw(at, "", "%v", err)
		return
	}
	t.FlawIf(len(data) > maxArguments, at, "", "longer than %d bytes", maxArguments)
	_, err = model.EachMethodText(method, data, func(text string, shell bool) (string, error) {
		template, err := model.ParseMethodTemplate(text, shell)
		if err != nil {
			return "", err
		}
		for _, name := range template.Names() {
			if _, ok := model.ItemField(name); ok && !t.loop {
				return "", errors.New("{{ .item }} stands outside of a loop: write forEach: PARAMETER")
			}
			name, ok := strings.CutPrefix(name, model.ParameterPrefix)
			if !ok {
				continue
			}
			switch p := t.parameter(name); {
			case p == nil:
				return "", fmt.Errorf("the technique has no parameter %q", name)
			case p.IsLoop():
				return "", fmt.Errorf("parameter %s has the type %s: write forEach: %s and use {{ .item }} in the texts", name, p.Type, name)
			}
		}
		return text, nil
	})
	t.recordCompileError(at, err)
	t.validateSecretFields(at, method, data)
}

// validateSecretFields allows secret parameters only in the contents of files. Commands and paths show in lists of
// processes and in reports.
func (t *methodValidator) validateSecretFields(at, method string, arguments []byte) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(arguments, &fields) != nil {
		return // validateArgumentsOf has made it
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if strings.HasPrefix(method, "file") && slices.Contains([]string{"content", "lines", "value"}, field) {
			continue
		}
		for i := range t.technique.Parameters {
			if p := &t.technique.Parameters[i]; p.Type == model.SecretParameter && bytes.Contains(fields[field], []byte("{{")) {
				definition := model.DirectiveDefinition{Secrets: []model.DefinitionSecret{{Env: p.Name}}}
				data, err := json.Marshal(map[string]json.RawMessage{field: fields[field]})
				t.FlawIf(err == nil && definition.ReadsSecret(&model.Component{Method: method, Arguments: data}), at+"."+field,
					"write the secret into a file by content, lines or value of a file method, and let the program read the file", "the secret %s would show in reports or in lists of processes", p.Name)
			}
		}
	}
}

// validateArguments validates the arguments of a method, except texts with variables.
func validateArguments(v *Validator, at string, arguments any) {
	switch a := arguments.(type) {
	case *model.PathMethod:
		v.validatePath(at+".path", a.Path)
	case *model.FileContentMethod:
		v.validatePath(at+".path", a.Path)
		v.FlawIf(a.Asset != "" && a.Content != "", at+".content", "keep one of these fields", "content and asset exclude each other")
		v.MissingIf(a.Asset != "" && a.File == "", at+".file", "write the path of the file in the archive", "missing")
		v.FlawIf(a.Asset == "" && (a.File != "" || a.Template), at, "write asset: NAME, or content: TEXT alone", "file and template are those of an asset")
		v.FlawIf(strings.Contains(a.Asset, "{{"), at+".asset", "write the name of an Asset", "the name of an asset has no variables")
	case *model.FileLinesMethod:
		v.validatePath(at+".path", a.Path)
		v.MissingIf(len(a.Lines) == 0, at+".lines", "write a list of lines", "missing")
		v.LimitElements(at+".lines", len(a.Lines))
		for i, line := range a.Lines {
			v.FlawIf(strings.ContainsAny(line, "\r\n"), fmt.Sprintf("%s.lines[%d]", at, i), "make a line of each", "a line has a line break")
		}
	case *model.FileKeyValueMethod:
		v.validatePath(at+".path", a.Path)
		v.MissingIf(a.Key == "", at+".key", "", "missing")
		v.FlawIf(strings.ContainsAny(a.Key+a.Value+a.Separator, "\r\n"), at, "", "key, value and separator are parts of one line")
	case *model.FileBlockMethod:
		v.validatePath(at+".path", a.Path)
		v.MissingIf(a.Name == "", at+".name", "write a name such as proxy settings", "missing")
		v.FlawIf(strings.ContainsAny(a.Name+a.Comment, "\r\n"), at, "", "name and comment are parts of one line")
		v.FlawIf(a.Absent && a.Content != "", at+".content", "leave it out", "an absent block has no content")
	case *model.FileIniMethod:
		v.validatePath(at+".path", a.Path)
		v.MissingIf(a.Key == "", at+".key", "", "missing")
		v.FlawIf(strings.ContainsAny(a.Section+a.Key+a.Value, "\r\n"), at, "", "section, key and value are parts of one line")
		v.FlawIf(strings.ContainsAny(a.Section, "[]"), at+".section", "leave the brackets out", "%q has brackets", a.Section)
		v.FlawIf(strings.ContainsAny(a.Key, "=["), at+".key", "", "%q is no key of an ini file", a.Key)
	case *model.SymlinkMethod:
		v.validatePath(at+".path", a.Path)
		v.MissingIf(a.Target == "", at+".target", "write the path that the link leads to", "missing")
	case *model.ReportMethod:
		v.MissingIf(a.Message == "", at+".message", "write the sentence to report if the condition is false", "missing")
	case *model.KernelModuleMethod:
		v.MissingIf(a.Name == "", at+".name", "write a name such as br_netfilter", "missing")
		v.requireOneOf(at+".state", a.State, "loaded", "absent")
	case *model.UserMethod:
		v.MissingIf(a.Name == "", at+".name", "", "missing")
		v.requireOneOf(at+".state", a.State, "present", "absent")
		v.FlawIf(a.State == "absent" && a.UID+a.Group+a.Home+a.Shell != "", at, "leave the other fields out", "an absent user has only a name")
		validateNumber(v, at+".uid", a.UID)
		v.FlawIf(strings.ContainsAny(a.Home+a.Shell, ":\r\n"), at, "", "home and shell are paths without a colon")
	case *model.UserGroupMethod:
		v.MissingIf(a.Name == "", at+".name", "", "missing")
		v.requireOneOf(at+".state", a.State, "present", "absent")
		v.FlawIf(a.State == "absent" && a.GID != "", at+".gid", "leave it out", "an absent group has only a name")
		validateNumber(v, at+".gid", a.GID)
	case *model.CronMethod:
		v.MissingIf(a.Name == "", at+".name", "", "missing")
		v.requireOneOf(at+".state", a.State, "present", "absent")
		v.FlawIf(a.State == "absent" && a.Schedule+a.User+a.Command != "", at, "leave the other fields out", "an absent job has only a name")
		v.MissingIf(a.State != "absent" && a.Schedule == "", at+".schedule", `write five fields such as "15 3 * * *", or a word such as @daily`, "missing")
		v.MissingIf(a.State != "absent" && a.Command == "", at+".command", "", "missing")
		v.FlawIf(a.Schedule != "" && !strings.Contains(a.Schedule, "{{") && !strings.HasPrefix(a.Schedule, "@") && len(strings.Fields(a.Schedule)) != 5, at+".schedule",
			"minute, hour, day of the month, month, day of the week", "%q has not five fields", a.Schedule)
		v.FlawIf(strings.ContainsAny(a.Schedule+a.User+a.Command, "\r\n"), at, "", "schedule, user and command are parts of one line")
	case *model.TimerMethod:
		v.MissingIf(a.Name == "", at+".name", "", "missing")
		v.requireOneOf(at+".state", a.State, "present", "absent")
		v.FlawIf(a.State == "absent" && a.Calendar+a.User+a.Command != "", at, "leave the other fields out", "an absent timer has only a name")
		v.MissingIf(a.State != "absent" && a.Calendar == "", at+".calendar", `write times such as daily, or "Mon *-*-* 03:00:00"`, "missing")
		v.MissingIf(a.State != "absent" && a.Command == "", at+".command", "", "missing")
		v.FlawIf(strings.ContainsAny(a.Calendar+a.User+a.Command, "\r\n"), at, "", "calendar, user and command are parts of one line")
	case *model.FileACLMethod:
		v.validatePath(at+".path", a.Path)
		v.LimitElements(at+".entries", len(a.Entries))
		v.MissingIf(len(a.Entries) == 0 && !a.Absent, at+".entries", "write a list such as [user:ada:r-x], or absent: true", "missing")
		v.FlawIf(len(a.Entries) > 0 && a.Absent, at+".entries", "leave it out", "an absent list has no entries")
		for i, entry := range a.Entries {
			v.FlawIf(!strings.Contains(entry, "{{") && !policy.IsACLEntry(entry), fmt.Sprintf("%s.entries[%d]", at, i), "write user:NAME:r-x, group:NAME:rw- or default:user:NAME:r-x", "%q is no entry of an access control list", entry)
		}
	case *model.HTTPMethod:
		v.MissingIf(a.URL == "", at+".url", "write a URL such as http://localhost:8080/health", "missing")
		v.FlawIf(a.URL != "" && !strings.Contains(a.URL, "{{") && !strings.HasPrefix(a.URL, "http://") && !strings.HasPrefix(a.URL, "https://"), at+".url", "write http://… or https://…", "%q is no URL of HTTP", a.URL)
		v.FlawIf(a.Status != 0 && (a.Status < 100 || a.Status > 599), at+".status", "", "%d is no status code", a.Status)
	case *model.FilePermissionsMethod:
		v.validatePath(at+".path", a.Path)
		v.MissingIf(a.Mode+a.Owner+a.Group == "", at, "write at least one of mode, owner and group", "nothing to compare")
		v.FlawIf(a.Mode != "" && !strings.Contains(a.Mode, "{{") && !octalMode.MatchString(a.Mode), at+".mode", `write it in octal, as in "0644"`, "unknown mode %q", a.Mode)
	case *model.CommandMethod:
		v.MissingIf(a.Check == nil && a.Apply == nil, at, "write check: COMMAND, or apply: COMMAND, or both", "the command is missing")
		v.validateCommand(at+".check", a.Check)
		v.validateCommand(at+".apply", a.Apply)
	case *model.PackageMethod:
		v.MissingIf(a.Name == "", at+".name", "", "missing")
		v.requireOneOf(at+".state", a.State, "present", "absent")
		v.FlawIf(a.State == "absent" && a.Version != "", at+".version", "leave it out", "an absent package has no version")
	case *model.ServiceMethod:
		v.MissingIf(a.Name == "", at+".name", "", "missing")
		v.requireOneOf(at+".state", a.State, "running", "stopped")
		v.requireOneOf(at+".boot", a.Boot, "enabled", "disabled")
		v.MissingIf(a.State+a.Boot == "", at, "write state: running or stopped, or boot: enabled or disabled", "nothing to compare")
	case *model.RudderMethod:
		v.FlawIf(a.ID != "" && a.Component+a.Value != "", at, "leave component and value out", "reports name a component with an id by the id alone")
	case *model.SysctlMethod:
		v.MissingIf(a.Key == "", at+".key", "write a key such as net.ipv4.ip_forward", "missing")
		v.FlawIf(strings.Contains(a.Key, "/") || strings.Contains(a.Key, ".."), at+".key", "write it with dots", "invalid key %q", a.Key)
		v.MissingIf(a.Value == "", at+".value", "", "missing")
		v.FlawIf(strings.ContainsAny(a.Key+a.Value, "\r\n"), at, "", "key and value are parts of one line")
	}
}

// validateNumber records an error unless a text is a user or group number, or has a variable.
func validateNumber(v *Validator, at, text string) {
	_, err := strconv.ParseUint(text, 10, 31)
	v.FlawIf(text != "" && !strings.Contains(text, "{{") && err != nil, at, "write a number", "%q is no number", text)
}

// octalMode matches permission bits in octal.
var octalMode = regexp.MustCompile(`^[0-7]{3,4}$`)

// validatePath records an error unless the path of a policy method is absolute. A path with a variable in front is not
// known before the run.
func (v *Validator) validatePath(at, text string) {
	v.MissingIf(text == "", at, "write an absolute path", "missing")
	v.FlawIf(text != "" && !path.IsAbs(text) && !strings.HasPrefix(text, "{{"), at, "write an absolute path", "%q is not absolute", text)
	v.FlawIf(strings.ContainsRune(text, 0), at, "", "the path contains a zero byte")
}

// validateDirective validates the spec of a Directive. The planner tests its parameters against the technique.
func validateDirective(v *Validator, s *model.DirectiveSpec) {
	v.MissingIf(s.Technique == "", "spec.technique", "write the name of a Technique", "missing")
	v.LimitElements("spec.parameters", len(s.Parameters))
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		at := "spec.parameters." + name
		value := s.Parameters[name]
		v.LimitElements(at, len(value.Elements))
		validateParameterText(v, at, value.Text)
		for i, e := range value.Elements {
			for _, field := range slices.Sorted(maps.Keys(e)) {
				validateParameterText(v, fmt.Sprintf("%s[%d]", at, i), e[field])
			}
		}
	}
	if s.Rudder != "" {
		v.RequireLine("spec.rudder", s.Rudder, model.MaxName)
		v.FlawIf(s.Mode+s.Trusted != "", "spec.mode", "leave mode and trusted out", "Rudder decides in which mode its agents run the directive")
		v.FlawIf(s.Heartbeat != 0, "spec.heartbeat", "leave it out, and set rudderReports of the Namespace", "Rudder decides which runs its agents report")
		v.FlawIf(s.Rollout != nil, "spec.rollout", "leave it out", "Rudder decides when its agents get a change")
		v.FlawIf(s.OneShot != nil, "spec.oneShot", "leave it out", "Rudder decides when its agents run the directive")
	}
	v.requireOneOf("spec.mode", s.Mode, model.ModeAudit, model.ModeEnforce)
	v.requireOneOf("spec.trusted", s.Trusted, model.TrustedFacts)
	v.FlawIf(s.Trusted != "" && s.Mode == model.ModeAudit, "spec.trusted", "remove it", "a directive that audits needs no trust")
	v.FlawIf(s.Priority != nil && (*s.Priority < 0 || *s.Priority > maxPriority), "spec.priority", "", "expected 0 to %d", maxPriority)
	v.InRange("spec.interval", s.Interval, minPolicyInterval, maxInterval)
	v.FlawIf(s.Interval != 0 && s.Cron != "", "spec.cron", "keep one of these fields", "interval and cron exclude each other")
	v.validateCron(s.Cron, s.TimeZone)
	validateOneShot(v, s)
	v.FlawIf(s.Splay != 0 && s.Cron == "" && s.OneShot == nil, "spec.splay", "leave the field out: nodes spread over the interval anyway", "has no effect without cron or oneShot")
	v.InRange("spec.splay", s.Splay, model.Duration(time.Second), maxPolicySplay)
	v.FlawIf(s.Cron != "" && s.Rollout != nil, "spec.rollout", "write an interval, or change the directive without steps", "steps wait for the reports of nodes, which a calendar delays")
	v.InRange("spec.heartbeat", s.Heartbeat, model.Duration(time.Minute), maxPolicyHeartbeat)
	v.FlawIf(s.Heartbeat != 0 && s.Cron != "", "spec.heartbeat", "leave it out: each run at a time of cron is reported", "heartbeat and cron exclude each other")
	v.FlawIf(s.Heartbeat != 0 && s.Heartbeat <= cmp.Or(s.Interval, model.Duration(model.DefaultPolicyInterval)), "spec.heartbeat", "write a longer time, such as 1h, or leave it out", "is no longer than the interval, so each run would be reported")
	v.InRange("spec.grace", s.Grace, model.Duration(time.Second), maxPolicyGrace)
	v.InRange("spec.timeout", s.Timeout, model.Duration(time.Second), maxPolicyTimeout)
	v.validateSeverity("spec.severity", cmp.Or(s.Severity, model.Average.String()))
	if s.Rollout != nil {
		validateRollout(v, s.Rollout)
	}
}

// validateOneShot validates the time of a one-shot directive.
func validateOneShot(v *Validator, s *model.DirectiveSpec) {
	if s.OneShot == nil {
		return
	}
	v.FlawIf(s.Interval != 0 || s.Cron != "", "spec.oneShot", "keep one of these fields", "oneShot excludes interval and cron")
	v.FlawIf(s.Heartbeat != 0, "spec.heartbeat", "leave it out", "heartbeat and oneShot exclude each other: the only run is always reported")
	v.FlawIf(s.Rollout != nil, "spec.rollout", "put the directive on a few nodes first, by the targets of its policy", "a new directive reaches all its nodes at once, so a one-shot has no steps")
	from, until := s.OneShot.From, s.OneShot.Until
	v.FlawIf(s.Splay != 0 && from.IsZero(), "spec.splay", "write oneShot: {from: TIME}", "nodes spread their runs after a time only")
	v.FlawIf(!until.IsZero() && !from.Add(time.Duration(s.Splay)).Before(until.Time), "spec.oneShot.until", "write a later time", "is not after from and splay")
}

// validateParameterText validates the text that a directive sets as the value of a technique's parameter.
func validateParameterText(v *Validator, at string, text model.Scalar) {
	v.FlawIf(len(text) > maxVariable, at, "", "longer than %d bytes", maxVariable)
	if _, err := model.ParseTemplate(string(text), false); err != nil {
		var template *model.TemplateError
		errors.As(err, &template)
		v.Flaw(at, "", "%v", template)
	}
}

// maxRolloutSteps bounds the steps of a roll-out.
const maxRolloutSteps = 20

// validateRollout validates the roll-out of a directive.
func validateRollout(v *Validator, r *model.RolloutSpec) {
	v.MissingIf(len(r.Steps) == 0, "spec.rollout.steps", "write a list such as [1%, 10%, 50%, 100%]", "missing")
	v.FlawIf(len(r.Steps) > maxRolloutSteps, "spec.rollout.steps", "", "%d steps, at most %d", len(r.Steps), maxRolloutSteps)
	last := 0.0
	for i, step := range r.Steps {
		at := fmt.Sprintf("spec.rollout.steps[%d]", i)
		share, ok := model.ParseShare(step)
		switch {
		case !ok && strings.ContainsAny(step, "% "):
			v.Flaw(at, "write a share such as 10%, or the name of a group", "%q is no share of the nodes", step)
		case !ok && step != "":
			v.RequireSharedName(at, step)
		case !ok:
		case share <= last:
			v.Flaw(at, "write larger shares behind smaller ones", "%s is not above the step before", step)
		default:
			last = share
		}
		v.FlawIf(share == 1 && i < len(r.Steps)-1, at, "remove the steps behind it", "100%% is the last step")
	}
	v.InRange("spec.rollout.wait", r.Wait, model.Duration(time.Second), maxInterval)
	if _, ok := model.ParseShare(cmp.Or(r.MaxFailed, model.DefaultRolloutMaxFailed)); !ok {
		v.Flaw("spec.rollout.maxFailed", "write a share such as 5%", "%q is no share of the nodes", r.MaxFailed)
	}
}

// validatePolicy validates the spec of a Policy.
func validatePolicy(v *Validator, s *model.PolicySpec) {
	v.MissingIf(len(s.Directives) == 0, "spec.directives", "write a list of Directives", "missing")
	v.validateTargets("spec.targets", s.Targets, false)
	if a := s.Alert; a != nil {
		v.excludeRoute("spec.alert.handlers", a.Route, a.Handlers)
	}
}
