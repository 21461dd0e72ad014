package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

func (v *validator) targets(field string, t *Targets, inner bool) {
	if t == nil {
		return
	}
	v.names(field+".groups", t.Groups, v.sharedName)
	v.names(field+".nodes", t.Nodes, v.nodeName)
	v.where(field+".where", t.Where, v.rules.Where)
	if t.Except != nil {
		if inner {
			v.flaw(field+".except", "", "except cannot stand within except")
			return
		}
		v.targets(field+".except", t.Except, true)
	}
	if len(t.Groups)+len(t.Nodes) == 0 && t.Where == "" {
		v.absent(field, "write groups, nodes or where; groups: [all] means every node of the namespace", "names nothing")
	}
}

func (v *validator) check(s *CheckSpec) {
	v.targets("spec.targets", s.Targets, false)
	v.targets("spec.proxy", s.Proxy, false)
	v.roundRobin(s)
	switch {
	case s.Passive:
		v.passive(s)
	case s.Command == nil && s.Probe == nil:
		v.absent("spec", "write command: … or probe: {name: …}; or passive: true, if its results come from outside", "says nothing to run")
	case s.Command != nil && s.Probe != nil:
		v.flaw("spec.probe", "keep one of them", "both command and probe")
	}
	v.command("spec.command", s.Command)
	if s.Probe != nil {
		v.probe(s.Probe)
	}
	v.few("spec.dependsOn", len(s.DependsOn))
	v.names("spec.dependsOn", s.DependsOn, v.sharedName)
	v.few("spec.pipelines", len(s.Pipelines))
	v.names("spec.pipelines", s.Pipelines, v.sharedName)
	if !s.Passive {
		v.schedule(s)
	}
	v.except(s.Schedule)
	v.between("spec.timeout", s.Timeout, Duration(10*time.Millisecond), maxTimeout)
	if s.TTL != 0 {
		v.between("spec.ttl", s.TTL, Duration(time.Second), maxInterval)
		if s.Interval > 0 && s.TTL <= s.Interval {
			v.flaw("spec.ttl", "two to three intervals are usual", "%s must be longer than the interval %s", s.TTL, s.Interval)
		}
	}
	v.env("spec.env", s.Env)
	v.checkSecrets(s)
	v.stdin(s)
	v.commandsAssets(s.Assets, s.Command, "a probe needs none")
	v.hooks(s.Hooks)
	v.metrics(s)
	if len(s.RunAs) > maxText || hasControl(s.RunAs) {
		v.flaw("spec.runAs", "", "want a user's name")
	}
	if s.MaxOutput > maxOutput {
		v.flaw("spec.maxOutput", "", "%s is more than %s", s.MaxOutput, maxOutput)
	}
	if a := s.Alert; a != nil {
		v.count("spec.alert.failAfter", a.FailAfter)
		v.count("spec.alert.recoverAfter", a.RecoverAfter)
		v.few("spec.alert.handlers", len(a.Handlers))
		v.names("spec.alert.handlers", a.Handlers, v.sharedName)
		if f := a.Flapping; f != nil {
			if f.Start < 2 || f.Start > 100 {
				v.flaw("spec.alert.flapping.start", "", "want 2 to 100 percent, not %d", f.Start)
			} else if f.End < 0 || f.End >= f.Start {
				v.flaw("spec.alert.flapping.end", "", "want less than start, which is %d", f.Start)
			}
		}
		if a.Route != "" {
			v.sharedName("spec.alert.route", a.Route)
			if len(a.Handlers) > 0 {
				v.flaw("spec.alert.handlers", "keep one of them: a route names handlers in its steps", "both route and handlers")
			}
		}
	}
	v.severities(s.Severity)
	v.templates(s.Texts())
}

// passive refuses whatever says how and where to run a check that nobody runs.
func (v *validator) passive(s *CheckSpec) {
	for _, f := range []struct {
		name string
		said bool
	}{
		{"command", s.Command != nil}, {"probe", s.Probe != nil}, {"targets", s.Targets != nil}, {"proxy", s.Proxy != nil}, {"roundRobin", s.RoundRobin},
		{"interval", s.Interval != 0}, {"cron", s.Cron != ""}, {"timeZone", s.TimeZone != ""}, {"schedule", s.Schedule != nil}, {"timeout", s.Timeout != 0},
		{"env", len(s.Env) > 0}, {"stdin", s.Stdin != ""}, {"runAs", s.RunAs != ""}, {"hooks", len(s.Hooks) > 0}, {"metrics", s.Metrics != nil}, {"thresholds", len(s.Thresholds) > 0},
		{"discardOutput", s.DiscardOutput},
	} {
		if f.said {
			v.flaw("spec."+f.name, "leave it out, or leave passive out", "nobody runs a passive check: its results come in from outside")
		}
	}
}

