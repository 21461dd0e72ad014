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

// proposal is intent as an apply would leave it: the applied resources, then those on record. It reads each row once,
// and rows known beforehand in one query. Use one proposal for one apply.
type proposal struct {
	repo    *repository
	applied map[Key]*model.Resource
	deleted map[Key]bool
	rows    map[Key]*Row // nil: not on record
	decoded map[Key]*model.Resource
}

func newProposal(repo *repository, applied map[Key]*model.Resource, deleted map[Key]bool) *proposal {
	return &proposal{repo: repo, applied: applied, deleted: deleted, rows: map[Key]*Row{}, decoded: map[Key]*model.Resource{}}
}

// read reads the rows of all keys that are not known yet, in one query.
func (p *proposal) read(ctx context.Context, keys []Key) error {
	var missing []Key
	for _, key := range keys {
		if _, known := p.rows[key]; !known {
			p.rows[key] = nil
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := p.repo.opts.Store.GetAll(ctx, missing)
	if err != nil {
		return err
	}
	for i := range rows {
		p.rows[rows[i].Key] = &rows[i]
	}
	return nil
}

// readAll reads the rows of all applied resources and of their references, along chains: one query for each step of
// the longest chain.
func (p *proposal) readAll(ctx context.Context) error {
	keys := slices.Collect(maps.Keys(p.applied))
	for _, r := range p.applied {
		if ns := KeyOf(r).Namespace; ns != "" {
			keys = append(keys, Key{Kind: "Namespace", Name: ns})
		}
		keys = append(keys, p.referencedKeys(r, false)...)
	}
	for len(keys) > 0 {
		if err := p.read(ctx, keys); err != nil {
			return err
		}
		var next []Key
		for _, key := range keys {
			if k, _ := p.repo.opts.Kinds.Of(key.Kind); k.Cycle.Problem == "" {
				continue
			}
			r, err := p.resource(ctx, key)
			if err != nil || r == nil {
				continue // whoever needs the row reports the error
			}
			for _, key := range p.referencedKeys(r, true) {
				if _, known := p.rows[key]; !known {
					next = append(next, key)
				}
			}
		}
		keys = next
	}
	return nil
}

// referencedKeys returns the keys that a resource refers to. With chain it returns its own kind only. Nodes with a
// machine are known without a query.
func (p *proposal) referencedKeys(r *model.Resource, chain bool) (keys []Key) {
	lookups := 0
	for _, ref := range p.repo.opts.Kinds.References(r) {
		if chain && !ref.Chain {
			continue
		}
		key := Key{ref.Kind, ref.Namespace, ref.Name}
		if ref.Kind == "Node" && !ref.Required {
			if p.repo.nodes.hasMachine([]string{key.Namespace}, key.Name) || lookups == maxNodeLookups {
				continue
			}
			lookups++
		}
		keys = append(keys, key)
	}
	return keys
}

// row returns a row on record; nil: there is none.
func (p *proposal) row(ctx context.Context, key Key) (*Row, error) {
	if err := p.read(ctx, []Key{key}); err != nil {
		return nil, err
	}
	return p.rows[key], nil
}

// resource returns a resource as the apply leaves it; nil: there is none.
func (p *proposal) resource(ctx context.Context, key Key) (*model.Resource, error) {
	if p.deleted[key] {
		return nil, nil
	}
	if r := p.applied[key]; r != nil {
		return r, nil
	}
	if r := p.decoded[key]; r != nil {
		return r, nil
	}
	row, err := p.row(ctx, key)
	if err != nil || row == nil {
		return nil, err
	}
	r, err := p.repo.decode(*row)
	if err != nil {
		return nil, err
	}
	p.decoded[key] = r
	return r, nil
}

// specOf returns the spec of a resource as the apply leaves it; nil: there is none.
func specOf[S any](ctx context.Context, p *proposal, key Key) (*S, error) {
	r, err := p.resource(ctx, key)
	if err != nil || r == nil {
		return nil, err
	}
	spec, _ := r.Spec.(any).(*S)
	return spec, nil
}

// keyOf returns the key of the resource that a reference names; namespace is that of the referring resource.
func keyOf(kind, namespace, ref string) Key {
	ns, name := model.SplitRef(namespace, ref)
	return Key{kind, ns, name}
}

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
		key := keyOf("Handler", namespace, ref)
		spec, err := specOf[model.HandlerSpec](ctx, p, key)
		if err != nil {
			return err
		}
		if spec == nil {
			continue
		}
		if service := spec.ProblemService(); service != "" {
			return model.Errorf(model.Invalid, "%slifecycle.handlers: handler %q is %s, which accepts only problems: the end of a node would stay open there", whose, ref, service).
				WithHint("name a handler with command, webhook, email or a chat; muster get handlers -n %s lists them", key.Namespace)
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

// Bounds of the search for missing nodes: a list may hold thousands.
const (
	maxMissingNodes = 5
	maxNodeLookups  = 1000 // in the store; nodes that enrolled are known in memory
)

// missingNodes warns of nodes that a resource names and that do not exist (yet). A plain name in the namespace shared
// means the nodes of that name in all namespaces.
func (p *proposal) missingNodes(ctx context.Context, namespace string, refs []string) (warnings []string, err error) {
	var named []string // in warnings
	lookups := 0
	for _, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		within := []string{ns}
		if ns == model.SharedNamespaceName {
			within = p.repo.namespaces.names()
		}
		if p.repo.nodes.hasMachine(within, name) || slices.ContainsFunc(within, func(ns string) bool { return p.applied[Key{"Node", ns, name}] != nil }) {
			continue
		}
		there := false
		for _, ns := range within {
			if lookups++; lookups > maxNodeLookups {
				return append(warnings, "did not check its other nodes: too many have not enrolled"), nil
			}
			row, err := p.row(ctx, Key{"Node", ns, name})
			if err != nil {
				return nil, err
			}
			if there = row != nil; there {
				break
			}
		}
		if there || slices.Contains(named, ref) {
			continue
		}
		if len(named) == maxMissingNodes {
			return append(warnings, "and other nodes do not exist: muster get nodes lists the nodes"), nil
		}
		named = append(named, ref)
		warnings = append(warnings, fmt.Sprintf("node %q does not exist (yet)%s", ref, p.suggestNode(within, name)))
	}
	return warnings, nil
}

// suggestNode returns a hint with an existing node near a missing one.
func (p *proposal) suggestNode(namespaces []string, name string) string {
	names := p.repo.nodes.names(namespaces)
	for key := range p.applied {
		if key.Kind == "Node" && slices.Contains(namespaces, key.Namespace) {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	if near := model.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
