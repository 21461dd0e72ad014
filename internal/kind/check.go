package kind

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/model"
)

// Check returns the resource kind Check, a command or probe that runs on nodes.
func Check() Kind {
	return Define(Definition[*model.CheckSpec]{
		KindInfo: model.KindInfo{Name: "Check", Plural: "checks", Short: "ch", Namespaced: true},
		Unit:     model.DefinitionCheck,
		Related:  CheckEvents,
		LandsAs:  "runs on",
		Example: `kind: Check
metadata: {name: disk}
spec:
  targets: {groups: [all]}
  interval: 60s
  probe: {name: disk, args: {warn: "20%", crit: "10%"}}
`,
		Validate: validateCheck,
		Cycle:    CycleMessage{"depends on itself", "remove one of them from the spec.dependsOn of the check before it"},
		Redact: func(s *model.CheckSpec) *model.CheckSpec {
			out := *s
			out.Env = redactValues(s.Env)
			if s.Stdin != "" {
				out.Stdin = model.RedactedText
			}
			return &out
		},
		FromSensu: func(s *model.CheckSpec) string {
			switch {
			case s.Sensu:
				return "sensu: true of a Check"
			case len(s.Pipelines) > 0:
				return "pipelines of a Check"
			case slices.ContainsFunc(s.Hooks, func(h model.Hook) bool { return h.Hook != "" }):
				return "hooks of a Check by name"
			}
			return ""
		},
		Columns: []Column[*model.CheckSpec]{
			nodesColumn[*model.CheckSpec](),
			{"NOT OK", 0, func(v ResourceView, _ *model.CheckSpec) string {
				if v.State.Events == nil {
					return "-"
				}
				return v.State.Events.Failing()
			}},
			{"EVERY", 0, func(_ ResourceView, s *model.CheckSpec) string { return checkScheduleText(s) }},
			{"TARGETS", 40, func(_ ResourceView, s *model.CheckSpec) string { return targetText(s.Targets) }},
			{"RUNS", 50, func(_ ResourceView, s *model.CheckSpec) string { return checkCommandText(s) }},
		},
		Details: detailsOfCheck,
		Effect:  effectOfCheck,
	})
}

// detailsOfCheck returns the lines that `muster describe check` prints about a check.
func detailsOfCheck(view ResourceView, s *model.CheckSpec) []Detail {
	when := checkScheduleText(s)
	if s.Cron == "" && !s.Disabled {
		when = "every " + when
	}
	if s.Timeout > 0 {
		when += ", timeout " + s.Timeout.String()
	}
	if s.TTL > 0 {
		when += ", missing after " + s.TTL.String()
	}
	alert := model.Alert{}
	if s.Alert != nil {
		alert = *s.Alert
	}
	notifies := "notifies by matching routes, else the handlers of the node's namespace"
	switch {
	case len(alert.Handlers) > 0:
		notifies = "notifies " + strings.Join(alert.Handlers, ", ")
	case alert.Route != "":
		notifies = "notifies by route " + alert.Route
	case len(s.Pipelines) > 0:
		notifies = "notifies only by matching routes"
	}
	list := []Detail{
		{"runs", checkCommandText(s)}, {"when", when}, {"targets", targetText(s.Targets)},
		{"problem", fmt.Sprintf("opens after %s not OK, closes after %d OK; %s", model.CountNoun(max(alert.FailAfter, 1), "result"), max(alert.RecoverAfter, 1), notifies)},
	}
	if s.Runbook != "" {
		list = append(list, Detail{"runbook", s.Runbook})
	}
	if len(s.Pipelines) > 0 {
		list = append(list, Detail{"pipelines", strings.Join(s.Pipelines, ", ") + " receive every event"})
	}
	if e := view.State.Events; e != nil {
		list = append(list, Detail{"events", fmt.Sprintf("%d: %d critical, %d unknown, %d warning, %d ok; %s open",
			e.OK+e.NotOK(), e.Critical, e.Unknown, e.Warning, e.OK, model.CountNoun(view.State.Problems, "problem"))})
	}
	return list
}

