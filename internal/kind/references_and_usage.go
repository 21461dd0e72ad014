package kind

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Reference is the place where a resource names another resource
type Reference struct {
	Kind, Namespace, Name string
	Field                 string // spec.alert.handlers[0]
	Text                  string // as written: NAME or NAMESPACE/NAME
	Required              bool   // apply refuses the resource if it does not exist, and warns otherwise
	Chain                 bool   // of the same kind: apply refuses a chain that leads back
}

// References collects the references of one resource to others.
type References struct {
	namespace string
	list      []Reference
}

// AddOptional records a reference to another resource, which may be missing. If the resource is missing, apply only warns.
func (c *References) AddOptional(kind, field, name string) {
	c.addReference(Reference{Kind: kind, Field: field, Text: name})
}

// addReference adds a reference, unless the name is empty or belongs to a built-in resource.
func (c *References) addReference(ref Reference) {
	if ref.Text != "" && !model.IsBuiltin(ref.Kind, ref.Text) {
		ref.Namespace, ref.Name = model.SplitRef(c.namespace, ref.Text)
		c.list = append(c.list, ref)
	}
}

// References returns all references of a resource to others. A plain name means the resource's own namespace; in a
// Namespace it means the namespace itself.
func (r *Registry) References(res *model.Resource) []Reference {
	k := r.findKind(res.Kind)
	if k == nil || res.Spec == nil {
		return nil
	}
	refs := References{namespace: res.Metadata.Namespace}
	switch {
	case !k.Namespaced:
		refs.namespace = res.Metadata.Name
	case refs.namespace == "":
		refs.namespace = model.DefaultNamespaceName
	}
	model.EachReference("spec", res.Spec, func(f model.FieldReference) {
		for i, name := range f.Names() {
			ref := Reference{Kind: f.Kind, Field: f.Field, Text: name, Required: !f.Optional, Chain: f.Chain}
			if f.IsList() {
				ref.Field = fmt.Sprintf("%s[%d]", f.Field, i)
			}
			refs.addReference(ref)
		}
	})
	if k.References != nil {
		k.References(&refs, res.Spec)
	}
	return refs.list
}

// nodesColumn returns the table column NODES with the number of nodes of a resource.
func nodesColumn[S model.Spec]() Column[S] {
	return Column[S]{"NODES", 0, func(v ResourceView, _ S) string { return fmt.Sprint(v.State.Nodes) }}
}

// checksColumn returns a table column with the number of checks that use each resource
func checksColumn[S model.Spec](name string) Column[S] {
	return Column[S]{name, 0, func(v ResourceView, _ S) string { return fmt.Sprint(v.State.Checks) }}
}

// usersColumn returns a table column with the number of other resources that refer to each resource.
func usersColumn[S model.Spec]() Column[S] {
	return Column[S]{"USED BY", 0, func(v ResourceView, _ S) string { return dashIfEmpty(v.State.UsedBy) }}
}

// effectOfUsers says which other resources use a resource, and on how many nodes.
func effectOfUsers[S model.Spec](_ *model.Resource, _ S, l ResourceUsage, _ bool) (note, warning string) {
	return "used by " + cmp.Or(l.UsedBy(" on "+l.nodesText()), "nothing yet"), ""
}

// assetDetails appends the assets of a spec to the lines that `muster describe` prints.
func assetDetails(list []Detail, names []string) []Detail {
	if len(names) > 0 {
		list = append(list, Detail{"assets", strings.Join(names, ", ")})
	}
	return list
}

// commandText formats a command in one line.
func commandText(c *model.Command) string {
	switch {
	case c == nil:
		return "-"
	case c.Argv != nil:
		return strings.Join(c.Argv, " ")
	}
	return c.Shell
}

// targetText formats targets (groups, nodes and condition) in one line
func targetText(t *model.Targets) string {
	if t == nil {
		return "-"
	}
	var on []string
	for _, g := range t.Groups {
		on = append(on, "group "+g)
	}
	on = append(on, t.Nodes...)
	return dashIfEmpty(joinNonEmpty(", ", append(on, t.Where)...))
}

// selectorText describes which problems a selector matches, such as "disk if critical on group web"
func selectorText(s *model.Selector) string {
	on := []string{strings.TrimPrefix(targetText(s.Targets), "-")}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		on = append(on, name+"="+s.Labels[name])
	}
	problems := []string{strings.Join(s.Checks, ", ")}
	if len(s.Statuses) > 0 {
		problems = append(problems, "if "+strings.Join(s.Statuses, " or "))
	}
	if s.Severity != "" {
		problems = append(problems, "from severity "+s.Severity)
	}
	return cmp.Or(joinNonEmpty(" on ", joinNonEmpty(" ", problems...), joinNonEmpty(" ", on...)), "everything")
}

// joinNonEmpty joins the texts that are not empty.
func joinNonEmpty(between string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), between)
}

