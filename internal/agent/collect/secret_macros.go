package collect

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// withSecrets returns a collector that expands the secret macros of a key for each collection, and redacts the secrets in values and
// errors. values has the values of the other macros, named the secrets in the key.
func (w *Wheel) withSecrets(of collector, key string, values *model.MacroValues, named []model.DefinitionSecret) collector {
	out := of
	out.waits = true // a secret may be on the server
	out.measure = func(ctx context.Context, m *machine, _ *Key) (item.Value, error) {
		found, err := w.cfg.Secrets(ctx, named)
		if err != nil {
			return item.Value{}, err
		}
		hider := hide.New(slices.Collect(maps.Values(found)))
		value, err := of.measureKey(ctx, m, key, values.WithSecrets(found))
		if err != nil {
			return item.Value{}, errors.New(string(hider.Redact([]byte(err.Error()))))
		}
		if value.Kind() == item.TextValue {
			value = item.FromText(string(hider.Redact([]byte(value.String()))))
		}
		return value, nil
	}
	return out
}

// measureKey measures an item whose key has macros.
func (c *collector) measureKey(ctx context.Context, m *machine, text string, values *model.MacroValues) (item.Value, error) {
	text, err := values.Expand(text)
	if err != nil {
		return item.Value{}, err
	}
	key, err := ParseKey(text)
	if err == nil {
		err = c.check(&key)
	}
	if err != nil {
		return item.Value{}, err
	}
	return c.measure(ctx, m, &key)
}
