package intent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// meant suggests a name that is there for one that is not: ; did you mean "web"?
func (s *Service) meant(ctx context.Context, missing Key, set map[Key]*model.Resource) string {
	rows, err := s.opts.Store.List(ctx, ListQuery{Kind: missing.Kind, Namespace: missing.Namespace, Limit: 1000})
	if err != nil {
		return ""
	}
	var names []string
	for _, row := range rows {
		names = append(names, row.Name)
	}
	for key := range set {
		if key.Kind == missing.Kind && key.Namespace == missing.Namespace {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	if near := model.Nearest(missing.Name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// references checks what a resource names. A group or node that does not exist (yet) is
// a warning; a namespace or handler that does not is an error. What is going in the same
// apply is not there.
func (s *Service) references(ctx context.Context, r *model.Resource, set map[Key]*model.Resource, going map[Key]bool) (warnings []string, err error) {
	key := KeyOf(r)
	exists := func(kind, namespace, name string) (bool, error) {
		k := Key{Kind: kind, Namespace: namespace, Name: name}
		if set[k] != nil || going[k] {
			return !going[k], nil
		}
		_, err := s.opts.Store.Get(ctx, k)
		if model.ClassOf(err) == model.NotFound {
			return false, nil
		}
		return err == nil, err
	}
	if key.Namespace != "" {
		if ok, err := exists("Namespace", "", key.Namespace); err != nil {
			return nil, err
		} else if !ok {
			return nil, model.Errorf(model.Invalid, "%s: namespace %q does not exist", key, key.Namespace).
				WithHint("apply a Namespace of that name first, or in the same file")
		}
		if most := s.LimitsFor(key.Namespace).Labels; key.Kind == "Node" && most > 0 && len(r.Metadata.Labels) > most {
			return nil, model.Errorf(model.Limited, "%s has %d labels, namespace %s allows %d", key, len(r.Metadata.Labels), key.Namespace, most)
		}
	}
	for _, name := range groupsOf(r) {
		ns, group := model.SplitRef(key.Namespace, name)
		ok, err := exists("Group", ns, group)
		if err != nil {
			return nil, err
		}
		if !ok {
			warnings = append(warnings, fmt.Sprintf("group %q does not exist (yet)%s", name, s.meant(ctx, Key{"Group", ns, group}, set)))
		}
	}
	missing, err := s.missingNodes(ctx, key.Namespace, nodesOf(r), set)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, missing...)
	for _, n := range namedBy(r) {
		if ok, err := exists(n.key.Kind, n.key.Namespace, n.key.Name); err != nil {
			return nil, err
		} else if !ok {
			kind, _ := model.KindOf(n.key.Kind)
			return nil, model.Errorf(model.Invalid, "%s: %s: %s %q does not exist%s", key, n.field, strings.ToLower(kind.Name), n.ref, s.meant(ctx, n.key, set)).
				WithHint("apply a %s of that name in the same file, or take it out; muster get %s -n %s lists them", kind.Name, kind.Plural, n.key.Namespace)
		}
	}
	if node, ok := r.Spec.(*model.NodeSpec); ok && node.Lifecycle != nil {
		return warnings, s.canHear(ctx, key.String()+": ", key.Namespace, node.Lifecycle, set)
	}
	return warnings, nil
}

// named is something that must be there for a resource: who is told, when, and what it hangs on.
type named struct {
	key   Key
	field string
	ref   string // as it is written
}

// namedBy lists what a resource names that must be there.
func namedBy(r *model.Resource) (list []named) {
	in := KeyOf(r).Namespace
	add := func(kind, field string, refs ...string) {
		for _, ref := range refs {
			ns, name := model.SplitRef(in, ref)
			list = append(list, named{Key{kind, ns, name}, field, ref})
		}
	}
	hangs := func(field, check string) {
		if model.BuiltinCheck(check) == 0 {
			add("Check", field, check)
		}
	}
	switch spec := r.Spec.(type) {
	case *model.NodeSpec:
		if l := spec.Lifecycle; l != nil {
			add("Handler", "lifecycle.handlers", l.Handlers...)
		}
		if k := spec.Keepalive; k != nil {
			add("Handler", "keepalive.handlers", k.Handlers...)
			add("Pipeline", "keepalive.pipelines", k.Pipelines...)
		}
		if b := spec.Behind; b != nil {
			add("Node", "behind.node", b.Node)
			hangs("behind.check", b.CheckName())
		}
	case *model.NamespaceSpec:
		in = r.Metadata.Name
		add("Handler", "handlers", spec.Handlers...)
	case *model.CheckSpec:
		for i, name := range spec.DependsOn {
			hangs(fmt.Sprintf("dependsOn[%d]", i), name)
		}
		add("Pipeline", "pipelines", spec.Pipelines...)
		for i := range spec.Secrets {
			add("Secret", fmt.Sprintf("secrets[%d].secret", i), spec.Secrets[i].Secret)
		}
		add("Asset", "assets", spec.Assets...)
		for i := range spec.Hooks {
			if name := spec.Hooks[i].Hook; name != "" {
				add("Hook", fmt.Sprintf("hooks[%d].hook", i), name)
			}
		}
		if spec.Schedule != nil {
			for i, e := range spec.Schedule.Except {
				if e.Window != "" {
					add("Window", fmt.Sprintf("schedule.except[%d].window", i), e.Window)
				}
			}
		}
		if spec.Alert != nil {
			add("Handler", "alert.handlers", spec.Alert.Handlers...)
			if spec.Alert.Route != "" {
				add("Route", "alert.route", spec.Alert.Route)
			}
		}
	case *model.HandlerSpec:
		for _, one := range spec.NamedSecrets() {
			add("Secret", one.Field, one.Ref)
		}
		add("Asset", "assets", spec.Assets...)
	case *model.MutatorSpec:
		for _, one := range spec.NamedSecrets() {
			add("Secret", one.Field, one.Ref)
		}
		add("Asset", "assets", spec.Assets...)
	case *model.FilterSpec:
		add("Asset", "assets", spec.Assets...)
		if spec.When != nil && spec.When.Window != "" {
			add("Window", "when.window", spec.When.Window)
		}
	case *model.PipelineSpec:
		for i := range spec.Workflows {
			w, at := &spec.Workflows[i], fmt.Sprintf("workflows[%d]", i)
			for k, name := range w.Filters {
				if !model.BuiltinFilter(name) {
					add("Filter", fmt.Sprintf("%s.filters[%d]", at, k), name)
				}
			}
			if w.Mutator != "" && !model.BuiltinMutator(w.Mutator) {
				add("Mutator", at+".mutator", w.Mutator)
			}
			add("Handler", at+".handler", w.Handler)
		}
	case *model.RouteSpec:
		for i := range spec.Steps {
			add("Handler", fmt.Sprintf("steps[%d].to", i), spec.Steps[i].To...)
		}
		for i := range spec.Mute {
			if spec.Mute[i].Window != "" {
				add("Window", fmt.Sprintf("mute[%d].window", i), spec.Mute[i].Window)
			}
		}
	}
	return list
}

// targetsOf are all targets that a resource has.
func targetsOf(r *model.Resource) (list []*model.Targets) {
	switch spec := r.Spec.(type) {
	case *model.CheckSpec:
		list = append(list, spec.Targets, spec.Proxy)
	case *model.SilenceSpec:
		list = append(list, spec.Targets)
	case *model.WindowSpec:
		if spec.Maintenance != nil {
			list = append(list, spec.Maintenance.Targets)
		}
	case *model.RouteSpec:
		if spec.Match != nil {
			list = append(list, spec.Match.Targets)
		}
		for i := range spec.Mute {
			list = append(list, spec.Mute[i].Targets)
		}
	}
	return slices.DeleteFunc(list, func(t *model.Targets) bool { return t == nil })
}

func groupsOf(r *model.Resource) []string {
	switch spec := r.Spec.(type) {
	case *model.NodeSpec:
		return spec.Groups
	case *model.GroupSpec:
		return spec.Groups
	}
	var out []string
	for _, t := range targetsOf(r) {
		for ; t != nil; t = t.Except {
			out = append(out, t.Groups...)
		}
	}
	return out
}