// dashIfEmpty returns the text, or a dash for an empty text.
func dashIfEmpty(text string) string { return cmp.Or(text, "-") }

// ResourceUsage counts the nodes and other resources that use a resource. The users are other resources.
type ResourceUsage struct {
	Nodes      int // that hold it (check), are members (group), read it (property), are in it (namespace)
	ProxyNodes int // proxy nodes that it is about (check)
	// Users of a handler, pipeline, hook, secret, asset, property, group or route.
	Checks        int
	Routes        int            // a handler
	Pipelines     int            // pipelines; a handler
	Namespaces    int            // namespaces; a handler
	NotifiedNodes int            // nodes, for their keepalive or their end; a handler or pipeline
	Handlers      int            // of a secret or asset
	Mutators      int            // of a secret or asset
	Filters       int            // of an asset
	Maintained    int            // nodes in maintenance at its times; a window
	OverriddenBy  map[string]int // nodes where another directive of the technique runs instead, by its name (directive)
	AuditOnly     map[string]int // nodes where it would enforce but only audits, by the group or condition that selects them (directive)
	// Warnings for the operator.
	Warnings []string `json:"-"`
}

// UsedBy says how many other resources, such as checks and routes, use a resource. The text is empty without users.
// where is a text to write behind the number of checks.
func (l ResourceUsage) UsedBy(where string) string {
	var by []string
	for _, users := range []struct {
		n    int
		what string
	}{{l.Checks, "check"}, {l.Routes, "route"}, {l.Pipelines, "pipeline"}, {l.Namespaces, "namespace"}, {l.NotifiedNodes, "node"},
		{l.Handlers, "handler"}, {l.Mutators, "mutator"}, {l.Filters, "filter"}} {
		if users.n > 0 {
			by = append(by, model.CountNoun(users.n, users.what))
		}
	}
	if l.Checks > 0 {
		by[0] += where
	}
	if last := len(by) - 1; last > 0 {
		return strings.Join(by[:last], ", ") + " and " + by[last]
	}
	return strings.Join(by, "")
}

// nodesText formats the number of nodes that use a resource, and the number of proxy nodes.
func (l ResourceUsage) nodesText() string {
	nodes := model.CountNoun(l.Nodes, "node")
	if l.ProxyNodes > 0 {
		nodes += ", about " + model.CountNoun(l.ProxyNodes, "proxy node")
	}
	return nodes
}

// overriddenText says on how many nodes other directives run in place of a directive. It is empty if no directive is
// overridden.
func (l ResourceUsage) overriddenText() string {
	var parts []string
	for _, by := range slices.Sorted(maps.Keys(l.OverriddenBy)) {
		parts = append(parts, fmt.Sprintf("directive %s overrides it on %s", by, model.CountNoun(l.OverriddenBy[by], "node")))
	}
	return strings.Join(parts, ", ")
}

// auditOnlyText says on how many nodes a directive only reports differences (audits). The reason is that no operator
// chose these nodes. Without such nodes the text is empty.
func (l ResourceUsage) auditOnlyText() string {
	var parts []string
	for _, by := range slices.Sorted(maps.Keys(l.AuditOnly)) {
		parts = append(parts, fmt.Sprintf("only audits on %s that %s selects", model.CountNoun(l.AuditOnly[by], "node"), by))
	}
	return strings.Join(parts, ", ")
}

// AuditOnlyWarning returns a warning about nodes where a directive only reports (audits) although set to enforce.
// Without such nodes the text is empty.
func (l ResourceUsage) AuditOnlyWarning() string {
	text := l.auditOnlyText()
	if text == "" {
		return ""
	}
	return text + ": machines can bring themselves in. Set trusted: true in the group, name the nodes, or write trusted: facts in the directive"
}

// Effect describes which nodes and other resources a resource affects. changed: an apply has just changed the
// resource.
func (r *Registry) Effect(res *model.Resource, l ResourceUsage, changed bool) (note, warning string) {
	k := r.findKind(res.Kind)
	switch {
	case k == nil:
		return "", ""
	case k.Effect != nil:
		return k.Effect(res, res.Spec, l, changed)
	case k.LandsAs != "":
		return k.LandsAs + " " + l.nodesText(), ""
	case k.Users:
		note = "used by " + cmp.Or(l.UsedBy(""), "nothing yet")
	}
	if k.Sensu {
		note = strings.TrimPrefix(note+"; Sensu kind", "; ")
	}
	return note, ""
}

// DeletionEffect describes how many nodes the deletion of a resource affects.
func (r *Registry) DeletionEffect(kind string, l ResourceUsage) string {
	if k := r.findKind(kind); k != nil && k.LandsAs != "" {
		return k.LandsAs + " " + model.CountNoun(l.Nodes, "node")
	}
	return "no other resource uses it"
}