// effectOfCheck describes on how many nodes a check runs after `muster apply`.
func effectOfCheck(r *model.Resource, s *model.CheckSpec, l ResourceUsage, changed bool) (note, warning string) {
	nodes := l.nodesText()
	switch {
	case s.Disabled:
		return "disabled: does not run", ""
	case s.Passive:
		return "passive: external systems send its results", ""
	case l.Nodes > 0 && s.Proxy != nil && l.ProxyNodes == 0:
		return "runs on " + nodes + ", with results for no proxy node", "no proxy node matches spec.proxy. Declare one (kind: Node, proxy: true), or list nodes: muster get nodes"
	case l.Nodes == 0:
		return "runs on no node", "no node matches the targets of the check. List nodes: muster get nodes; see why one does not match: muster why NODE/" + r.Metadata.Name
	case s.Cron != "":
		return "runs on " + nodes + "; first results at the next time of " + s.Cron + timeoutText(s), ""
	case changed:
		return "runs on " + nodes + "; first results within " + secondsText(s.Interval) + timeoutText(s), ""
	}
	return "runs on " + nodes, ""
}

// timeoutText formats the default timeout of a check for the output of `muster describe`. It is empty if the
// check declares a timeout.
func timeoutText(s *model.CheckSpec) string {
	switch d := s.DefaultTimeout(); {
	case s.Timeout != 0:
		return ""
	case d == 0:
		return "; no timeout, as in Sensu"
	default:
		return "; timeout " + secondsText(model.Duration(d)) + " by default"
	}
}

// secondsText formats a duration for people, such as 60 s or 5 min.
func secondsText(d model.Duration) string {
	s := int64(d) / 1e9
	switch {
	case s > 120 && s%60 == 0:
		return fmt.Sprintf("%d min", s/60)
	case s == 0:
		return d.String()
	}
	return fmt.Sprintf("%d s", s)
}

// checkCommandText formats the command or probe of a check.
func checkCommandText(s *model.CheckSpec) string {
	switch {
	case s.Passive:
		return "passive"
	case s.Probe != nil:
		return "probe " + s.Probe.Name
	}
	return commandText(s.Command)
}

// checkScheduleText formats the interval or cron expression of a check.
func checkScheduleText(s *model.CheckSpec) string {
	switch {
	case s.Disabled:
		return "disabled"
	case s.Cron != "":
		return s.Cron
	case s.Passive:
		return "-"
	}
	return s.Interval.String()
}

// validateCheck validates the spec of a Check.
func validateCheck(v *Validator, s *model.CheckSpec) {
	v.validateTargets("spec.targets", s.Targets, false)
	v.validateTargets("spec.proxy", s.Proxy, false)
	validateRoundRobin(v, s)
	switch {
	case s.Passive:
		validatePassive(v, s)
	case s.Command == nil && s.Probe == nil:
		v.Missing("spec", "write command: … or probe: {name: …}; or passive: true, if external systems send the results", "command or probe is missing")
	case s.Command != nil && s.Probe != nil:
		v.Flaw("spec.probe", "keep one of these fields", "command and probe exclude each other")
	}
	v.validateCommand("spec.command", s.Command)
	if s.Probe != nil {
		validateProbe(v, s.Probe)
	}
	if !s.Passive {
		validateSchedule(v, s)
	}
	validateScheduleExceptions(v, s.Schedule)
	v.InRange("spec.timeout", s.Timeout, minTimeout, maxTimeout)
	v.InRange("spec.ttl", s.TTL, model.Duration(time.Second), maxInterval)
	v.FlawIf(s.TTL != 0 && s.Interval > 0 && s.TTL <= s.Interval,
		"spec.ttl", "usual: two to three intervals", "%s must be longer than the interval %s", s.TTL, s.Interval)
	v.validateEnv("spec.env", s.Env)
	v.validateCommandSecrets(s.Secrets, s.Command, s.Env, "leave the field out", "a probe has no environment")
	validateStdin(v, s)
	v.refuseAssets(s.Assets, s.Command, "a probe needs no assets")
	validateHooksOfCheck(v, s.Hooks)
	validateMetricsOfCheck(v, s)
	v.FlawIf(len(s.RunAs) > model.MaxText || model.HasControl(s.RunAs), "spec.runAs", "", "expected a user name")
	v.FlawIf(s.MaxOutput > maxOutput, "spec.maxOutput", "", "%s is more than the maximum %s", s.MaxOutput, maxOutput)
	if a := s.Alert; a != nil {
		v.validateCount("spec.alert.failAfter", a.FailAfter)
		v.validateCount("spec.alert.recoverAfter", a.RecoverAfter)
		if f := a.Flapping; f != nil {
			inRange := f.Start >= 2 && f.Start <= 100
			v.FlawIf(!inRange, "spec.alert.flapping.start", "", "expected 2 to 100 percent, got %d", f.Start)
			v.FlawIf(inRange && (f.End < 0 || f.End >= f.Start), "spec.alert.flapping.end", "", "expected less than start, which is %d", f.Start)
		}
		v.excludeRoute("spec.alert.handlers", a.Route, a.Handlers)
	}
	validateSeverities(v, s.Severity)
	validateRunbook(v, "spec.runbook", s.Runbook)
	v.validateTemplates(s.TemplateTexts())
}

