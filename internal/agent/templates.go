package agent

import (
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/collect"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// templates collects the items (metrics) of the assignment's Templates and appends their values to the spool.
type templates struct{ wheel *collect.Wheel }

// openWheel creates the scheduler (Wheel) that collects each item of the Templates when it is due.
func (t *templates) openWheel(a *Agent, node uuid.UUID) {
	t.wheel = collect.New(collect.Config{
		Node: node, Host: a.cfg.Machine.Host, FirstWithin: a.checks.maxFirstDelay(),
		Boot: func() time.Duration { return time.Duration(a.cfg.Machine.BootMs()) * time.Millisecond },
		Emit: func(signal *wire.Signal) {
			if err := a.spool.Append(signal, false); err != nil {
				a.checks.lostResults.Add(1)
				a.cfg.Log.Error("lost values: the spool cannot store them", "definition", signal.Definition, "err", err)
			}
		},
	})
}

// applyDefinitions collects the items of a new assignment's Templates in place of the present items.
func (t *templates) applyDefinitions(a *link.Assignment, definitions []*model.Definition) error {
	list := make([]*model.TemplateDefinition, len(definitions))
	for i, c := range definitions {
		list[i] = c.AsTemplate()
	}
	t.wheel.Set(list, wire.PropertyLookup(a.Properties))
	return nil
}

// suspendDefinitions stops the collection of all items until applyDefinitions sets them again.
func (t *templates) suspendDefinitions() { t.wheel.Set(nil, nil) }
