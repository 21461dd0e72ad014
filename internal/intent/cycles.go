package intent

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// cycles finds groups that would contain themselves.
func (s *Service) cycles(ctx context.Context, set map[Key]*model.Resource) (problems []error) {
	inner := map[Key][]Key{}
	members := func(key Key) []Key {
		if keys, ok := inner[key]; ok {
			return keys
		}
		r := set[key]
		if r == nil {
			if row, err := s.opts.Store.Get(ctx, key); err == nil {
				r, _ = decode(row)
			}
		}
		var keys []Key
		if r != nil {
			if spec, ok := r.Spec.(*model.GroupSpec); ok {
				for _, name := range spec.Groups {
					ns, group := model.SplitRef(key.Namespace, name)
					keys = append(keys, Key{"Group", ns, group})
				}
			}
		}
		inner[key] = keys
		return keys
	}
	for _, key := range slices.SortedFunc(maps.Keys(set), func(a, b Key) int { return strings.Compare(a.String(), b.String()) }) {
		if key.Kind != "Group" {
			continue
		}
		from := map[Key]Key{} // by which group each was come to
		stack := []Key{key}
		for len(stack) > 0 {
			k := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			inside := members(k)
			if slices.Contains(inside, key) {
				way := key.Name
				for ; k != key; k = from[k] {
					way = k.Name + " → " + way
				}
				problems = append(problems, model.Errorf(model.Invalid, "%s would contain itself: %s → %s", key, key.Name, way).
					WithHint("take one of them out of the spec.groups of the one before it"))
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
