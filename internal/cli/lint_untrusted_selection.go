package cli

import (
	"cmp"
	"fmt"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// untrustedSelectionNotes returns a note for each policy that selects nodes by values under the control of the
// machine. Such a policy selects nodes for an enforcing directive by values that the machine can choose. It
// judges only directives and groups of the files; apply judges all.
func untrustedSelectionNotes(docs []declaredResource) (notes []string) {
	directives, groups := map[string]*model.DirectiveSpec{}, map[string]*model.GroupSpec{}
	namespace := func(r *kind.LocatedResource) string { return cmp.Or(r.Metadata.Namespace, model.DefaultNamespaceName) }
	for i := range docs {
		r := docs[i].located
		switch spec := r.Spec.(type) {
		case *model.DirectiveSpec:
			directives[namespace(r)+"/"+r.Metadata.Name] = spec
		case *model.GroupSpec:
			groups[namespace(r)+"/"+r.Metadata.Name] = spec
		}
	}
	for i := range docs {
		r := docs[i].located
		policy, _ := r.Spec.(*model.PolicySpec)
		if policy == nil || policy.Targets == nil {
			continue
		}
		var by []string
		if policy.Targets.Where != "" && policy.Targets.Where != "true" {
			by = append(by, "its condition")
		}
		for _, name := range policy.Targets.Groups {
			if g := groups[model.QualifyRef(namespace(r), name)]; g != nil && !g.Trusted && (g.SelfJoin || g.Where != "" && g.Where != "true") {
				by = append(by, "group "+name)
			}
		}
		for _, name := range policy.Directives {
			d := directives[model.QualifyRef(namespace(r), name)]
			if d == nil || d.Mode != model.ModeEnforce || d.Trusted == model.TrustedFacts {
				continue
			}
			for _, source := range by {
				notes = append(notes, fmt.Sprintf("directive %s enforces, but only audits on nodes that policy %s selects by %s: machines can bring themselves in. Set trusted: true in a group, name the nodes, or write trusted: facts in the directive",
					name, r.Metadata.Name, source))
			}
		}
	}
	return notes
}
