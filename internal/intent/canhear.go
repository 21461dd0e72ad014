package intent

import (
	"context"

	"github.com/muster-fleet/muster/internal/model"
)

// canHear refuses handlers of a lifecycle whose service takes problems only. One that is not
// there is another's matter; set: what is applied with it.
func (s *Service) canHear(ctx context.Context, whose, namespace string, l *model.Lifecycle, set map[Key]*model.Resource) error {
	for _, ref := range l.Handlers {
		ns, name := model.SplitRef(namespace, ref)
		key := Key{"Handler", ns, name}
		r := set[key]
		if r == nil {
			row, err := s.opts.Store.Get(ctx, key)
			if model.ClassOf(err) == model.NotFound {
				continue
			} else if err != nil {
				return err
			}
			if r, err = decode(row); err != nil {
				return err
			}
		}
		if service := r.Spec.(*model.HandlerSpec).ProblemsOnly(); service != "" {
			return model.Errorf(model.Invalid, "%slifecycle.handlers: handler %q is %s, which takes problems only: that a node was forgotten would stay open there for ever", whose, ref, service).
				WithHint("name a handler with command, webhook, email or a chat; muster get handlers -n %s lists them", ns)
		}
	}
	return nil
}
