package intent

import (
	"context"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Rename renames a node, and changes all references to its name in the same commit. The node keeps its ids, and with
// them events, problems and history. Conditions that name it stay; warnings list them.
func (s *Resources) Rename(ctx context.Context, by Actor, namespace, name, to string, o ApplyOptions) (ApplyResult, error) {
	key := Key{"Node", namespace, name}
	row, err := s.opts.Store.Get(ctx, key)
	if err != nil {
		return ApplyResult{}, err
	}
	if name == to {
		return ApplyResult{}, model.Errorf(model.Invalid, "resource %s already has the new name", key)
	}
	r, err := s.decode(row)
	if err != nil {
		return ApplyResult{}, err
	}
	r.Metadata.Name = to
	if err := s.opts.Validate(r); err != nil {
		return ApplyResult{}, err
	}
	if _, err := s.opts.Store.Get(ctx, KeyOf(r)); model.ClassOf(err) != model.NotFound {
		if err == nil {
			err = model.Errorf(model.Conflict, "resource %s already exists", KeyOf(r)).
				WithHint("if the same machine joined again: muster node retire %s, then rename; muster describe node %s shows the machine", to, to)
		}
		return ApplyResult{}, err
	}
	body, err := encode(r)
	if err != nil {
		return ApplyResult{}, err
	}
	a := pendingApply{repo: s.repository, by: by, opts: o}
	a.copyNodeRow(row)
	a.addWrite(Write{Key: KeyOf(r), From: name, Body: body, Expect: row.Revision},
		Outcome{Key: KeyOf(r), Op: OpRenamed, Was: name, Diff: difference(row.Body, body), Warnings: renameWarning(row)})
	if err := a.renameReferences(ctx, nodeRenaming{namespace: namespace, old: name, new: to, inOtherNamespaces: s.nameInOtherNamespace(namespace, name)}); err != nil {
		return ApplyResult{}, err
	}
	return a.previewAndCommit(ctx)
}

// nameInOtherNamespace reports whether a node of another namespace has the same name.
func (r *repository) nameInOtherNamespace(namespace, name string) bool {
	var others []string
	for _, ns := range r.namespaces.names() {
		if ns != namespace {
			others = append(others, ns)
		}
	}
	return r.nodes.hasMachine(others, name)
}

// renameReferences changes a renamed node's name in all resources that refer to the node.
func (a *pendingApply) renameReferences(ctx context.Context, n nodeRenaming) error {
	for _, k := range a.repo.opts.Kinds.Kinds() {
		for row, err := range a.repo.rows(ctx, ListQuery{Kind: k.Name}) {
			if err != nil {
				return err
			}
			if !strings.Contains(string(row.Body), n.old) {
				continue
			}
			r, err := a.repo.decode(row)
			if err != nil {
				return err
			}
			if n.mayMatchByCondition(r) {
				a.outcomes[0].Warnings = append(a.outcomes[0].Warnings,
					fmt.Sprintf("a condition of %s may refer to %q and stays unchanged; check the condition: muster get %s %s -n %s -o yaml", row.Key, n.old, strings.ToLower(k.Name), row.Name, row.Namespace))
			}
			if !n.renameInResource(r) {
				continue
			}
			body, err := encode(r)
			if err != nil {
				return err
			}
			a.addWrite(Write{Key: row.Key, Body: body, Expect: row.Revision},
				Outcome{Key: row.Key, Op: OpUpdated, Revision: row.Revision, Diff: difference(row.Body, body)})
		}
	}
	return nil
}

// nodeRenaming has the old and the new name of a node. Its methods change resources that refer to the node.
type nodeRenaming struct {
	namespace, old, new string
	inOtherNamespaces   bool // nodes of other namespaces also have the old name
}

// renameInResource replaces the node's old name in a resource, and reports whether the resource changed.
func (n nodeRenaming) renameInResource(r *model.Resource) (changed bool) {
	of := KeyOf(r).Namespace
	model.EachReference("spec", r.Spec, func(f model.FieldReference) {
		names := f.Names()
		if f.Kind != "Node" || len(names) == 0 {
			return
		}
		if ns, _ := model.SplitRef(of, names[0]); !f.IsList() && ns != n.namespace {
			return // it names one node, also in the namespace shared
		}
		if names, here := n.renameInList(of, names); here {
			f.SetNames(names)
			changed = true
		}
	})
	if spec, ok := r.Spec.(*model.PropertySpec); ok {
		if name, ok := strings.CutPrefix(spec.Scope, "node:"); ok {
			if refs, here := n.renameInList(of, []string{name}); here {
				spec.Scope, changed = "node:"+refs[len(refs)-1], true
			}
		}
	}
	return changed
}

// renameInList replaces a renamed node's old name in a list of references. In the namespace shared a plain name means
// the nodes of that name in all namespaces: if nodes of other namespaces have the old name, the list keeps it beside
// the new one.
func (n nodeRenaming) renameInList(of string, refs []string) (out []string, changed bool) {
	for _, ref := range refs {
		ns, name := model.SplitRef(of, ref)
		if name != n.old || ns != n.namespace && ns != model.SharedNamespaceName {
			out = append(out, ref)
			continue
		}
		if ns == model.SharedNamespaceName && ns != n.namespace && n.inOtherNamespaces {
			out = append(out, ref)
		}
		out, changed = append(out, strings.TrimSuffix(ref, n.old)+n.new), true
	}
	return out, changed
}

// mayMatchByCondition reports whether a resource has a CEL condition, which may select the renamed node by its
// name.
func (n nodeRenaming) mayMatchByCondition(r *model.Resource) bool {
	if of := KeyOf(r).Namespace; of != n.namespace && of != model.SharedNamespaceName {
		return false // the resource selects nodes of another namespace
	}
	var texts []string
	if spec, ok := r.Spec.(*model.GroupSpec); ok {
		texts = append(texts, spec.Where)
	}
	model.EachTargets(r.Spec, func(_ string, t *model.Targets) { texts = append(texts, t.Where) })
	for _, text := range texts {
		if strings.Contains(text, "node.name") && strings.Contains(text, n.old) {
			return true
		}
	}
	return false
}
