package kind

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// hookWhen lists the results that a hook may run after, besides exit codes.
var hookWhen = [...]string{"ok", "warning", "critical", "unknown", "non-ok"}

func validateHooks(v *Validator, list []model.Hook) {
	if len(list) > model.MaxHooks {
		v.Flaw("spec.hooks", "put several commands into a script", "%d, at most %d", len(list), model.MaxHooks)
	}
	seen := map[string]bool{}
	for i := range list {
		h, at := &list[i], fmt.Sprintf("spec.hooks[%d]", i)
		if h.Hook != "" {
			v.SharedName(at+".hook", h.Hook)
		}
		switch name := h.Title(); {
		case name == "":
			v.Missing(at+".name", "what it is called where its output is shown", "missing")
		case len(name) > model.MaxName || model.HasControl(name):
			v.Flaw(at+".name", "", "want one line of at most %d bytes", model.MaxName)
		case seen[name]:
			v.Flaw(at+".name", "", "a second hook %q", name)
		}
		seen[h.Title()] = true
		if len(h.When) == 0 {
			v.Missing(at+".when", "write when: [critical]", "does not say after which results")
		}
		for k, when := range h.When {
			n, err := strconv.Atoi(when)
			if !slices.Contains(hookWhen[:], when) && (err != nil || n < 0 || n > 255 || strconv.Itoa(n) != when) {
				v.Flaw(fmt.Sprintf("%s.when[%d]", at, k), "write "+strings.Join(hookWhen[:], ", ")+`, or an exit code such as "2"`, "%q is no result", when)
			}
		}
		switch {
		case h.Command == nil && h.Hook == "":
			v.Missing(at+".command", "", "missing")
		case h.Hook != "" && (h.Command != nil || h.Timeout != 0):
			v.Flaw(at+".hook", "keep one of them", "the Hook says command and timeout already")
		}
		v.command(at+".command", h.Command)
		v.InRange(at+".timeout", h.Timeout, model.Duration(10*time.Millisecond), model.Duration(time.Minute))
	}
}

func validateMetrics(v *Validator, s *model.CheckSpec) {
	if m := s.Metrics; m != nil {
		switch {
		case m.Format == "":
			v.Missing("spec.metrics.format", "write "+strings.Join(model.MetricFormats[:], ", "), "missing")
		case !slices.Contains(model.MetricFormats[:], m.Format):
			v.Flaw("spec.metrics.format", "write "+strings.Join(model.MetricFormats[:], ", "), "%q is no form of metrics", m.Format)
		}
		v.tags("spec.metrics.tags", m.Tags)
	} else if len(s.Thresholds) > 0 {
		v.Missing("spec.thresholds", "write metrics: {format: nagios}", "there are no metrics to hold to them")
	}
	v.Bound("spec.thresholds", len(s.Thresholds))
	for i := range s.Thresholds {
		t, at := &s.Thresholds[i], fmt.Sprintf("spec.thresholds[%d]", i)
		if t.Metric == "" || len(t.Metric) > model.MaxText || model.HasControl(t.Metric) {
			v.Flaw(at+".metric", "", "want the name of a metric")
		}
		v.tags(at+".tags", t.Tags)
		for _, b := range []struct {
			name string
			*model.Bounds
		}{{"warning", t.Warning}, {"critical", t.Critical}, {"unknown", t.Unknown}} {
			validateBounds(v, at+"."+b.name, b.Bounds)
		}
		missing, ok := model.ParseStatus(t.Missing)
		switch {
		case t.Missing != "" && (!ok || missing == model.OK):
			v.Flaw(at+".missing", "write warning, critical or unknown", "%q is no status to raise to", t.Missing)
		case t.Missing == "" && t.Warning == nil && t.Critical == nil && t.Unknown == nil:
			v.Missing(at, "write critical: {max: 90}, or missing: unknown", "says nothing")
		}
	}
}

func validateBounds(v *Validator, at string, b *model.Bounds) {
	switch {
	case b == nil:
	case b.Min == nil && b.Max == nil:
		v.Missing(at, "write {max: 90}, or {min: 10}", "names no bound")
	case b.Min != nil && math.IsNaN(*b.Min) || b.Max != nil && math.IsNaN(*b.Max):
		v.Flaw(at, "", "want numbers")
	case b.Min != nil && b.Max != nil && *b.Min > *b.Max:
		v.Flaw(at, "min is the smallest value that is fine, max the largest", "min %v is larger than max %v", *b.Min, *b.Max)
	}
}
