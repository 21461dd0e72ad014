package kind

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// validateScheduleExceptions validates the exceptions in the schedule of a check.
func validateScheduleExceptions(v *Validator, s *model.Schedule) {
	if s == nil {
		return
	}
	v.LimitElements("spec.schedule.except", len(s.Except))
	for i, e := range s.Except {
		at := fmt.Sprintf("spec.schedule.except[%d]", i)
		requireTimeOrWindow(v, at, e.During, e.Window, `write during: "22:00-07:00 Europe/Paris", or window: NAME`)
	}
}

// validateSchedule validates the interval or cron expression of a check.
func validateSchedule(v *Validator, s *model.CheckSpec) {
	switch {
	case s.Interval == 0 && s.Cron == "":
		v.Missing("spec", "write interval: 60s, or cron", "interval or cron is missing")
	case s.Interval != 0 && s.Cron != "":
		v.Flaw("spec.cron", "keep one of these fields", "interval and cron exclude each other")
	case s.Cron == "":
		v.InRange("spec.interval", s.Interval, model.Duration(time.Second), maxInterval)
	}
	v.validateCron(s.Cron, s.TimeZone)
}

// validateCron validates the cron expression of a spec and its time zone.
func (v *Validator) validateCron(cron, zone string) {
	if cron != "" {
		switch fields := strings.Fields(cron); {
		case len(cron) > model.MaxText:
			v.Flaw("spec.cron", "", "longer than %d bytes", model.MaxText)
		case len(fields) != len(cronFields):
			v.Flaw("spec.cron", cronHint, "expected five fields, got %d", len(fields))
		case !gronx.IsValid(cron):
			text, hint := explainWrongCron(fields)
			v.Flaw("spec.cron", hint, "invalid cron expression %q%s", cron, text)
		}
	}
	if zone != "" {
		v.MissingIf(cron == "", "spec.timeZone", "leave the field out", "has no effect without cron")
		v.validateTimeZone("spec.timeZone", zone)
	}
}

const cronHint = `minute, hour, day, month, weekday: "0 3 * * *" is every day at three`

// cronFields are the fields of a cron expression, in its order.
var cronFields = [...]struct{ name, values string }{
	{"minute", "0 to 59"}, {"hour", "0 to 23"}, {"day of the month", "1 to 31"}, {"month", "1 to 12 or JAN to DEC"}, {"weekday", "0 to 6 or SUN to SAT"},
}

// explainWrongCron returns which part of a cron expression is wrong, with a hint.
func explainWrongCron(fields []string) (text, hint string) {
	for i, field := range fields {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if f := cronFields[i]; !gronx.IsValid(strings.Join(alone, " ")) {
			return fmt.Sprintf(": invalid %q for %s", field, f.name), fmt.Sprintf("write %s, a list (1,3), a range (1-3), a step (*/2) or *", f.values)
		}
	}
	return "", cronHint
}

// hookWhen lists the results that a hook may run after, besides exit codes.
var hookWhen = [...]string{"ok", "warning", "critical", "unknown", "non-ok"}

// validateHooksOfCheck validates the hooks of a check.
func validateHooksOfCheck(v *Validator, list []model.Hook) {
	v.FlawIf(len(list) > model.MaxHooks,
		"spec.hooks", "combine commands in a script", "%d, at most %d", len(list), model.MaxHooks)
	seen := map[string]bool{}
	for i := range list {
		h, at := &list[i], fmt.Sprintf("spec.hooks[%d]", i)
		v.requireUniqueTitle(at+".name", "hook", h.Title(), "write name: NAME, the title of its output", seen)
		v.MissingIf(len(h.When) == 0, at+".when", "write when: [critical]", "the results that trigger the hook are missing")
		for k, when := range h.When {
			n, err := strconv.Atoi(when)
			v.FlawIf(!slices.Contains(hookWhen[:], when) && (err != nil || n < 0 || n > 255 || strconv.Itoa(n) != when),
				fmt.Sprintf("%s.when[%d]", at, k), "write "+strings.Join(hookWhen[:], ", ")+`, or an exit code such as "2"`, "unknown result %q", when)
		}
		switch {
		case h.Command == nil && h.Hook == "":
			v.Missing(at+".command", "", "missing")
		case h.Hook != "" && (h.Command != nil || h.Timeout != 0):
			v.Flaw(at+".hook", "keep one of these fields", "the Hook already has command and timeout")
		}
		v.validateCommand(at+".command", h.Command)
		v.InRange(at+".timeout", h.Timeout, minTimeout, maxHookTimeout)
	}
}

