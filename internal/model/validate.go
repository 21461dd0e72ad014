package model

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/adhocore/gronx"
	"github.com/google/uuid"
)

// Rules are what other rooms know: which probes there are, what a condition may say.
// A nil function accepts everything.
type Rules struct {
	// Probe says what is wrong with a probe's name or arguments. An error for one
	// argument is a *Flaw whose Field is args.<name>.
	Probe func(*Probe) error
	// Where says what is wrong with a CEL condition over a node.
	Where func(expr string) error
}

const (
	maxName       = 253
	maxText       = 255
	maxAnnotation = 64 << 10
	maxInterval   = Duration(366 * 24 * time.Hour)
	maxTimeout    = Duration(24 * time.Hour)
	maxOutputCap  = Size(1 << 20)
	maxLine       = 64 << 10 // of one command, argument or variable
	maxCount      = 1000     // failAfter, recoverAfter
)

// Validate finds all that is wrong with one resource by itself; whether what it names
// exists is asked elsewhere. Call Defaults first.
func Validate(r *Resource, rules Rules) Flaws {
	v := &validator{rules: rules}
	v.metadata(r)
	switch spec := r.Spec.(type) {
	case *NamespaceSpec:
		v.namespace(spec)
	case *NodeSpec:
		v.node(spec)
	case *GroupSpec:
		v.group(r.Metadata.Name, spec)
	case *PropertySpec:
		v.property(r.Metadata.Name, spec)
	case *CheckSpec:
		v.check(spec)
	case *HandlerSpec:
		v.handler(spec)
	case nil:
		v.flaw("spec", "", "missing")
	}
	return v.flaws
}

type validator struct {
	rules Rules
	flaws Flaws
}

func (v *validator) flaw(field, hint, format string, args ...any) {
	v.flaws = append(v.flaws, &Flaw{Field: field, Hint: hint, Text: fmt.Sprintf(format, args...)})
}

// NameError says why text is no name, and which one is near it; nil if it is one.
func NameError(text string) error {
	if text == "" {
		return fmt.Errorf("missing")
	}
	if CleanName(text) == text {
		return nil
	}
	if len(text) > maxName {
		return fmt.Errorf("longer than %d characters", maxName)
	}
	return fmt.Errorf("%q is no name: lower-case letters, digits, and . _ - between them", text)
}

// CleanName makes a name of any text: what cannot stand in one becomes a dash. It is
// empty where nothing is left, and text itself if that is a name.
func CleanName(text string) string {
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, text)
	if len(clean) > maxName {
		clean = clean[:maxName]
	}
	return strings.Trim(clean, "._-")
}

func (v *validator) name(field, text string) {
	if err := NameError(text); err != nil {
		hint := ""
		if clean := CleanName(text); clean != "" {
			hint = "write " + clean
			if field == "metadata.name" {
				hint += fmt.Sprintf(" and displayName: %q", text)
			}
		}
		v.flaw(field, hint, "%v", err)
	}
}

// reference is a name or shared/name.
func (v *validator) reference(field, text string) {
	if namespace, name, found := strings.Cut(text, "/"); found {
		if namespace != SharedNamespaceName {
			v.flaw(field, "name one of the same namespace, or "+SharedNamespaceName+"/"+name, "%q is of another namespace", text)
			return
		}
		text = name
	}
	v.name(field, text)
}

func (v *validator) references(field string, names []string) {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", field, i)
		v.reference(at, name)
		if slices.Contains(names[:i], name) {
			v.flaw(at, "keep one of them", "%s stands here twice", name)
		}
	}
}

func (v *validator) metadata(r *Resource) {
	m := &r.Metadata
	v.name("metadata.name", m.Name)
	k, known := KindOf(r.Kind)
	switch {
	case !known:
		v.flaw("kind", "", "there is no kind %q", r.Kind)
	case k.Namespaced:
		v.name("metadata.namespace", m.Namespace)
	case m.Namespace != "":
		v.flaw("metadata.namespace", "leave it out", "a %s is in no namespace", k.Name)
	}
	if len(m.DisplayName) > maxText || hasControl(m.DisplayName) {
		v.flaw("metadata.displayName", "", "want one line of at most %d bytes", maxText)
	}
	if m.Owner != "" && (len(m.Owner) > maxText || hasControl(m.Owner)) {
		v.flaw("metadata.owner", "", "want one line of at most %d bytes", maxText)
	}
	v.labels("metadata.labels", m.Labels)
	for _, name := range slices.Sorted(maps.Keys(m.Annotations)) {
		v.labelKey("metadata.annotations."+name, name)
		if len(m.Annotations[name]) > maxAnnotation {
			v.flaw("metadata.annotations."+name, "", "longer than %d bytes", maxAnnotation)
		}
	}
}

func (v *validator) labels(field string, labels map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at := field + "." + name
		v.labelKey(at, name)
		if value := labels[name]; len(value) > maxText || hasControl(value) {
			v.flaw(at, "longer text goes into annotations", "want one line of at most %d bytes", maxText)
		}
	}
}

