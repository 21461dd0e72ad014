package intent

import (
	"bytes"
	"context"

	"github.com/muster-fleet/muster/internal/model"
)

// heldKinds are those whose commands and services the server runs and calls.
var heldKinds = [...]string{"Handler", "Mutator"}

// held refuses handlers and mutators that name a Secret whose value only agents know: they run on
// the server. It looks at what is applied, and at those that are there already where such a Secret
// is.
func (s *Service) held(ctx context.Context, l *lookup) (problems []error, err error) {
	look := func(r *model.Resource) error {
		key := KeyOf(r)
		kind, _ := s.opts.Kinds.Of(key.Kind)
		for _, one := range r.Spec.(interface{ NamedSecrets() []model.NamedSecret }).NamedSecrets() {
			ns, name := model.SplitRef(key.Namespace, one.Ref)
			spec, err := specOf[model.SecretSpec](ctx, l, Key{"Secret", ns, name})
			if err != nil {
				return err
			}
			if spec != nil && !spec.OnServer() {
				problems = append(problems, model.Errorf(model.Invalid, "%s: %s: the value of secret %s is in %s, and %s run on the server", key, one.Field, one.Ref, spec.Location(), kind.Plural).
					WithHint("name a Secret with file, env or vault"))
			}
		}
		return nil
	}
	moved := false
	for _, r := range l.applied {
		switch spec := r.Spec.(type) {
		case *model.HandlerSpec, *model.MutatorSpec:
			if err := look(r); err != nil {
				return nil, err
			}
		case *model.SecretSpec:
			moved = moved || !spec.OnServer()
		}
	}
	if !moved {
		return problems, nil
	}
	var rows []Row
	for _, kind := range heldKinds {
		list, err := s.opts.Store.List(ctx, ListQuery{Kind: kind})
		if err != nil {
			return nil, err
		}
		rows = append(rows, list...)
	}
	for _, row := range rows {
		if l.applied[row.Key] != nil || !bytes.Contains(row.Body, []byte(`"secret"`)) {
			continue
		}
		r, err := s.decode(row)
		if err != nil {
			return nil, err
		}
		if err := look(r); err != nil {
			return nil, err
		}
	}
	return problems, nil
}
