package intent

import (
	"context"

	"github.com/muster-fleet/muster/internal/model"
)

// notifiable refuses handlers of a lifecycle whose service only takes problems. A missing handler
// is the concern of references.
func (s *Service) notifiable(ctx context.Context, whose, namespace string, life *model.Lifecycle, l *lookup) error {
	for _, ref := range life.Handlers {
		ns, name := model.SplitRef(namespace, ref)
		key := Key{"Handler", ns, name}
		spec, err := specOf[model.HandlerSpec](ctx, l, key)
		if err != nil {
			return err
		}
		if spec == nil {
			continue
		}
		if service := spec.ProblemService(); service != "" {
			return model.Errorf(model.Invalid, "%slifecycle.handlers: handler %q is %s, which takes problems only: that a node was forgotten would stay open there for ever", whose, ref, service).
				WithHint("name a handler with command, webhook, email or a chat; muster get handlers -n %s lists them", ns)
		}
	}
	return nil
}