func (v *validator) labelKey(field, name string) {
	if !isLabelKey(name) {
		v.flaw(field, "", "%q is no label's name: letters, digits, and . _ - / between them, at most %d", name, maxText)
	}
}

func isLabelKey(name string) bool {
	if name == "" || len(name) > maxText {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isAlnum(c) && (i == 0 || i == len(name)-1 || strings.IndexByte("._-/", c) < 0) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}

func (v *validator) namespace(s *NamespaceSpec) {
	if l := s.Limits; l != nil {
		for _, f := range []struct {
			name  string
			value float64
		}{
			{"states", float64(l.States)}, {"statesPerNode", float64(l.StatesPerNode)}, {"labels", float64(l.Labels)},
			{"outputBytes", float64(l.OutputBytes)}, {"resultsPerSec", l.ResultsPerSec}, {"nodeResultsPerSec", l.NodeResultsSec},
		} {
			if f.value < 0 {
				v.flaw("spec.limits."+f.name, "leave it out for the server's default", "cannot be negative")
			}
		}
	}
}

func (v *validator) node(s *NodeSpec) {
	if s.UID != "" {
		if id, err := uuid.Parse(s.UID); err != nil || id.String() != s.UID {
			v.flaw("spec.uid", "it is given at enrolment; leave it out", "%q is no node id", s.UID)
		}
	}
	v.references("spec.groups", s.Groups)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		v.propertyName("spec.properties."+name, name)
	}
	if k := s.Keepalive; k != nil {
		v.between("spec.keepalive.interval", k.Interval, Duration(time.Second), maxTimeout)
		v.between("spec.keepalive.timeout", k.Timeout, Duration(time.Second), maxInterval)
		interval, timeout := k.Effective()
		if timeout <= interval {
			v.flaw("spec.keepalive", "", "timeout %s must be longer than interval %s", timeout, interval)
		}
	}
}

// Effective are the keepalive's values with their defaults.
func (k *Keepalive) Effective() (interval, timeout Duration) {
	interval, timeout = Duration(20*time.Second), Duration(120*time.Second)
	if k != nil && k.Interval > 0 {
		interval = k.Interval
	}
	if k != nil && k.Timeout > 0 {
		timeout = k.Timeout
	}
	return interval, timeout
}

func (v *validator) group(name string, s *GroupSpec) {
	v.names("spec.nodes", s.Nodes)
	v.references("spec.groups", s.Groups)
	if slices.Contains(s.Groups, name) {
		v.flaw("spec.groups", "", "a group cannot be in itself")
	}
	v.where("spec.where", s.Where)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		v.propertyName("spec.properties."+name, name)
	}
}

func (v *validator) names(field string, names []string) {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", field, i)
		v.name(at, name)
		if slices.Contains(names[:i], name) {
			v.flaw(at, "keep one of them", "%s stands here twice", name)
		}
	}
}

func (v *validator) where(field, expr string) {
	if expr == "" || v.rules.Where == nil {
		return
	}
	if err := v.rules.Where(expr); err != nil {
		v.flaw(field, "", "%v", err)
	}
}

func (v *validator) propertyName(field, name string) {
	if err := PropertyNameError(name); err != nil {
		v.flaw(field, "", "%v", err)
	}
}

func (v *validator) property(name string, s *PropertySpec) {
	if s.Property != "" {
		v.propertyName("spec.property", s.Property)
	} else if err := PropertyNameError(name); err != nil {
		v.flaw("metadata.name", "write spec: {property: …}", "%v", err)
	}
	if len(s.Value) == 0 {
		v.flaw("spec.value", "", "missing")
	}
	switch level, of, _ := strings.Cut(s.Scope, ":"); {
	case s.Scope == "" || s.Scope == "global" || s.Scope == "namespace":
	case level == "group" && of != "":
		v.reference("spec.scope", of)
	case level == "node" && of != "":
		v.name("spec.scope", of)
	default:
		v.flaw("spec.scope", "write global, namespace, group:NAME or node:NAME", "%q is no scope", s.Scope)
	}
}

func (v *validator) targets(field string, t *Targets, inner bool) {
	if t == nil {
		return
	}
	v.references(field+".groups", t.Groups)
	v.names(field+".nodes", t.Nodes)
	v.where(field+".where", t.Where)
	if t.Except != nil {
		if inner {
			v.flaw(field+".except", "", "except cannot stand within except")
			return
		}
		v.targets(field+".except", t.Except, true)
	}
	if len(t.Groups)+len(t.Nodes) == 0 && t.Where == "" {
		v.flaw(field, "write groups, nodes or where; groups: [all] means every node of the namespace", "names nothing")
	}
}

