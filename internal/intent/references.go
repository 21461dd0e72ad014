package intent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// checkReferences refuses a missing namespace and missing resources that the kind requires; it warns of missing groups
// and nodes.
func (p *proposal) checkReferences(ctx context.Context, r *model.Resource) (warnings []string, err error) {
	key := KeyOf(r)
	if key.Namespace != "" {
		namespace, err := p.resource(ctx, Key{Kind: "Namespace", Name: key.Namespace})
		if err != nil {
			return nil, err
		}
		if namespace == nil {
			return nil, model.Errorf(model.Invalid, "%s: namespace %q does not exist", key, key.Namespace).
				WithHint("apply a Namespace of that name first, or in the same file")
		}
		if most := p.repo.namespaces.limitsByName(key.Namespace).Labels; key.Kind == "Node" && most > 0 && len(r.Metadata.Labels) > most {
			return nil, model.Errorf(model.Limited, "%s has %d labels, namespace %s allows %d", key, len(r.Metadata.Labels), key.Namespace, most)
		}
	}
	var nodes []string
	for _, ref := range p.repo.opts.Kinds.References(r) {
		if ref.Kind == "Node" && !ref.Required {
			nodes = append(nodes, ref.Text)
			continue
		}
		to := keyOfReference(ref)
		found, err := p.resource(ctx, to)
		switch {
		case err != nil:
			return nil, err
		case found != nil:
		case ref.Required:
			k, _ := p.repo.opts.Kinds.Of(ref.Kind)
			return nil, model.Errorf(model.Invalid, "%s: %s: %s %q does not exist%s", key, ref.Field, strings.ToLower(k.Name), ref.Text, p.suggestName(ctx, to)).
				WithHint("apply a %s of that name in the same file, or remove the reference. List them: muster get %s -n %s", k.Name, k.Plural, to.Namespace)
		default:
			warnings = append(warnings, fmt.Sprintf("%s %q does not exist (yet)%s", strings.ToLower(ref.Kind), ref.Text, p.suggestName(ctx, to)))
		}
	}
	missing, err := p.missingNodes(ctx, key.Namespace, nodes)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, missing...)
	if node, ok := r.Spec.(*model.NodeSpec); ok && node.Lifecycle != nil {
		return warnings, p.checkLifecycleHandlers(ctx, key.String()+": ", key.Namespace, node.Lifecycle)
	}
	return warnings, nil
}

func keyOfReference(ref kind.Reference) Key { return Key{ref.Kind, ref.Namespace, ref.Name} }

// suggestName returns a hint with an existing name near a missing one.
func (p *proposal) suggestName(ctx context.Context, missing Key) string {
	rows, err := p.repo.opts.Store.List(ctx, ListQuery{Kind: missing.Kind, Namespace: missing.Namespace, Limit: 1000})
	if err != nil {
		return ""
	}
	var names []string
	for _, row := range rows {
		names = append(names, row.Name)
	}
	for key := range p.applied {
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

// checkLifecycleHandlers refuses handlers of a lifecycle whose service keeps problems only: the message that a node
// was forgotten would stay open there for ever. checkReferences reports missing handlers.
func (p *proposal) checkLifecycleHandlers(ctx context.Context, whose, namespace string, life *model.Lifecycle) error {
	for _, ref := range life.Handlers {
		ns, name := model.SplitRef(namespace, ref)
		key := Key{"Handler", ns, name}
		spec, err := specOf[model.HandlerSpec](ctx, p, key)
		if err != nil {
			return err
		}
		if spec == nil {
			continue
		}
		if service := spec.ProblemService(); service != "" {
			return model.Errorf(model.Invalid, "%slifecycle.handlers: handler %q is %s, which takes problems only: that a node was forgotten would stay open there for ever", whose, ref, service).
				WithHint("name a handler with command, webhook, email or a chat; muster get handlers -n %s lists them", ns)
		}
	}
	return nil
}

// findCycles returns an error for each resource that refers to itself through others of its kind: groups that contain
// themselves, nodes behind themselves, checks that depend on themselves.
func (p *proposal) findCycles(ctx context.Context) (problems []error) {
	known := map[Key][]Key{}
	next := func(key Key) []Key {
		if keys, ok := known[key]; ok {
			return keys
		}
		known[key] = nil
		if r, err := p.resource(ctx, key); err == nil && r != nil {
			for _, ref := range p.repo.opts.Kinds.References(r) {
				if ref.Chain && ref.Kind == key.Kind {
					known[key] = append(known[key], keyOfReference(ref))
				}
			}
		}
		return known[key]
	}
	for _, key := range slices.SortedFunc(maps.Keys(p.applied), func(a, b Key) int { return strings.Compare(a.String(), b.String()) }) {
		k, _ := p.repo.opts.Kinds.Of(key.Kind)
		if k.Cycle.Problem == "" {
			continue
		}
		from := map[Key]Key{} // the resource before each one on the way
		stack := []Key{key}
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if slices.Contains(next(at), key) {
				way := key.Name
				for ; at != key; at = from[at] {
					way = at.Name + " → " + way
				}
				problems = append(problems, model.Errorf(model.Invalid, "%s %s: %s → %s", key, k.Cycle.Problem, key.Name, way).WithHint("%s", k.Cycle.Hint))
				break
			}
			for _, to := range next(at) {
				if _, seen := from[to]; !seen {
					from[to] = at
					stack = append(stack, to)
				}
			}
		}
	}
	return problems
}
