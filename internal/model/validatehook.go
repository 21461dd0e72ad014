package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hookWhen is what a hook may run after, besides exit codes.
var hookWhen = [...]string{"ok", "warning", "critical", "unknown", "non-ok"}

// Runs says whether the hook runs after a result; code is the command's exit code, negative
// where it has none.
func (h *Hook) Runs(status Status, code int) bool {
	for _, when := range h.When {
		if n, err := strconv.Atoi(when); err == nil {
			if n == code {
				return true
			}
		} else if when == "non-ok" && status != OK || equalFold(when, status.String()) {
			return true
		}
	}
	return false
}

func (v *validator) hooks(list []Hook) {
	if len(list) > MaxHooks {
		v.flaw("spec.hooks", "put several commands into a script", "%d, at most %d", len(list), MaxHooks)
	}
	seen := map[string]bool{}
	for i := range list {
		h, at := &list[i], fmt.Sprintf("spec.hooks[%d]", i)
		if h.Hook != "" {
			v.sharedName(at+".hook", h.Hook)
		}
		switch name := h.Title(); {
		case name == "":
			v.absent(at+".name", "what it is called where its output is shown", "missing")
		case len(name) > maxName || hasControl(name):
			v.flaw(at+".name", "", "want one line of at most %d bytes", maxName)
		case seen[name]:
			v.flaw(at+".name", "", "a second hook %q", name)
		}
		seen[h.Title()] = true
		if len(h.When) == 0 {
			v.absent(at+".when", "write when: [critical]", "does not say after which results")
		}
		for k, when := range h.When {
			n, err := strconv.Atoi(when)
			if !slices.Contains(hookWhen[:], when) && (err != nil || n < 0 || n > 255 || strconv.Itoa(n) != when) {
				v.flaw(fmt.Sprintf("%s.when[%d]", at, k), "write "+strings.Join(hookWhen[:], ", ")+`, or an exit code such as "2"`, "%q is no result", when)
			}
		}
		switch {
		case h.Command == nil && h.Hook == "":
			v.absent(at+".command", "", "missing")
		case h.Hook != "" && (h.Command != nil || h.Timeout != 0):
			v.flaw(at+".hook", "keep one of them", "the Hook says command and timeout already")
		}
		v.command(at+".command", h.Command)
		v.between(at+".timeout", h.Timeout, Duration(10*time.Millisecond), Duration(time.Minute))
	}
}

func (v *validator) metrics(s *CheckSpec) {
	if m := s.Metrics; m != nil {
		switch {
		case m.Format == "":
			v.absent("spec.metrics.format", "write "+strings.Join(MetricFormats[:], ", "), "missing")
		case !slices.Contains(MetricFormats[:], m.Format):
			v.flaw("spec.metrics.format", "write "+strings.Join(MetricFormats[:], ", "), "%q is no form of metrics", m.Format)
		}
		v.tags("spec.metrics.tags", m.Tags)
	} else if len(s.Thresholds) > 0 {
		v.absent("spec.thresholds", "write metrics: {format: nagios}", "there are no metrics to hold to them")
	}
	v.few("spec.thresholds", len(s.Thresholds))
	for i := range s.Thresholds {
		t, at := &s.Thresholds[i], fmt.Sprintf("spec.thresholds[%d]", i)
		if t.Metric == "" || len(t.Metric) > maxText || hasControl(t.Metric) {
			v.flaw(at+".metric", "", "want the name of a metric")
		}
		v.tags(at+".tags", t.Tags)
		for _, b := range []struct {
			name string
			*Bounds
		}{{"warning", t.Warning}, {"critical", t.Critical}, {"unknown", t.Unknown}} {
			v.bounds(at+"."+b.name, b.Bounds)
		}
		missing, ok := ParseStatus(t.Missing)
		switch {
		case t.Missing != "" && (!ok || missing == OK):
			v.flaw(at+".missing", "write warning, critical or unknown", "%q is no status to raise to", t.Missing)
		case t.Missing == "" && t.Warning == nil && t.Critical == nil && t.Unknown == nil:
			v.absent(at, "write critical: {max: 90}, or missing: unknown", "says nothing")
		}
	}
}

func (v *validator) bounds(at string, b *Bounds) {
	switch {
	case b == nil:
	case b.Min == nil && b.Max == nil:
		v.absent(at, "write {max: 90}, or {min: 10}", "names no bound")
	case b.Min != nil && math.IsNaN(*b.Min) || b.Max != nil && math.IsNaN(*b.Max):
		v.flaw(at, "", "want numbers")
	case b.Min != nil && b.Max != nil && *b.Min > *b.Max:
		v.flaw(at, "min is the smallest value that is fine, max the largest", "min %v is larger than max %v", *b.Min, *b.Max)
	}
}

func (v *validator) tags(field string, tags map[string]string) {
	if len(tags) > MaxValueTags {
		v.flaw(field, "", "%d, at most %d", len(tags), MaxValueTags)
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if k == "" || len(k) > maxText || len(tags[k]) > maxText || hasControl(k) || hasControl(tags[k]) {
			v.flaw(field+"."+k, "", "want one line of at most %d bytes", maxText)
		}
	}
}
