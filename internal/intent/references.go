package intent

import (
	"context"
	"fmt"
	"slices"

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
	namespace, field, handlers := handlersOf(r)
	for _, handler := range handlers {
		ns, name := model.SplitRef(namespace, handler)
		if ok, err := exists("Handler", ns, name); err != nil {
			return nil, err
		} else if !ok {
			return nil, model.Errorf(model.Invalid, "%s: %s: handler %q does not exist%s", key, field, handler, s.meant(ctx, Key{"Handler", ns, name}, set)).
				WithHint("apply a Handler of that name in the same file, or take it out; muster get handlers -n %s lists them", ns)
		}
	}
	return warnings, nil
}

// handlersOf are the handlers that a resource names, in which field, and the namespace
// whose names they are.
func handlersOf(r *model.Resource) (namespace, field string, handlers []string) {
	switch spec := r.Spec.(type) {
	case *model.NamespaceSpec:
		return r.Metadata.Name, "handlers", spec.Handlers
	case *model.CheckSpec:
		if spec.Alert != nil {
			return KeyOf(r).Namespace, "alert.handlers", spec.Alert.Handlers
		}
	}
	return "", "", nil
}

func groupsOf(r *model.Resource) []string {
	switch spec := r.Spec.(type) {
	case *model.NodeSpec:
		return spec.Groups
	case *model.GroupSpec:
		return spec.Groups
	case *model.CheckSpec:
		if spec.Targets != nil {
			out := spec.Targets.Groups
			for t := spec.Targets.Except; t != nil; t = t.Except {
				out = append(slices.Clone(out), t.Groups...)
			}
			return out
		}
	}
	return nil
}
