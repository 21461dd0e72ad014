package intent

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// round is what is said of a kind whose resources lead to others of it and come back to
// themselves, and what to do about it. Empty: the kind's lead to none.
func round(kind string) (would, hint string) {
	switch kind {
	case "Group":
		return "would contain itself", "take one of them out of the spec.groups of the one before it"
	case "Node":
		return "would be behind itself", "take spec.behind out of one of them: what has nothing in front says none"
	case "Check":
		return "would depend on itself", "take one of them out of the spec.dependsOn of the one before it"
	}
	return "", ""
}

// next are the resources of the same kind that one leads to.
func next(r *model.Resource) (keys []Key) {
	in, refs := KeyOf(r), []string(nil)
	switch spec := r.Spec.(type) {
	case *model.GroupSpec:
		refs = spec.Groups
	case *model.NodeSpec:
		if spec.Behind != nil {
			refs = []string{spec.Behind.Node}
		}
	case *model.CheckSpec:
		refs = spec.DependsOn
	}
	for _, ref := range refs {
		ns, name := model.SplitRef(in.Namespace, ref)
		keys = append(keys, Key{in.Kind, ns, name})
	}
	return keys
}

// cycles finds groups that would contain themselves, and what would hang on itself.
func (s *Service) cycles(ctx context.Context, set map[Key]*model.Resource) (problems []error) {
	known := map[Key][]Key{}
	following := func(key Key) []Key {
		if keys, ok := known[key]; ok {
			return keys
		}
		r := set[key]
		if r == nil {
			if row, err := s.opts.Store.Get(ctx, key); err == nil {
				r, _ = decode(row)
			}
		}
		if known[key] = nil; r != nil {
			known[key] = next(r)
		}
		return known[key]
	}
	for _, key := range slices.SortedFunc(maps.Keys(set), func(a, b Key) int { return strings.Compare(a.String(), b.String()) }) {
		would, hint := round(key.Kind)
		if would == "" {
			continue
		}
		from := map[Key]Key{} // by which one each was come to
		stack := []Key{key}
		for len(stack) > 0 {
			k := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			inside := following(k)
			if slices.Contains(inside, key) {
				way := key.Name
				for ; k != key; k = from[k] {
					way = k.Name + " → " + way
				}
				problems = append(problems, model.Errorf(model.Invalid, "%s %s: %s → %s", key, would, key.Name, way).WithHint("%s", hint))
				break
			}
			for _, next := range inside {
				if _, seen := from[next]; !seen {
					from[next] = k
					stack = append(stack, next)
				}
			}
		}
	}
	return problems
}
