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
		seen := map[Key]bool{}
		stack := members(key)
		for len(stack) > 0 {
			k := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if k == key {
				problems = append(problems, model.Errorf(model.Invalid, "%s would contain itself through its groups", key).
					WithHint("take one of them out of spec.groups"))
				break
			}
			if !seen[k] {
				seen[k] = true
				stack = append(stack, members(k)...)
			}
		}
	}
	return problems
}
