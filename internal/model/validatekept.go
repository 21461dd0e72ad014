package model

import (
	"fmt"
	"strings"
	"time"
)

// maxJavascript is how much of it a filter or mutator may be.
const maxJavascript = 64 << 10

func (v *validator) filter(s *FilterSpec) {
	switch s.Action {
	case "":
		v.absent("spec.action", "write allow or deny", "missing")
	case "allow", "deny":
	default:
		v.flaw("spec.action", "write allow or deny", "%q is not known", s.Action)
	}
	if len(s.Expressions) == 0 {
		v.absent("spec.expressions", "write expressions: [event.check.status == 2]", "says nothing")
	}
	v.few("spec.expressions", len(s.Expressions))
	v.assets(s.Assets)
	for i, expression := range s.Expressions {
		if v.rules.Filter != nil {
			v.calendar(fmt.Sprintf("spec.expressions[%d]", i), v.rules.Filter(expression))
		}
	}
	w := s.When
	switch {
	case w == nil:
		return
	case len(w.Spans) == 0 && w.Window == "":
		v.absent("spec.when", `write spans: [{during: "mon-fri 09:00-17:00"}], or window: NAME`, "says no time")
	case len(w.Spans) > 0 && w.Window != "":
		v.flaw("spec.when.window", "keep one of them", "both spans and window")
	case w.Window != "":
		v.sharedName("spec.when.window", w.Window)
		if w.TimeZone != "" {
			v.flaw("spec.when.timeZone", "leave it out", "the window has its own")
		}
	}
	v.timeZone("spec.when.timeZone", w.TimeZone)
	v.few("spec.when.spans", len(w.Spans))
	for i := range w.Spans {
		if v.rules.Span != nil {
			v.calendar(fmt.Sprintf("spec.when.spans[%d]", i), v.rules.Span(w.Spans[i]))
		}
	}
}

func (v *validator) mutator(s *MutatorSpec) {
	switch {
	case s.Command == nil && strings.TrimSpace(s.Javascript) == "":
		v.absent("spec", "write command: … or javascript: …", "says nothing to do")
	case s.Command != nil && s.Javascript != "":
		v.flaw("spec.javascript", "keep one of them", "both command and javascript")
	case s.Command == nil && v.rules.Mutator != nil:
		v.calendar("spec.javascript", v.rules.Mutator(s.Javascript))
	}
	if len(s.Javascript) > maxJavascript {
		v.flaw("spec.javascript", "", "longer than %d bytes", maxJavascript)
	}
	v.command("spec.command", s.Command)
	v.env("spec.env", s.Env)
	v.commandSecrets(s.Secrets, s.Command, s.Env, "leave it out: JavaScript reads no environment")
	v.assets(s.Assets)
	v.between("spec.timeout", s.Timeout, Duration(100*time.Millisecond), Duration(10*time.Minute))
}

func (v *validator) hook(s *HookSpec) {
	if s.Command == nil {
		v.absent("spec.command", "", "missing")
	}
	v.command("spec.command", s.Command)
	v.templates(Texts{Command: s.Command})
	v.between("spec.timeout", s.Timeout, Duration(10*time.Millisecond), Duration(time.Minute))
}

func (v *validator) pipeline(s *PipelineSpec) {
	if len(s.Workflows) == 0 {
		v.absent("spec.workflows", "write workflows: [{name: slack, filters: [is_incident], handler: slack}]", "says nothing to do")
	}
	v.few("spec.workflows", len(s.Workflows))
	seen := map[string]bool{}
	for i := range s.Workflows {
		w, at := &s.Workflows[i], fmt.Sprintf("spec.workflows[%d]", i)
		switch {
		case w.Name == "":
			v.absent(at+".name", "", "missing")
		case len(w.Name) > maxName || hasControl(w.Name):
			v.flaw(at+".name", "", "want one line of at most %d bytes", maxName)
		case seen[w.Name]:
			v.flaw(at+".name", "", "a second workflow %q", w.Name)
		}
		seen[w.Name] = true
		v.few(at+".filters", len(w.Filters))
		v.names(at+".filters", w.Filters, v.sharedName)
		if w.Mutator != "" {
			v.sharedName(at+".mutator", w.Mutator)
		}
		if w.Handler == "" {
			v.absent(at+".handler", "", "missing")
		} else {
			v.sharedName(at+".handler", w.Handler)
		}
	}
}
