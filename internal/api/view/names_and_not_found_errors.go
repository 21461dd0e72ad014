package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// RedactForCaller returns a copy of a resource without secret values, unless the caller may change the
// resource. A caller who may change the resource gets the secrets, too.
func (v *View) RedactForCaller(ctx context.Context, r *model.Resource) *model.Resource {
	if access.MayChange(ctx, intent.KeyOf(r).Namespace) {
		return r
	}
	return v.Kinds.Redact(r)
}

// CountEvents counts the events of a namespace by status. An empty name means all namespaces.
func (v *View) CountEvents(ctx context.Context, namespace string) (event.Counts, error) {
	var id model.NamespaceID
	if namespace != "" {
		var ok bool
		if id, ok = v.Directory.NamespaceByName(namespace); !ok {
			return event.Counts{}, v.NamespaceNotFoundError(ctx, namespace)
		}
	}
	return v.Events.Counts(id), nil
}

// FindChecksByName returns the checks with a given name that may run on nodes of the given namespaces. Shared
// and built-in checks are included.
func (v *View) FindChecksByName(namespaces []string, name string) (ids []model.CheckID) {
	for _, ns := range append(slices.Clone(namespaces), model.SharedNamespaceName) {
		if id, ok := v.Directory.CheckByName(ns, name); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// FindSourcesByName finds the checks, triggers and alerts with a name, in the given namespaces. A source is a check,
// or a trigger or alert with a name like TEMPLATE:TRIGGER or RULEGROUP:ALERT.
func (v *View) FindSourcesByName(namespaces []string, name string) (list []model.Source) {
	unit, instance, ok := strings.Cut(name, ":")
	if !ok {
		for _, id := range v.FindChecksByName(namespaces, name) {
			list = append(list, model.CheckSource(id))
		}
		if len(list) > 0 {
			return list
		}
		instance = model.ComplianceInstance // of a directive with this name
	}
	kind := kindOfInstance(instance)
	for _, ns := range append(slices.Clone(namespaces), model.SharedNamespaceName) {
		if id, ok := v.Directory.UnitByName(kind, ns, unit); ok {
			if source := model.InstanceSource(id, instance); !slices.Contains(list, source) {
				list = append(list, source)
			}
		}
	}
	return list
}

// EventName returns the name under which history has the events of a check. A directive may be named without its instance. An
// empty namespace means all.
func (v *View) EventName(ctx context.Context, namespace, name string) (string, error) {
	if name == "" || strings.Contains(name, ":") {
		return name, nil
	}
	namespaces := []string{namespace}
	if namespace == "" {
		var err error
		if namespaces, err = v.Namespaces(ctx); err != nil {
			return "", err
		}
	}
	if list := v.FindSourcesByName(namespaces, name); len(list) > 0 && list[0].Kind == model.SourceDirective {
		name += ":" + model.ComplianceInstance
	}
	return name, nil
}

// kindOfInstance returns the resource kind, such as Template, that declares an event's instance (the name after
// the colon). The instance is the part of the name after the colon.
func kindOfInstance(instance string) string {
	switch model.InstanceSource(0, instance).Kind {
	case model.SourceDirective:
		return directory.DirectiveKind
	case model.SourceRule:
		return directory.RuleGroupKind
	}
	return directory.TemplateKind
}

// triggerNames returns the names of all triggers of a Template, for a hint after a wrong name.
func (v *View) triggerNames(template model.UnitID) (names []string) {
	unit := v.Directory.SourceUnit(model.TriggerSource(template, ""))
	if unit == nil || unit.Definition.AsTemplate() == nil {
		return nil
	}
	for i := range unit.Definition.AsTemplate().Triggers {
		names = append(names, unit.Definition.AsTemplate().Triggers[i].Name)
	}
	return names
}

// DeclaresSource reports whether the check or trigger behind an event is still declared. A trigger must be in its
// Template; every other source counts as declared.
func (v *View) DeclaresSource(s model.Source) bool {
	if s.Kind != model.SourceTrigger {
		return true
	}
	unit := v.Directory.SourceUnit(s)
	return unit != nil && unit.Definition.AsTemplate() != nil && unit.Definition.AsTemplate().Trigger(s.Instance) != nil
}

// Definition returns the display name, runbook and other texts that an event's check or trigger declares now.
// Without texts it returns nil.
func (v *View) Definition(s model.Source) *v1.Definition {
	unit := v.Directory.SourceUnit(s)
	if unit == nil {
		return nil
	}
	d := v1.Definition{DisplayName: unit.DisplayName, Runbook: unit.Runbook}
	if template := unit.Definition.AsTemplate(); template != nil {
		if t := template.Trigger(s.Instance); t != nil {
			d.Runbook, d.Expression, d.Recovery = t.Runbook, t.Expression, t.Recovery
		}
	}
	if r := unit.Definition.AsRuleGroup().AlertRule(s.Instance); r != nil {
		d.Expression = r.Expr
	}
	if d == (v1.Definition{}) {
		return nil
	}
	return &d
}

// SourceTitle returns the title for people of an event's source, such as the name of its check. A deleted
// source has the name #ID.
func (v *View) SourceTitle(s model.Source) string {
	_, name, ok := v.Directory.SourceName(s)
	if !ok {
		name = "#" + strconv.FormatUint(uint64(s.ID), 10)
	}
	return s.CommandName(name)
}

// RelativeName returns a node's name, with the namespace unless that is the given namespace. A node of another
// namespace is NAMESPACE/NAME, and a node in deletion #ID.
func (v *View) RelativeName(namespace string, id model.NodeID) string {
	own, name, ok := v.Directory.NodeName(id)
	switch {
	case !ok:
		return "#" + strconv.FormatUint(uint64(id), 10)
	case own != namespace:
		return own + "/" + name
	}
	return name
}

// TimeOfNanoseconds converts nanoseconds since 1970 to a time. The number 0 becomes the zero time.
func TimeOfNanoseconds(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// maxHintCandidates bounds the names among which a hint looks for the nearest one.
const maxHintCandidates = 5000

// ExplainNotFound adds a hint, such as the nearest existing name, to the error about a missing resource. The
// hint names the nearest name or the namespace of such a resource. Other errors are returned unchanged.
func (v *View) ExplainNotFound(ctx context.Context, err error, key intent.Key) error {
	if model.ClassOf(err) != model.NotFound {
		return err
	}
	e := model.Errorf(model.NotFound, "%s does not exist", key)
	if key.Namespace != "" {
		if _, ok := v.Directory.NamespaceByName(key.Namespace); !ok {
			return v.NamespaceNotFoundError(ctx, key.Namespace)
		}
	}
	return e.WithHint("%s", v.nearestNameHint(ctx, key))
}

// nearestNameHint returns the hint for a missing resource, with the nearest existing name.
func (v *View) nearestNameHint(ctx context.Context, key intent.Key) string {
	list := "muster get " + v.kindPlural(key.Kind)
	if key.Namespace != "" && key.Namespace != model.DefaultNamespaceName {
		list += " -n " + key.Namespace
	}
	rows, err := v.Rows.List(ctx, intent.ListQuery{Kind: key.Kind, Namespace: key.Namespace, Limit: maxHintCandidates})
	if err != nil {
		return "see the list: " + list
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Name
	}
	if key.Kind == "Check" {
		names = append(names, model.KeepaliveCheckName)
	}
	switch near := model.Nearest(key.Name, names); near {
	case "":
	case key.Name:
		return "the resource was created a moment ago: try again"
	default:
		return fmt.Sprintf("did you mean %s? List them: %s", near, list)
	}
	if key.Namespace == "" {
		return "see the list: " + list
	}
	if namespaces, err := v.Namespaces(ctx); err == nil {
		for _, ns := range namespaces {
			other := key
			other.Namespace = ns
			if _, err := v.Intent.Get(ctx, other); ns != key.Namespace && err == nil {
				return fmt.Sprintf("it is in namespace %s: add -n %s", ns, ns)
			}
		}
	}
	return "see the list: " + list
}

// kindPlural returns the plural name of a resource kind for messages.
func (v *View) kindPlural(kind string) string {
	if k, ok := v.Kinds.Lookup(kind); ok {
		return k.Plural
	}
	return strings.ToLower(kind)
}

// RequireNamespace returns an error if a namespace does not exist. An empty name means all namespaces. A namespace
// that was applied a moment ago and is not in the directory yet exists, too.
func (v *View) RequireNamespace(ctx context.Context, name string) error {
	if _, ok := v.Directory.NamespaceByName(name); ok || name == "" {
		return nil
	}
	names, err := v.Namespaces(ctx)
	if err != nil || slices.Contains(names, name) {
		return err
	}
	return v.NamespaceNotFoundError(ctx, name)
}

// NamespaceNotFoundError returns the same error for a missing namespace and for a namespace hidden from the
// caller.
func (v *View) NamespaceNotFoundError(ctx context.Context, name string) error {
	if !v.SeesNamespace(name) {
		return v.scope.refusalError(name)
	}
	e := model.Errorf(model.NotFound, "namespace %q does not exist", name)
	if names, err := v.Namespaces(ctx); err == nil {
		if near := model.Nearest(name, names); near != "" {
			return e.WithHint("did you mean %s? List them: muster get namespaces", near)
		}
	}
	return e.WithHint("list them: muster get namespaces")
}

// NodeNotFoundError returns the error about a missing node. For a former node, the error tells the reason of its
// removal.
func (v *View) NodeNotFoundError(ctx context.Context, namespace, name string) error {
	e := model.Errorf(model.NotFound, "node %q does not exist", name)
	if namespace == "" {
		return e.WithHint("list them: muster get nodes -A")
	}
	if t, ok := v.Intent.TombstoneByName(namespace, name); ok {
		return model.Errorf(model.NotFound, "node %q no longer exists: %s", name, t.Sentence()).
			WithHint("see the node's changes: muster audit node %s; list nodes: muster get nodes -n %s", name, namespace)
	}
	if last, ok := v.findRename(ctx, namespace, name); ok {
		return model.Errorf(model.NotFound, "node %q no longer exists: %s renamed it to %s at %s", name, last.Actor.User, last.Key.Name, last.At.UTC().Format(time.RFC3339)).
			WithHint("see the node's changes: muster audit node %s -n %s", last.Key.Name, namespace)
	}
	return e.WithHint("%s", v.nearestNameHint(ctx, intent.Key{Kind: "Node", Namespace: namespace, Name: name}))
}

// findRename finds the audit record of the rename by which a node lost a given old name.
func (v *View) findRename(ctx context.Context, namespace, name string) (intent.AuditEntry, bool) {
	last, err := v.Intent.Audit(ctx, intent.ChangeQuery{Kind: "Node", Namespace: namespace, Name: name, Limit: 1}, true)
	if err != nil || len(last) == 0 || last[0].Was != name {
		return intent.AuditEntry{}, false
	}
	return last[0], true
}

// CheckNotFoundError returns the error about a check that does not exist.
func (v *View) CheckNotFoundError(ctx context.Context, namespace, name string) error {
	if template, trigger, ok := strings.Cut(name, ":"); ok {
		for _, in := range [...]string{namespace, model.SharedNamespaceName} {
			if id, found := v.Directory.UnitByName(directory.TemplateKind, in, template); found {
				e := model.Errorf(model.NotFound, "template %s has no trigger %q", template, trigger)
				if near := model.Nearest(trigger, v.triggerNames(id)); near != "" {
					return e.WithHint("did you mean %s:%s? List them: muster describe template %s/%s", template, near, in, template)
				}
				return e.WithHint("list them: muster describe template %s/%s", in, template)
			}
		}
		if kindOfInstance(trigger) == directory.RuleGroupKind {
			return model.Errorf(model.NotFound, "rulegroup %q does not exist", template).WithHint("%s", v.nearestNameHint(ctx, intent.Key{Kind: "RuleGroup", Namespace: namespace, Name: template}))
		}
		return model.Errorf(model.NotFound, "template %q does not exist", template).WithHint("%s", v.nearestNameHint(ctx, intent.Key{Kind: "Template", Namespace: namespace, Name: template}))
	}
	e := model.Errorf(model.NotFound, "check %q does not exist", name)
	if namespace == "" {
		return e.WithHint("list them: muster get checks -A")
	}
	return e.WithHint("%s", v.nearestNameHint(ctx, intent.Key{Kind: "Check", Namespace: namespace, Name: name}))
}

// Namespaces returns the names of all namespaces, sorted.
func (v *View) Namespaces(ctx context.Context) ([]string, error) {
	rows, err := v.Intent.List(ctx, intent.ListQuery{Kind: "Namespace"}, nil)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Metadata.Name
	}
	slices.Sort(names)
	return names, nil
}

// OpenProblem returns a check's or trigger's open problem on a node, with its present severity, or nil.
func (v *View) OpenProblem(node model.NodeID, source model.Source) *model.Problem {
	st, _ := v.Events.Get(node, source)
	return st.ProblemNow()
}

// KeepGroupMembers removes nodes outside a group from the given list of node ids, in place.
func (v *View) KeepGroupMembers(ctx context.Context, ids []model.NodeID, namespace, group string) ([]model.NodeID, error) {
	key := intent.Key{Kind: "Group", Namespace: cmp.Or(namespace, model.DefaultNamespaceName), Name: group}
	if ns, name, ok := strings.Cut(group, "/"); ok {
		key.Namespace, key.Name = ns, name
	}
	members := v.Directory.GroupMembers(key.Namespace, key.Name) // ascending
	if len(members) == 0 {
		if _, err := v.Intent.Get(ctx, key); err != nil {
			return nil, v.ExplainNotFound(ctx, err, key)
		}
	}
	return slices.DeleteFunc(ids, func(id model.NodeID) bool {
		_, ok := slices.BinarySearch(members, id)
		return !ok
	}), nil
}
