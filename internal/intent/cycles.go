package intent

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// cycles finds resources that would refer to themselves through others of their kind: groups that
// contain themselves, nodes behind themselves, checks that depend on themselves.
func (s *Service) cycles(ctx context.Context, l *lookup) (problems []error) {
	known := map[Key][]Key{}
	next := func(key Key) []Key {
		if keys, ok := known[key]; ok {
			return keys
		}
		known[key] = nil
		if r, err := l.resource(ctx, key); err == nil && r != nil {
			for _, ref := range s.opts.Kinds.References(r) {
				if ref.Chain && ref.Kind == key.Kind {
					known[key] = append(known[key], keyOfReference(ref))
				}
			}
		}
		return known[key]
	}
	for _, key := range slices.SortedFunc(maps.Keys(l.applied), func(a, b Key) int { return strings.Compare(a.String(), b.String()) }) {
		k, _ := s.opts.Kinds.Of(key.Kind)
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