// validateMetricsOfCheck validates how a check parses values from its output.
func validateMetricsOfCheck(v *Validator, s *model.CheckSpec) {
	if m := s.Metrics; m != nil {
		hint := "write " + strings.Join(model.MetricFormats[:], ", ") + " or " + model.NoMetrics
		v.FlawIf(m.Format != "" && m.Format != model.NoMetrics && !slices.Contains(model.MetricFormats[:], m.Format), "spec.metrics.format", hint, "unknown metrics format %q", m.Format)
		v.FlawIf(m.Format == model.NoMetrics && len(m.Tags)+len(s.Thresholds) > 0, "spec.metrics.format", "write another format, or leave tags and thresholds out", "without numbers there are neither tags nor thresholds")
		v.validateMetricTags("spec.metrics.tags", m.Tags)
	}
	v.MissingIf(s.Sensu && s.Metrics == nil && len(s.Thresholds) > 0, "spec.thresholds", "write metrics: {format: nagios}", "the thresholds of a check kept from Sensu need metrics")
	v.LimitElements("spec.thresholds", len(s.Thresholds))
	for i := range s.Thresholds {
		t, at := &s.Thresholds[i], fmt.Sprintf("spec.thresholds[%d]", i)
		v.FlawIf(t.Metric == "" || len(t.Metric) > model.MaxText || model.HasControl(t.Metric),
			at+".metric", "", "expected the name of a metric")
		v.validateMetricTags(at+".tags", t.Tags)
		for _, b := range []struct {
			name string
			*model.Bounds
		}{{"warning", t.Warning}, {"critical", t.Critical}, {"unknown", t.Unknown}} {
			validateThresholdBounds(v, at+"."+b.name, b.Bounds, s.Sensu)
		}
		missing, ok := model.ParseStatus(t.Missing)
		switch {
		case t.Missing != "" && (!ok || missing == model.OK):
			v.Flaw(at+".missing", "write warning, critical or unknown", "invalid status %q", t.Missing)
		case t.Missing == "" && t.Warning == nil && t.Critical == nil && t.Unknown == nil:
			v.Missing(at, "write critical: {max: 90}, or missing: unknown", "says nothing")
		}
	}
}

// validateThresholdBounds records an error unless a threshold has a minimum or a maximum, and minimum ≤ maximum.
func validateThresholdBounds(v *Validator, at string, b *model.Bounds, sensu bool) {
	switch {
	case b == nil:
	case b.MinToken+b.MaxToken != "":
		v.FlawIf(!sensu, at, "write min and max", "tokens are for checks with sensu: true")
		v.FlawIf(b.Min != nil && b.MinToken != "" || b.Max != nil && b.MaxToken != "", at, "keep one of these fields", "a number and a token for the same bound")
		v.FlawIf(len(b.MinToken)+len(b.MaxToken) > maxVariable, at, "", "longer than %d bytes", maxVariable)
	case b.Min == nil && b.Max == nil:
		v.Missing(at, "write {max: 90}, or {min: 10}", "min or max is missing")
	case b.Min != nil && math.IsNaN(*b.Min) || b.Max != nil && math.IsNaN(*b.Max):
		v.Flaw(at, "", "expected numbers")
	case b.Min != nil && b.Max != nil && *b.Min > *b.Max:
		v.Flaw(at, "min is the smallest accepted value, max the largest", "min %v is larger than max %v", *b.Min, *b.Max)
	}
}

// validateTargets validates the nodes, groups and condition in a spec's targets. inner is true for targets under
// except.
func (v *Validator) validateTargets(field string, t *model.Targets, inner bool) {
	if t == nil {
		return
	}
	v.validateCondition(field+".where", t.Where, where.Compile, nil)
	if t.Except != nil {
		if inner {
			v.Flaw(field+".except", "", "except cannot contain another except")
			return
		}
		v.validateTargets(field+".except", t.Except, true)
	}
	v.MissingIf(len(t.Groups)+len(t.Nodes) == 0 && t.Where == "",
		field, "write groups, nodes or where; groups: [all] means every node of the namespace", "names nothing")
}

// validateSelector validates the conditions by which a route or silence selects problems. Nil is allowed.
func (v *Validator) validateSelector(field string, s *model.Selector) {
	if s == nil {
		return
	}
	v.validateTargets(field+".targets", s.Targets, false)
	if s.Where != "" {
		v.recordCompileError(field+".where", route.CheckCondition(s.Where))
	}
	v.LimitElements(field+".checks", len(s.Checks))
	v.RequireNames(field+".checks", s.Checks, v.RequireSourceName)
	v.LimitElements(field+".statuses", len(s.Statuses))
	v.RequireNames(field+".statuses", s.Statuses, func(at, word string) {
		if status, ok := model.ParseStatus(word); !ok || status == model.OK {
			v.Flaw(at, "write warning, critical or unknown", "%q is not a status of a problem", word)
		}
	})
	v.validateLabels(field+".labels", s.Labels)
	if s.Severity != "" {
		v.validateSeverity(field+".severity", s.Severity)
	}
}
