package intent

import (
	"context"

	"github.com/muster-fleet/muster/internal/model"
)

// trust holds groups that are trusted to what they are made of: each group inside one is
// trusted too. What a group by itself may say is checked before (model, where).
func (s *Service) trust(ctx context.Context, r *model.Resource, l *lookup) error {
	spec, ok := r.Spec.(*model.GroupSpec)
	if !ok {
		return nil
	}
	key := KeyOf(r)
	if !spec.Trusted {
		return s.trustedAround(ctx, key, l)
	}
	for _, name := range spec.Groups {
		ns, group := model.SplitRef(key.Namespace, name)
		inside, err := specOf[model.GroupSpec](ctx, l, Key{"Group", ns, group})
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
	return s.trustedNodes(ctx, key, spec, l)
}

// trustedAround refuses to take trust from a group that a trusted one contains.
func (s *Service) trustedAround(ctx context.Context, key Key, l *lookup) error {
	before, err := specOf[model.GroupSpec](ctx, s.newLookup(nil, nil), key)
	if err != nil || before == nil || !before.Trusted {
		return err
	}
	rows, err := s.opts.Store.List(ctx, ListQuery{Kind: "Group"})
	if err != nil {
		return err
	}
	for _, row := range rows {
		around, err := specOf[model.GroupSpec](ctx, l, row.Key)
		if err != nil || around == nil || !around.Trusted {
			continue // what cannot be read here is refused where it is applied
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

// trustedNodes refuses names of nodes that are not there: the first machine that joins
// under such a name would be in the group.
func (s *Service) trustedNodes(ctx context.Context, key Key, spec *model.GroupSpec, l *lookup) error {
	for _, name := range spec.Nodes {
		missing, err := s.missingNodes(ctx, key.Namespace, []string{name}, l)
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