// validateRunbook records an error unless the runbook is a valid http or https link.
func validateRunbook(v *Validator, field, link string) {
	v.RequireLine(field, link, maxNote)
	u, err := url.Parse(link)
	v.FlawIf(link != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http"),
		field, "write a link such as https://wiki.example.org/disk", "%q is not a link", model.Shorten(link))
}

// validatePassive refuses fields about running in a passive check, which never runs. External systems send its
// results, so it does not run.
func validatePassive(v *Validator, s *model.CheckSpec) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"command", s.Command != nil}, {"probe", s.Probe != nil}, {"targets", s.Targets != nil}, {"proxy", s.Proxy != nil}, {"roundRobin", s.RoundRobin},
		{"interval", s.Interval != 0}, {"cron", s.Cron != ""}, {"timeZone", s.TimeZone != ""}, {"schedule", s.Schedule != nil}, {"timeout", s.Timeout != 0},
		{"env", len(s.Env) > 0}, {"stdin", s.Stdin != ""}, {"runAs", s.RunAs != ""}, {"hooks", len(s.Hooks) > 0}, {"metrics", s.Metrics != nil && s.Metrics.Format != model.NoMetrics}, {"thresholds", len(s.Thresholds) > 0},
		{"discardOutput", s.DiscardOutput},
	} {
		v.FlawIf(f.set,
			"spec."+f.name, "leave the field out, or leave passive out", "a passive check does not run, because external systems send its results")
	}
}

// validateRoundRobin validates the fields of a round-robin check.
func validateRoundRobin(v *Validator, s *model.CheckSpec) {
	if !s.RoundRobin {
		return
	}
	v.MissingIf(s.Cron != "" && s.TimeZone == "",
		"spec.timeZone", "write one such as Europe/Paris or UTC", "missing: the server schedules round-robin checks, and it is in no node's time zone")
	v.FlawIf(s.TTL != 0 && s.Proxy == nil,
		"spec.ttl", "leave the field out, or write proxy, so that the event belongs to the proxy node", "in round robin only one node runs the check in each interval, so the events of the other nodes would expire")
}

// validateSeverities validates the mapping of statuses to severities.
func validateSeverities(v *Validator, m map[string]string) {
	seen := map[model.Status]string{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := "spec.severity." + name
		status, ok := model.ParseStatus(name)
		if !ok {
			v.Flaw(at, "write ok, warning, critical or unknown", "unknown status %q", name)
		} else if other, twice := seen[status]; twice {
			v.Flaw(at, "keep one entry", "%s and %s are the same status", other, name)
		} else {
			seen[status] = name
		}
		v.validateSeverity(at, m[name])
	}
}

// validateProbe validates the probe of a check with its arguments.
func validateProbe(v *Validator, p *model.Probe) {
	if p.Name == "" {
		v.Missing("spec.probe.name", "", "missing")
		return
	}
	v.LimitElements("spec.probe.args", len(p.Args))
	for _, name := range slices.Sorted(maps.Keys(p.Args)) {
		v.FlawIf(len(name) > model.MaxText || len(p.Args[name]) > maxVariable,
			"spec.probe.args."+name, "", "longer than %d bytes", maxVariable)
	}
	for _, err := range probe.Lint(p.Name, p.Args) {
		switch e := err.(type) {
		case nil:
		case *model.Flaw:
			v.Flaw("spec.probe."+e.Field, e.Hint, "%s", e.Text)
		case *model.Error:
			v.Flaw("spec.probe", e.Hint, "%s", e.Message)
		default:
			v.Flaw("spec.probe", "", "%v", err)
		}
	}
}

// validateStdin validates what a check's command gets on standard input.
func validateStdin(v *Validator, s *model.CheckSpec) {
	v.refuseRedacted("spec.stdin", s.Stdin)
	v.FlawIf(s.StdinEvent && s.Command == nil, "spec.stdinEvent", "leave the field out", "a probe reads no standard input")
	v.FlawIf(s.StdinEvent && s.Stdin != "", "spec.stdinEvent", "leave out stdin or stdinEvent", "the standard input is either a text or the event")
	v.MissingIf(s.Stdin != "" && s.Command == nil, "spec.stdin", "leave the field out", "a probe reads no standard input")
	v.FlawIf(len(s.Stdin) > maxLine,
		"spec.stdin", "put the text into a file on the nodes: command: PROGRAM < FILE", "longer than %d bytes", maxLine)
}
