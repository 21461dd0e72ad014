package react

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// expand puts the properties of the problem's node into a handler. Unlike a check, a
// handler runs on the server, so this is where {{ .props.x }} becomes a value. What
// is unset now may be set later: the error is no final one.
func expand(spec *model.HandlerSpec, values model.PropertyValues) (*model.HandlerSpec, error) {
	out := *spec
	t, err := model.ParseCommandTemplate(spec.Command, nil, spec.Env, "")
	if err != nil {
		return nil, &FinalError{fmt.Errorf("handler: %w", err)}
	}
	x, err := t.Expand(values)
	if err != nil {
		return nil, fmt.Errorf("handler: %w", err)
	}
	out.Env = x.Env
	if spec.Command != nil {
		out.Command = &model.Command{Shell: x.Shell, Argv: x.Argv}
	}
	if spec.Webhook != nil {
		hook, err := spec.Webhook.Expand(values)
		if err != nil {
			return nil, fmt.Errorf("handler: %w", err)
		}
		out.Webhook = hook
	}
	return &out, nil
}
