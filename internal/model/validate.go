package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	// ProblemWhere checks a CEL condition over a problem.
	ProblemWhere func(expr string) error
	// GroupWhere is Where for the condition of a group.
	GroupWhere func(expr string) error
	// TrustedWhere is GroupWhere for the condition of a trusted group.
	TrustedWhere func(expr string) error
	// Template says what is wrong with the template of a webhook's body.
	Template func(text string) error
	// Span says what is wrong with a span of a window.
	Span func(WindowSpan) error
	// During says what is wrong with the time of a mute.
	During func(text string) error
	// Filter says what is wrong with an expression of a filter, and Mutator with the JavaScript
	// of a mutator.
	Filter  func(expression string) error
	Mutator func(javascript string) error
}

// Validate says all that is wrong with one resource by itself, in one error.
func Validate(r *Resource) error { return Rules{}.Check(r).Err() }

// Check finds all that is wrong with one resource by itself; whether what it names
// exists is asked elsewhere. A namespace that is left out is taken for the right one.
func (rules Rules) Check(r *Resource) Flaws {
	v := &validator{rules: rules, namespace: r.Metadata.Namespace}
	v.metadata(r)
	switch spec := r.Spec.(type) {
	case *NamespaceSpec:
		v.limits(spec.Limits)
		v.namespace = r.Metadata.Name
		v.few("spec.handlers", len(spec.Handlers))
		v.names("spec.handlers", spec.Handlers, v.sharedName)
		v.timeZone("spec.timeZone", spec.TimeZone)
		v.oneOf("spec.notifications", spec.Notifications, "send", NotificationsShadow)
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
	case *SecretSpec:
		v.secretKind(spec)
	case *WindowSpec:
		v.window(spec)
	case *RouteSpec:
		v.route(spec)
	case *SilenceSpec:
		v.silence(spec)
	case *FilterSpec:
		v.filter(spec)
	case *MutatorSpec:
		v.mutator(spec)
	case *HookSpec:
		v.hook(spec)
	case *PipelineSpec:
		v.pipeline(spec)
	case *AssetSpec:
		v.asset(spec)
	case nil:
		v.absent("spec", "", "missing")
	}
	return v.flaws
}

type validator struct {
	rules     Rules
	namespace string // that the resource lives in
	flaws     Flaws
}

func (v *validator) flaw(field, hint, format string, args ...any) {
	if len(v.flaws) < MaxFlaws {
		v.flaws = append(v.flaws, &Flaw{Field: Brief(field), Hint: Brief(hint), Text: Brief(fmt.Sprintf(format, args...))})
	}
}

// absent is a flaw of something that is not there.
func (v *validator) absent(field, hint, format string, args ...any) {
	before := len(v.flaws)
	v.flaw(field, hint, format, args...)
	for _, f := range v.flaws[before:] {
		f.Absent = true
	}
}

func (v *validator) name(field, text string) {
	if text == "" {
		v.absent(field, "", "%v", NameError(text))
		return
	}
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

// sharedName is a name, of the same namespace or as shared/NAME.
func (v *validator) sharedName(field, text string) {
	namespace, name, found := strings.Cut(text, "/")
	switch {
	case !found:
		v.name(field, text)
	case namespace != v.namespace && namespace != SharedNamespaceName:
		v.flaw(field, "name one of the same namespace, or "+SharedNamespaceName+"/"+name, "%q is of another namespace", text)
	default:
		v.name(field, name)
	}
}

// nodeName is a name, of the same namespace; from the shared one also NAMESPACE/NAME.
func (v *validator) nodeName(field, text string) {
	namespace, name, found := strings.Cut(text, "/")
	switch {
	case !found:
		v.name(field, text)
	case namespace != v.namespace && v.namespace != SharedNamespaceName:
		v.flaw(field, "only what is in the namespace "+SharedNamespaceName+" reaches the nodes of others", "%q is of another namespace", text)
	default:
		v.name(field, namespace)
		v.name(field, name)
	}
}

// names checks a list of them and that none stands there twice.
func (v *validator) names(field string, names []string, check func(field, text string)) {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if len(v.flaws) >= MaxFlaws {
			return
		}
		at := fmt.Sprintf("%s[%d]", field, i)
		check(at, name)
		if seen[name] {
			v.flaw(at, "keep one of them", "%s stands here twice", name)
		}
		seen[name] = true
	}
}

