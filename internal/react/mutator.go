package react

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
)

// mutatedBody returns the body for a program: the recorded notification or, for an event of a pipeline, the
// output of its mutator. A mutator runs with each attempt of its delivery, so a slow or failing one holds back
// that delivery only. hidden lists the secrets to remove from logs.
func (d *deliverer) mutatedBody(ctx context.Context, note *handler.Notification, payload []byte) (body []byte, hidden []string, err error) {
	switch {
	case note.Event == nil:
		return payload, nil, nil
	case note.Mutator == "" || note.Mutator == model.MutatorJSON:
		return note.Event, nil, nil
	case note.Mutator == model.MutatorOnlyOutput:
		return []byte(note.Output), nil, nil
	case d.pipelines == nil:
		return nil, nil, fmt.Errorf("mutator %s: pipelines are not kept here", note.Mutator)
	}
	body, command, err := d.pipelines.Mutate(ctx, note.Mutator, func() (event map[string]any, err error) {
		return event, json.Unmarshal(note.Event, &event)
	}, d.now())
	if err == nil && command != nil {
		body, hidden, err = d.out.Mutate(ctx, command, note.Event)
	}
	if err != nil {
		failed := fmt.Errorf("mutator %s: %w", note.Mutator, err)
		if class := model.ClassOf(err); command == nil && ctx.Err() == nil && !errors.Is(err, filter.ErrSlow) {
			if class != model.NotFound && class != model.Unavailable {
				return nil, nil, &handler.FinalError{Err: failed} // JavaScript comes to the same again, but for its time
			}
			return nil, nil, &handler.MissingAsset{Err: failed}
		}
		return nil, nil, failed
	}
	return body, hidden, nil
}
