package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// secretMeasure is a measureFunc of an item with secret macros. values has their values, too, secrets them alone.
type secretMeasure func(ctx context.Context, m *machine, k *Key, values *model.MacroValues, secrets map[string]string) (item.Value, error)

// withSecrets returns a copy of a collector that also replaces secret macros. measure expands them for each collection;
// the collector redacts the secrets in values and errors. values has the values of the other macros, named the
// secrets.
func (w *Scheduler) withSecrets(of collector, values *model.MacroValues, named []model.DefinitionSecret, measure secretMeasure) collector {
	out := of
	out.waits = true // a secret may be on the server
	out.measure = func(ctx context.Context, m *machine, k *Key) (item.Value, error) {
		found, err := w.cfg.Secrets(ctx, named)
		if err != nil {
			return item.Value{}, err
		}
		hider := hide.New(slices.Collect(maps.Values(found)))
		value, err := measure(ctx, m, k, values.WithSecrets(found), found)
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

// measureWithSecrets measures an item whose key has macros with secret values in its parameters. A secret is
// one parameter or a part of it, whatever characters it has; a command of the shell gets only secrets without
// characters that the shell reads.
func (c *collector) measureWithSecrets(ctx context.Context, m *machine, k *Key, values *model.MacroValues, secrets map[string]string) (item.Value, error) {
	expanded := Key{Name: k.Name, Parameters: make([]string, len(k.Parameters))}
	for i, parameter := range k.Parameters {
		text, err := values.Expand(parameter)
		if err != nil {
			return item.Value{}, err
		}
		expanded.Parameters[i] = text
	}
	if k.Name == "system.run" {
		for macro, secret := range secrets {
			if !isShellSafe(secret) {
				return item.Value{}, fmt.Errorf("system.run: the value of %s has a character that the shell could read as a command: only letters, digits and . _ : / @ %% + = , - are allowed", macro)
			}
		}
	}
	if err := c.check(&expanded); err != nil {
		return item.Value{}, err
	}
	return c.measure(ctx, m, &expanded)
}
