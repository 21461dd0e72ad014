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

// proposal has the declared resources in their state after an apply, to validate references before the commit.
// It serves to validate references between resources. It reads each row once, and rows known beforehand in one
// query. One proposal serves one apply.
type proposal struct {
	repo    *repository
	applied map[Key]*model.Resource
	deleted map[Key]bool
	rows    map[Key]*Row // nil: the store has no such row
	decoded map[Key]*model.Resource
}

// newProposal returns the state that the declared resources would have after an apply. The apply writes the resources
// in applied and deletes the resources in deleted.
func newProposal(repo *repository, applied map[Key]*model.Resource, deleted map[Key]bool) *proposal {
	return &proposal{repo: repo, applied: applied, deleted: deleted, rows: map[Key]*Row{}, decoded: map[Key]*model.Resource{}}
}

// readRows reads the database rows with the given keys in one query. It skips rows that the proposal has read already.
func (p *proposal) readRows(ctx context.Context, keys []Key) error {
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

// readReferencedRows reads the database rows of all applied resources and of their references. It needs one query per
// level of references.
func (p *proposal) readReferencedRows(ctx context.Context) error {
	keys := slices.Collect(maps.Keys(p.applied))
	for _, r := range p.applied {
		if ns := KeyOf(r).Namespace; ns != "" {
			keys = append(keys, Key{Kind: "Namespace", Name: ns})
		}
		keys = append(keys, p.referencedKeys(r, false)...)
	}
	for len(keys) > 0 {
		if err := p.readRows(ctx, keys); err != nil {
			return err
		}
		var next []Key
		for _, key := range keys {
			if k, _ := p.repo.opts.Kinds.Lookup(key.Kind); k.Cycle.Problem == "" {
				continue
			}
			r, err := p.resourceAfterApply(ctx, key)
			if err != nil || r == nil {
				continue // the check that needs the row reports the error
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

// referencedKeys returns the keys of the resources to which a resource refers. With chainOnly it returns only
// references that may form a cycle, such as a check that depends on a check: readReferencedRows follows those
// further. Nodes with a machine are left out, because they are known without a query.
func (p *proposal) referencedKeys(r *model.Resource, chainOnly bool) (keys []Key) {
	lookups := 0
	for _, ref := range p.repo.opts.Kinds.References(r) {
		if chainOnly && !ref.Chain {
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

// storedRow returns the stored database row of the resource with the given key, or nil. It returns nil if the
// store has no such row.
func (p *proposal) storedRow(ctx context.Context, key Key) (*Row, error) {
	if err := p.readRows(ctx, []Key{key}); err != nil {
		return nil, err
	}
	return p.rows[key], nil
}

// resourceAfterApply returns the state of a resource after the apply. It returns nil if the resource will not exist.
func (p *proposal) resourceAfterApply(ctx context.Context, key Key) (*model.Resource, error) {
	if p.deleted[key] {
		return nil, nil
	}
	if r := p.applied[key]; r != nil {
		return r, nil
	}
	if r := p.decoded[key]; r != nil {
		return r, nil
	}
	row, err := p.storedRow(ctx, key)
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

// specAfterApply returns the specification of a resource after the apply. It returns nil if the resource will not
// exist.
func specAfterApply[S any](ctx context.Context, p *proposal, key Key) (*S, error) {
	r, err := p.resourceAfterApply(ctx, key)
	if err != nil || r == nil {
		return nil, err
	}
	spec, _ := r.Spec.(any).(*S)
	return spec, nil
}

// referenceKey returns the key of a resource, given its kind and a reference text such as shared/web. namespace
// is the namespace of the referring resource.
func referenceKey(kind, namespace, ref string) Key {
	ns, name := model.SplitRef(namespace, ref)
	return Key{kind, ns, name}
}

// checkReferences refuses a resource in a missing namespace, or with a reference to a missing resource. It warns of
// missing groups and nodes.
func (p *proposal) checkReferences(ctx context.Context, r *model.Resource) (warnings []string, err error) {
	key := KeyOf(r)
	if key.Namespace != "" {
		namespace, err := p.resourceAfterApply(ctx, Key{Kind: "Namespace", Name: key.Namespace})
		if err != nil {
			return nil, err
		}
		if namespace == nil {
			return nil, model.Errorf(model.Invalid, "%s: namespace %q does not exist", key, key.Namespace).
				WithHint("apply a Namespace of that name first, or in the same file").At(key.String(), "metadata.namespace")
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
		found, err := p.resourceAfterApply(ctx, to)
		switch {
		case err != nil:
			return nil, err
		case found != nil:
		case ref.Required:
			k, _ := p.repo.opts.Kinds.Lookup(ref.Kind)
			return nil, model.Errorf(model.Invalid, "%s: %s: %s %q does not exist%s", key, ref.Field, strings.ToLower(k.Name), ref.Text, p.suggestName(ctx, to)).
				WithHint("apply a %s of that name in the same file, or remove the reference. List them: muster get %s -n %s", k.Name, k.Plural, to.Namespace).At(key.String(), ref.Field)
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

// keyOfReference converts a parsed reference to the database key of the referenced resource.
func keyOfReference(ref kind.Reference) Key { return Key{ref.Kind, ref.Namespace, ref.Name} }

// suggestName returns a hint with an existing resource of a similar name. The text is empty if no name is near.
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

// checkLifecycleHandlers refuses handlers that cannot announce a removed node, such as PagerDuty. A lifecycle handler
// announces removed nodes, and nothing would close such a message. checkReferences reports missing handlers.
func (p *proposal) checkLifecycleHandlers(ctx context.Context, whose, namespace string, life *model.Lifecycle) error {
	for _, ref := range life.Handlers {
		key := referenceKey("Handler", namespace, ref)
		spec, err := specAfterApply[model.HandlerSpec](ctx, p, key)
		if err != nil {
			return err
		}
		if spec == nil {
			continue
		}
		if service := spec.ProblemService(); service != "" {
			return model.Errorf(model.Invalid, "%slifecycle.handlers: handler %q is %s, which accepts only problems: the incident about a removed node would stay open", whose, ref, service).
				WithHint("name a handler with command, webhook, email or a chat. List handlers: muster get handlers -n %s", key.Namespace)
		}
	}
	return nil
}

// findCycles returns an error for each resource that refers to itself, directly or through others. Examples are a
// group in itself, a node upstream of itself, and a check that depends on itself.
func (p *proposal) findCycles(ctx context.Context) (problems []error) {
	known := map[Key][]Key{}
	next := func(key Key) []Key {
		if keys, ok := known[key]; ok {
			return keys
		}
		known[key] = nil
		if r, err := p.resourceAfterApply(ctx, key); err == nil && r != nil {
			for _, ref := range p.repo.opts.Kinds.References(r) {
				if ref.Chain && ref.Kind == key.Kind {
					known[key] = append(known[key], keyOfReference(ref))
				}
			}
		}
		return known[key]
	}
	for _, key := range slices.SortedFunc(maps.Keys(p.applied), func(a, b Key) int { return strings.Compare(a.String(), b.String()) }) {
		k, _ := p.repo.opts.Kinds.Lookup(key.Kind)
		if k.Cycle.Problem == "" {
			continue
		}
		from := map[Key]Key{} // for each visited resource the one that refers to it
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

// Bounds of the search for missing nodes. A list of nodes may hold thousands of names.
const (
	maxMissingNodes = 5
	maxNodeLookups  = 1000 // queries of the store; enrolled nodes are known in memory
)

// missingNodes returns a warning for each listed node that does not exist yet. A plain name in the namespace shared
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
				return append(warnings, "did not check the other nodes of the list: too many have not enrolled"), nil
			}
			row, err := p.storedRow(ctx, Key{"Node", ns, name})
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
			return append(warnings, "and other nodes do not exist. List nodes: muster get nodes"), nil
		}
		named = append(named, ref)
		warnings = append(warnings, fmt.Sprintf("node %q does not exist (yet)%s", ref, p.suggestNode(within, name)))
	}
	return warnings, nil
}

// suggestNode returns a hint with an existing node of a similar name. The text is empty if no name is near.
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