// few bounds a list or mapping.
func (v *validator) few(field string, n int) {
	if n > maxEntries {
		v.flaw(field, "", "%d entries, at most %d", n, maxEntries)
	}
}

// properties checks values that stand in a node or group.
func (v *validator) properties(field string, values map[string]json.RawMessage) {
	v.few(field, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := field + "." + name
		v.propertyName(at, name)
		v.propertyValue(at, values[name])
	}
}

func (v *validator) propertyValue(field string, value json.RawMessage) {
	if len(value) > maxPropertyValue {
		v.flaw(field, "keep large things in a file on the node", "%d bytes of JSON; at most %d", len(value), maxPropertyValue)
	}
}

func (v *validator) metadata(r *Resource) {
	m := &r.Metadata
	v.name("metadata.name", m.Name)
	k, known := KindOf(r.Kind)
	switch {
	case !known:
		v.flaw("kind", "", "there is no kind %q", r.Kind)
	case k.Namespaced && m.Namespace != "":
		v.name("metadata.namespace", m.Namespace)
	case !k.Namespaced && m.Namespace != "":
		v.flaw("metadata.namespace", "leave it out", "a %s is in no namespace", k.Name)
	}
	if len(m.DisplayName) > maxText || hasControl(m.DisplayName) {
		v.flaw("metadata.displayName", "", "want one line of at most %d bytes", maxText)
	}
	if m.Owner != "" && (len(m.Owner) > maxText || hasControl(m.Owner)) {
		v.flaw("metadata.owner", "", "want one line of at most %d bytes", maxText)
	}
	v.labels("metadata.labels", m.Labels)
	v.few("metadata.annotations", len(m.Annotations))
	for _, name := range slices.Sorted(maps.Keys(m.Annotations)) {
		v.labelKey("metadata.annotations."+name, name)
		if len(m.Annotations[name]) > maxAnnotation {
			v.flaw("metadata.annotations."+name, "", "longer than %d bytes", maxAnnotation)
		}
	}
}

func (v *validator) labels(field string, labels map[string]string) {
	v.few(field, len(labels))
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

func (v *validator) limits(l *Limits) {
	if l == nil {
		return
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"states", float64(l.States)}, {"nodes", float64(l.Nodes)}, {"statesPerNode", float64(l.StatesPerNode)}, {"labels", float64(l.Labels)},
		{"outputBytes", float64(l.OutputBytes)}, {"resultsPerSec", l.ResultsPerSec}, {"nodeResultsPerSec", l.NodeResultsSec},
		{"passivePerNode", float64(l.PassivePerNode)},
	} {
		if f.value < 0 {
			v.flaw("spec.limits."+f.name, "leave it out for the server's default", "cannot be negative")
		}
	}
}

func (v *validator) node(s *NodeSpec) {
	if s.Proxy {
		v.proxy(s)
	}
	if s.UID != "" {
		if id, err := uuid.Parse(s.UID); err != nil || id.String() != s.UID {
			v.flaw("spec.uid", "it is given at enrolment; leave it out", "%q is no node id", s.UID)
		}
	}
	v.names("spec.groups", s.Groups, v.sharedName)
	v.names("spec.mayJoin", s.MayJoin, v.sharedName)
	v.properties("spec.properties", s.Properties)
	v.lifecycle("spec.lifecycle", s.Lifecycle)
	if b := s.Behind; b != nil {
		if b.Node == "" {
			v.absent("spec.behind.node", "write behind: {node: NAME}, and the check that says that it is down if keepalive does not", "does not say which node is in front")
		} else {
			v.sharedName("spec.behind.node", b.Node)
		}
		if b.Check != "" {
			v.sharedName("spec.behind.check", b.Check)
		}
	}
	if g := s.Given; g != nil {
		if len(g.Token) > maxText || hasControl(g.Token) {
			v.flaw("spec.given.token", "", "want one line of at most %d bytes", maxText)
		}
		v.names("spec.given.groups", g.Groups, v.sharedName)
		v.labels("spec.given.labels", g.Labels)
		v.lifecycle("spec.given.lifecycle", g.Lifecycle)
	}
	if k := s.Keepalive; k != nil {
		v.between("spec.keepalive.interval", k.Interval, Duration(time.Second), maxTimeout)
		v.between("spec.keepalive.timeout", k.Timeout, Duration(time.Second), maxInterval)
		interval, timeout := k.Effective()
		if timeout <= interval {
			v.flaw("spec.keepalive", "", "timeout %s must be longer than interval %s", timeout, interval)
		}
		if w := k.Warning; w != 0 && (w <= interval || w >= timeout) {
			v.flaw("spec.keepalive.warning", "", "%s must lie between interval %s and timeout %s", w, interval, timeout)
		}
		v.few("spec.keepalive.handlers", len(k.Handlers))
		v.names("spec.keepalive.handlers", k.Handlers, v.sharedName)
		v.few("spec.keepalive.pipelines", len(k.Pipelines))
		v.names("spec.keepalive.pipelines", k.Pipelines, v.sharedName)
	}
}