func (v *validator) check(s *CheckSpec) {
	v.targets("spec.targets", s.Targets, false)
	switch {
	case s.Command == nil && s.Probe == nil:
		v.flaw("spec", "write command: … or probe: {name: …}", "says nothing to run")
	case s.Command != nil && s.Probe != nil:
		v.flaw("spec.probe", "keep one of them", "both command and probe")
	}
	v.command("spec.command", s.Command)
	if s.Probe != nil {
		v.probe(s.Probe)
	}
	v.schedule(s)
	v.between("spec.timeout", s.Timeout, Duration(10*time.Millisecond), maxTimeout)
	if s.TTL != 0 {
		v.between("spec.ttl", s.TTL, Duration(time.Second), maxInterval)
		if s.Interval > 0 && s.TTL <= s.Interval {
			v.flaw("spec.ttl", "two to three intervals are usual", "%s must be longer than the interval %s", s.TTL, s.Interval)
		}
	}
	v.env("spec.env", s.Env)
	if len(s.RunAs) > maxText || hasControl(s.RunAs) {
		v.flaw("spec.runAs", "", "want a user's name")
	}
	if s.MaxOutput > maxOutputCap {
		v.flaw("spec.maxOutput", "", "%s is more than %s", s.MaxOutput, maxOutputCap)
	}
	if a := s.Alert; a != nil {
		v.count("spec.alert.failAfter", a.FailAfter)
		v.count("spec.alert.recoverAfter", a.RecoverAfter)
		v.references("spec.alert.handlers", a.Handlers)
	}
	v.severities(s.Severity)
	v.templates(s.Command, s.Probe, s.Env, s.RunAs)
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

func (v *validator) schedule(s *CheckSpec) {
	switch {
	case s.Interval == 0 && s.Cron == "":
		v.flaw("spec", "write interval: 60s, or cron", "does not say when to run")
	case s.Interval != 0 && s.Cron != "":
		v.flaw("spec.cron", "keep one of them", "both interval and cron")
	case s.Cron == "":
		v.between("spec.interval", s.Interval, Duration(time.Second), maxInterval)
	}
	if s.Cron != "" {
		if fields := strings.Fields(s.Cron); len(fields) != 5 {
			v.flaw("spec.cron", `minute, hour, day, month, weekday: "0 3 * * *" is every day at three`, "want five fields, not %d", len(fields))
		} else if !gronx.IsValid(s.Cron) {
			v.flaw("spec.cron", "", "%q is no cron expression", s.Cron)
		}
	}
	if s.TimeZone != "" {
		if s.Cron == "" {
			v.flaw("spec.timeZone", "leave it out", "means nothing without cron")
		}
		if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "Local" {
			v.flaw("spec.timeZone", "write one such as Europe/Paris or UTC", "%q is no time zone known here", s.TimeZone)
		}
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
	case len(c.Shell) > maxLine || slices.ContainsFunc(c.Argv, func(a string) bool { return len(a) > maxLine }):
		v.flaw(field, "put it into a script", "longer than %d bytes", maxLine)
	case strings.ContainsRune(c.Shell, 0) || slices.ContainsFunc(c.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		v.flaw(field, "", "holds a zero byte")
	}
}

func (v *validator) probe(p *Probe) {
	if p.Name == "" {
		v.flaw("spec.probe.name", "", "missing")
		return
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
		v.flaw("spec.probe", "", "%v", err)
	}
}

func (v *validator) env(field string, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := field + "." + name
		if !isVariable(name) {
			v.flaw(at, "letters, digits and _, not beginning with a digit", "%q is no name of a variable", name)
		}
		if len(env[name]) > maxLine || strings.ContainsRune(env[name], 0) {
			v.flaw(at, "", "want at most %d bytes without a zero byte", maxLine)
		}
	}
}

func isVariable(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && (!isAlnum(c) || i == 0 && c <= '9') {
			return false
		}
	}
	return name != ""
}

// templates finds variables that are written wrongly.
func (v *validator) templates(c *Command, p *Probe, env map[string]string, runAs string) {
	_, err := ParseCommandTemplate(c, p, env, runAs)
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

func (v *validator) handler(s *HandlerSpec) {
	switch {
	case s.Command == nil && s.Webhook == nil:
		v.flaw("spec", "write command: … or webhook: {url: …}", "says no way to tell")
	case s.Command != nil && s.Webhook != nil:
		v.flaw("spec.webhook", "keep one of them", "both command and webhook")
	}
	v.command("spec.command", s.Command)
	if w := s.Webhook; w != nil {
		u, err := url.Parse(w.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			v.flaw("spec.webhook.url", "write https://…", "%q is no address of a web server", w.URL)
		}
		for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
			if !isHeader(name) || hasControl(w.Headers[name]) {
				v.flaw("spec.webhook.headers."+name, "", "%q is no HTTP header", name)
			}
		}
	}
	v.between("spec.timeout", s.Timeout, Duration(100*time.Millisecond), Duration(10*time.Minute))
	v.env("spec.env", s.Env)
	v.templates(s.Command, nil, s.Env, "")
}

// isHeader: a token of RFC 9110, section 5.6.2.
func isHeader(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isAlnum(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}