func (v *validator) roundRobin(s *CheckSpec) {
	if !s.RoundRobin {
		return
	}
	if s.Cron != "" && s.TimeZone == "" {
		v.absent("spec.timeZone", "write one such as Europe/Paris or UTC", "the server says when round-robin checks run, and it is in no node's zone")
	}
	if s.TTL != 0 && s.Proxy == nil {
		v.flaw("spec.ttl", "leave it out, or write proxy: the event is the proxy node's then", "each node runs it only when its turn comes, so its own event would grow old")
	}
}

func (v *validator) severities(m map[string]string) {
	seen := map[Status]string{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := "spec.severity." + name
		status, ok := ParseStatus(name)
		if !ok {
			v.flaw(at, "write ok, warning, critical or unknown", "%q is no status", name)
		} else if other, twice := seen[status]; twice {
			v.flaw(at, "keep one of them", "%s and %s are the same status", other, name)
		} else {
			seen[status] = name
		}
		if _, ok := ParseSeverity(m[name]); !ok {
			v.flaw(at, "write "+strings.Join(severityNames[:], ", "), "%q is no severity", m[name])
		}
	}
}

func (v *validator) except(s *Schedule) {
	if s == nil {
		return
	}
	v.few("spec.schedule.except", len(s.Except))
	for i, e := range s.Except {
		at := fmt.Sprintf("spec.schedule.except[%d]", i)
		switch {
		case e.During == "" && e.Window == "":
			v.absent(at, `write during: "22:00-07:00 Europe/Paris", or window: NAME`, "does not say when")
		case e.During != "" && e.Window != "":
			v.flaw(at+".window", "keep one of them", "both during and window")
		case e.Window != "":
			v.sharedName(at+".window", e.Window)
		case v.rules.During != nil:
			v.calendar(at+".during", v.rules.During(e.During))
		}
	}
}

func (v *validator) schedule(s *CheckSpec) {
	switch {
	case s.Interval == 0 && s.Cron == "":
		v.absent("spec", "write interval: 60s, or cron", "does not say when to run")
	case s.Interval != 0 && s.Cron != "":
		v.flaw("spec.cron", "keep one of them", "both interval and cron")
	case s.Cron == "":
		v.between("spec.interval", s.Interval, Duration(time.Second), maxInterval)
	}
	if s.Cron != "" {
		if fields := strings.Fields(s.Cron); len(s.Cron) > maxText {
			v.flaw("spec.cron", "", "longer than %d bytes", maxText)
		} else if len(fields) != 5 {
			v.flaw("spec.cron", `minute, hour, day, month, weekday: "0 3 * * *" is every day at three`, "want five fields, not %d", len(fields))
		} else if !gronx.IsValid(s.Cron) {
			text, hint := wrongCron(fields)
			v.flaw("spec.cron", hint, "%q is no cron expression%s", s.Cron, text)
		}
	}
	if s.TimeZone != "" {
		if s.Cron == "" {
			v.absent("spec.timeZone", "leave it out", "means nothing without cron")
		}
		v.timeZone("spec.timeZone", s.TimeZone)
	}
}

// cronFields are the five of an expression.
var cronFields = [...]struct{ name, values string }{
	{"minute", "0 to 59"}, {"hour", "0 to 23"}, {"day of the month", "1 to 31"}, {"month", "1 to 12 or JAN to DEC"}, {"weekday", "0 to 6 or SUN to SAT"},
}

// wrongCron finds the field that makes five of them no cron expression.
func wrongCron(fields []string) (text, hint string) {
	for i, field := range fields {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if f := cronFields[i]; !gronx.IsValid(strings.Join(alone, " ")) {
			return fmt.Sprintf(": %q is no %s", field, f.name), fmt.Sprintf("write %s, a list (1,3), a range (1-3), a step (*/2) or *", f.values)
		}
	}
	return "", `minute, hour, day, month, weekday: "0 3 * * *" is every day at three`
}

// timeZone accepts none, which means the default.
func (v *validator) timeZone(field, zone string) {
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		v.flaw(field, "write one such as Europe/Paris or UTC", "%q is no time zone known here", zone)
	}
}

func (v *validator) count(field string, n int) {
	if n < 0 || n > maxCount {
		v.flaw(field, "", "want 1 to %d, not %d", maxCount, n)
	}
}

// between accepts zero, which means the default.
func (v *validator) between(field string, d, low, high Duration) {
	if d != 0 && (d < low || d > high) {
		v.flaw(field, "", "want %s to %s, not %s", low, high, d)
	}
}

