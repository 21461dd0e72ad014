package intent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// references checks what a resource refers to, as it will be after the apply. It refuses a missing
// namespace, and a missing resource that the kind requires; it warns of missing groups and nodes.
func (s *Service) references(ctx context.Context, r *model.Resource, l *lookup) (warnings []string, err error) {
	key := KeyOf(r)
	if key.Namespace != "" {
		namespace, err := l.resource(ctx, Key{Kind: "Namespace", Name: key.Namespace})
		if err != nil {
			return nil, err
		}
		if namespace == nil {
			return nil, model.Errorf(model.Invalid, "%s: namespace %q does not exist", key, key.Namespace).
				WithHint("apply a Namespace of that name first, or in the same file")
		}
		if most := s.LimitsFor(key.Namespace).Labels; key.Kind == "Node" && most > 0 && len(r.Metadata.Labels) > most {
			return nil, model.Errorf(model.Limited, "%s has %d labels, namespace %s allows %d", key, len(r.Metadata.Labels), key.Namespace, most)
		}
	}
	var nodes []string
	for _, ref := range s.opts.Kinds.References(r) {
		if ref.Kind == "Node" && !ref.Required {
			nodes = append(nodes, ref.Text)
			continue
		}
		to := keyOfReference(ref)
		found, err := l.resource(ctx, to)
		switch {
		case err != nil:
			return nil, err
		case found != nil:
		case ref.Required:
			k, _ := s.opts.Kinds.Of(ref.Kind)
			return nil, model.Errorf(model.Invalid, "%s: %s: %s %q does not exist%s", key, ref.Field, strings.ToLower(k.Name), ref.Text, s.nearest(ctx, to, l)).
				WithHint("apply a %s of that name in the same file, or remove the reference. List them: muster get %s -n %s", k.Name, k.Plural, to.Namespace)
		default:
			warnings = append(warnings, fmt.Sprintf("%s %q does not exist (yet)%s", strings.ToLower(ref.Kind), ref.Text, s.nearest(ctx, to, l)))
		}
	}
	missing, err := s.missingNodes(ctx, key.Namespace, nodes, l)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, missing...)
	if node, ok := r.Spec.(*model.NodeSpec); ok && node.Lifecycle != nil {
		return warnings, s.notifiable(ctx, key.String()+": ", key.Namespace, node.Lifecycle, l)
	}
	return warnings, nil
}

func keyOfReference(ref kind.Reference) Key { return Key{ref.Kind, ref.Namespace, ref.Name} }

// nearest suggests an existing name for a missing one: ; did you mean "web"?
func (s *Service) nearest(ctx context.Context, missing Key, l *lookup) string {
	rows, err := s.opts.Store.List(ctx, ListQuery{Kind: missing.Kind, Namespace: missing.Namespace, Limit: 1000})
	if err != nil {
		return ""
	}
	var names []string
	for _, row := range rows {
		names = append(names, row.Name)
	}
	for key := range l.applied {
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
