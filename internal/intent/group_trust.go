package intent

import (
	"context"

	"github.com/muster-fleet/muster/internal/model"
)

// checkTrust requires that each group inside a trusted one is trusted too. Package where checks the group's own condition.
func (p *proposal) checkTrust(ctx context.Context, r *model.Resource) error {
	spec, ok := r.Spec.(*model.GroupSpec)
	if !ok {
		return nil
	}
	key := KeyOf(r)
	if !spec.Trusted {
		return p.checkContainers(ctx, key)
	}
	for _, name := range spec.Groups {
		ns, group := model.SplitRef(key.Namespace, name)
		inside, err := specOf[model.GroupSpec](ctx, p, Key{"Group", ns, group})
		if err != nil {
			return err
		}
		why := "which is not trusted: machines may bring themselves into it"
		if inside == nil {
			why = "which does not exist"
		} else if inside.Trusted {
			continue
		}
		return model.Errorf(model.Invalid, "%s is trusted and cannot contain group %s, %s", key, name, why).
			WithHint("give group %s trusted: true in the same apply, or take it out of spec.groups", name)
	}
	return p.checkListedNodes(ctx, key, spec)
}

// checkContainers refuses to take trust from a group that a trusted one contains.
func (p *proposal) checkContainers(ctx context.Context, key Key) error {
	before, err := specOf[model.GroupSpec](ctx, newProposal(p.repo, nil, nil), key)
	if err != nil || before == nil || !before.Trusted {
		return err
	}
	rows, err := p.repo.opts.Store.List(ctx, ListQuery{Kind: "Group"})
	if err != nil {
		return err
	}
	for _, row := range rows {
		around, err := specOf[model.GroupSpec](ctx, p, row.Key)
		if err != nil || around == nil || !around.Trusted {
			continue // an unreadable group is refused when it is applied
		}
		for _, name := range around.Groups {
			if ns, group := model.SplitRef(row.Namespace, name); (Key{"Group", ns, group}) == key {
				return model.Errorf(model.Invalid, "%s must stay trusted: %s, which is trusted, contains it", key, row.Key).
					WithHint("take it out of the groups of %s first: muster edit group %s -n %s", row.Name, row.Name, row.Namespace)
			}
		}
	}
	return nil
}

// checkListedNodes refuses names of missing nodes: the first machine to join by such a name would be in the group.
func (p *proposal) checkListedNodes(ctx context.Context, key Key, spec *model.GroupSpec) error {
	for _, name := range spec.Nodes {
		missing, err := p.missingNodes(ctx, key.Namespace, []string{name})
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return model.Errorf(model.Invalid, "%s is trusted, and %s: whoever joins first under that name would be in it", key, missing[0]).
				WithHint("let the machine join, look at it, and list it then; or join it with a token that names the group: muster node token --groups %s", key.Name)
		}
	}
	return nil
}