func (v *validator) command(field string, c *Command) {
	switch {
	case c == nil:
	case c.Argv != nil && (len(c.Argv) == 0 || c.Argv[0] == ""), c.Argv == nil && strings.TrimSpace(c.Shell) == "":
		v.flaw(field, "", "empty")
	case len(c.Argv) > maxEntries:
		v.few(field, len(c.Argv))
	case len(c.Shell) > maxLine || slices.ContainsFunc(c.Argv, func(a string) bool { return len(a) > maxLine }):
		v.flaw(field, "put it into a script", "longer than %d bytes", maxLine)
	case strings.ContainsRune(c.Shell, 0) || slices.ContainsFunc(c.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		v.flaw(field, "", "holds a zero byte")
	}
}

func (v *validator) probe(p *Probe) {
	if p.Name == "" {
		v.absent("spec.probe.name", "", "missing")
		return
	}
	v.few("spec.probe.args", len(p.Args))
	for _, name := range slices.Sorted(maps.Keys(p.Args)) {
		if len(name) > maxText || len(p.Args[name]) > maxVariable {
			v.flaw("spec.probe.args."+name, "", "longer than %d bytes", maxVariable)
		}
	}
	if v.rules.Probe == nil {
		return
	}
	err := v.rules.Probe(p)
	if err == nil {
		return
	}
	var errs []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	} else {
		errs = []error{err}
	}
	for _, err := range errs {
		if f, ok := err.(*Flaw); ok {
			v.flaw("spec.probe."+f.Field, f.Hint, "%s", f.Text)
			continue
		}
		if e, ok := err.(*Error); ok {
			v.flaw("spec.probe", e.Hint, "%s", e.Message)
			continue
		}
		v.flaw("spec.probe", "", "%v", err)
	}
}

func (v *validator) env(field string, env map[string]string) {
	v.few(field, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := field + "." + name
		v.hidden(at, env[name])
		if !isVariable(name) {
			v.flaw(at, "letters, digits and _, not beginning with a digit", "%q is no name of a variable", name)
		}
		if len(env[name]) > maxVariable || strings.ContainsRune(env[name], 0) {
			v.flaw(at, "put it into a file on the node", "want at most %d bytes without a zero byte", maxVariable)
		}
	}
}

func (v *validator) stdin(s *CheckSpec) {
	v.hidden("spec.stdin", s.Stdin)
	if s.Stdin != "" && s.Command == nil {
		v.absent("spec.stdin", "leave it out", "a probe reads no standard input")
	}
	if len(s.Stdin) > maxLine {
		v.flaw("spec.stdin", "put it into a file on the nodes: command: PROGRAM < FILE", "longer than %d bytes", maxLine)
	}
}

// templates finds variables that are written wrongly.
func (v *validator) templates(texts Texts) {
	_, err := texts.Parse()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, err := range joined.Unwrap() {
		if f, ok := err.(*FieldError); ok {
			v.flaw("spec."+f.Field, "", "%v", f.Err)
		}
	}
}

func (v *validator) webhook(w *Webhook) {
	v.hidden("spec.webhook.url", w.URL)
	v.few("spec.webhook.headers", len(w.Headers))
	switch field, err := w.check(); {
	case errors.Is(err, errHostVaries):
		v.flaw("spec.webhook."+field, "write out which server; make a handler for each", "%v", err)
	case w.URL == "":
		v.absent("spec.webhook.url", "write https://…", "missing")
	case field == "url" && !errors.As(err, new(*TemplateError)):
		v.flaw("spec.webhook.url", "write https://…", "%q is no address of a web server", w.URL)
	case err != nil:
		v.flaw("spec.webhook."+field, "", "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		v.hidden("spec.webhook.headers."+name, w.Headers[name])
		if !isHeader(name) || hasControl(w.Headers[name]) {
			v.flaw("spec.webhook.headers."+name, "", "%q is no HTTP header", name)
		}
	}
	v.secret("spec.webhook.secret", w.Secret, false)
	v.hidden("spec.webhook.secret", w.Secret.Text)
	v.secret("spec.webhook.token", w.Token, false)
	v.hidden("spec.webhook.token", w.Token.Text)
	for name := range w.Headers {
		if strings.EqualFold(name, "Authorization") && !w.Token.IsZero() {
			v.flaw("spec.webhook.token", "keep one of them", "both token and a header %s", name)
		}
	}
	if w.Template != "" && v.rules.Template != nil {
		if err := v.rules.Template(w.Template); err != nil {
			v.flaw("spec.webhook.template", "the fields are those of the notification: docs/notifications.md", "%v", err)
		}
	}
	if w.ContentType != "" && (w.Template == "" || hasControl(w.ContentType) || !strings.Contains(w.ContentType, "/")) {
		v.flaw("spec.webhook.contentType", "write a media type such as text/plain, beside a template", "%q is not wanted here", w.ContentType)
	}
}
