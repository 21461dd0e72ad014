package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxHold is how long a step may wait, and a group.
const maxHold = Duration(30 * 24 * time.Hour)

func (v *validator) selector(field string, s *Selector) {
	v.targets(field+".targets", s.Targets, false)
	v.where(field+".where", s.Where, v.rules.ProblemWhere)
	v.few(field+".checks", len(s.Checks))
	v.names(field+".checks", s.Checks, v.sharedName)
	v.few(field+".statuses", len(s.Statuses))
	v.names(field+".statuses", s.Statuses, func(at, word string) {
		if status, ok := ParseStatus(word); !ok || status == OK {
			v.flaw(at, "write warning, critical or unknown", "%q is no status of a problem", word)
		}
	})
	v.labels(field+".labels", s.Labels)
	if _, ok := ParseSeverity(s.Severity); s.Severity != "" && !ok {
		v.flaw(field+".severity", "write "+strings.Join(severityNames[:], ", "), "%q is no severity", s.Severity)
	}
}

func (v *validator) window(s *WindowSpec) {
	if len(s.Spans) == 0 {
		v.absent("spec.spans", `write spans: [{during: "22:00-07:00"}]`, "says no time")
	}
	v.few("spec.spans", len(s.Spans))
	v.timeZone("spec.timeZone", s.TimeZone)
	for i := range s.Spans {
		if v.rules.Span != nil {
			v.calendar(fmt.Sprintf("spec.spans[%d]", i), v.rules.Span(s.Spans[i]))
		}
	}
	if s.Maintenance != nil {
		v.selector("spec.maintenance", s.Maintenance)
	}
	v.line("spec.reason", s.Reason)
}

// calendar takes what those say who know calendars.
func (v *validator) calendar(field string, err error) {
	if e, ok := err.(*Error); ok {
		v.flaw(field, e.Hint, "%s", e.Message)
	} else if err != nil {
		v.flaw(field, "", "%v", err)
	}
}

func (v *validator) route(s *RouteSpec) {
	if s.Match != nil {
		v.selector("spec.match", s.Match)
	}
	v.few("spec.groupBy", len(s.GroupBy))
	v.names("spec.groupBy", s.GroupBy, func(at, by string) {
		label, isLabel := strings.CutPrefix(by, "label:")
		if !slices.Contains([]string{"node", "check", "namespace", "severity"}, by) && !(isLabel && label != "") {
			v.flaw(at, "write node, check, namespace, severity or label:NAME", "problems have no %q in common", by)
		}
	})
	if s.GroupWait != nil {
		v.between("spec.groupWait", *s.GroupWait, 0, Duration(time.Hour))
	}
	if len(s.Steps) == 0 {
		v.absent("spec.steps", "write steps: [{to: [HANDLER]}]", "says nobody to tell")
	}
	v.few("spec.steps", len(s.Steps))
	for i := range s.Steps {
		step, at := &s.Steps[i], fmt.Sprintf("spec.steps[%d]", i)
		if len(step.To) == 0 {
			v.absent(at+".to", "write to: [HANDLER]", "says nobody to tell")
		}
		v.few(at+".to", len(step.To))
		v.names(at+".to", step.To, v.sharedName)
		v.between(at+".after", step.After, 0, maxHold)
		v.between(at+".repeat", step.Repeat, Duration(time.Minute), maxHold)
	}
	v.few("spec.mute", len(s.Mute))
	for i := range s.Mute {
		mute, at := &s.Mute[i], fmt.Sprintf("spec.mute[%d]", i)
		v.selector(at, &mute.Selector)
		switch {
		case mute.During == "" && mute.Window == "":
			v.absent(at, `write during: "22:00-07:00 Europe/Paris", or window: NAME; without an end, it is a Silence`, "does not say when")
		case mute.During != "" && mute.Window != "":
			v.flaw(at+".window", "keep one of them", "both during and window")
		case mute.Window != "":
			v.sharedName(at+".window", mute.Window)
		case v.rules.During != nil:
			v.calendar(at+".during", v.rules.During(mute.During))
		}
	}
	if r := s.Rate; r != nil {
		if r.Messages < 1 || r.Messages > maxCount {
			v.flaw("spec.rate.messages", "", "want 1 to %d, not %d", maxCount, r.Messages)
		}
		v.between("spec.rate.per", r.Per, Duration(time.Second), maxHold)
	}
}

func (v *validator) silence(s *SilenceSpec) {
	v.selector("spec", &s.Selector)
	if strings.TrimSpace(s.Reason) == "" {
		v.absent("spec.reason", "write it for who wonders at 3 a.m. why nobody was told", "missing")
	}
	v.line("spec.reason", s.Reason)
	v.line("spec.creator", s.Creator)
	if !s.Until.IsZero() && !s.Until.After(s.Begin.Time) {
		v.flaw("spec.until", "", "it would end before it begins")
	}
}

// line is a text that stands in lists.
func (v *validator) line(field, text string) {
	if len(text) > maxNote || hasControl(text) {
		v.flaw(field, "", "want one line of at most %d bytes", maxNote)
	}
}