// proxy finds what a node without a machine cannot have.
func (v *validator) proxy(s *NodeSpec) {
	const hint = "leave it out: a proxy node has no machine"
	for _, field := range [...]struct {
		name string
		set  bool
	}{
		{"uid", s.UID != ""}, {"key", s.Key != ""}, {"keepalive", s.Keepalive != nil}, {"lifecycle", s.Lifecycle != nil},
		{"given", s.Given != nil}, {"mayJoin", len(s.MayJoin) > 0},
	} {
		if field.set {
			v.flaw("spec."+field.name, hint, "not of a proxy node")
		}
	}
}

func (v *validator) lifecycle(field string, l *Lifecycle) {
	if l == nil {
		return
	}
	v.few(field+".handlers", len(l.Handlers))
	for i, name := range l.Handlers {
		v.sharedName(fmt.Sprintf("%s.handlers[%d]", field, i), name)
	}
	if len(l.Handlers) > 0 && !l.Ephemeral {
		v.flaw(field+".handlers", "write ephemeral: true beside it", "only ephemeral nodes are forgotten")
	}
	if l.ForgetAfter == 0 {
		return
	}
	if !l.Ephemeral {
		v.flaw(field+".forgetAfter", "write lifecycle: {ephemeral: true, forgetAfter: "+l.ForgetAfter.String()+"}", "only ephemeral nodes are forgotten")
	}
	v.between(field+".forgetAfter", l.ForgetAfter, Duration(minForgetAfter), Duration(maxForgetAfter))
}

// Effective are the keepalive's values with their defaults.
func (k *Keepalive) Effective() (interval, timeout Duration) {
	interval, timeout = Duration(DefaultKeepalive), Duration(DefaultKeepaliveTimeout)
	if k != nil && k.Interval > 0 {
		interval = k.Interval
	}
	if k != nil && k.Timeout > 0 {
		timeout = k.Timeout
	}
	return interval, timeout
}

func (v *validator) group(name string, s *GroupSpec) {
	v.names("spec.nodes", s.Nodes, v.nodeName)
	v.names("spec.groups", s.Groups, v.sharedName)
	if slices.Contains(s.Groups, name) || slices.Contains(s.Groups, v.namespace+"/"+name) {
		v.flaw("spec.groups", "", "a group cannot be in itself")
	}
	rule := v.rules.GroupWhere
	if s.Trusted {
		rule = v.rules.TrustedWhere
	}
	v.where("spec.where", s.Where, rule)
	if s.Trusted && s.SelfJoin {
		v.flaw("spec.selfJoin", "leave it out, or make another group for agents that put themselves in", "a trusted group takes in no machine because that says so")
	}
	v.properties("spec.properties", s.Properties)
}

func (v *validator) where(field, expr string, compile func(string) error) {
	if expr == "" || compile == nil {
		return
	}
	err := compile(expr)
	if e, ok := err.(*Error); ok {
		v.flaw(field, e.Hint, "%s", strings.TrimPrefix(e.Message, "where: ")) // the field says that
	} else if err != nil {
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
	} else if err := PropertyNameError(name); err != nil && name != "" {
		v.flaw("metadata.name", "write spec: {property: …}", "%v", err)
	}
	if len(s.Value) == 0 {
		v.absent("spec.value", "", "missing")
	}
	v.propertyValue("spec.value", s.Value)
	switch level, of, _ := strings.Cut(s.Scope, ":"); {
	case s.Scope == "" || s.Scope == "global" || s.Scope == "namespace":
	case level == "group" && of != "":
		v.sharedName("spec.scope", of)
	case level == "node" && of != "":
		v.nodeName("spec.scope", of)
	default:
		v.flaw("spec.scope", "write global, namespace, group:NAME or node:NAME", "%q is no scope", s.Scope)
	}
}
