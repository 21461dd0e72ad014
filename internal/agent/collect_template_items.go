package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/collect"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/spool"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// templates collects the items (metrics) of the assigned Templates and spools their values.
type templates struct {
	wheel         *collect.Scheduler
	keepPositions func(keep func(name string) bool) // of logs
}

// openItemScheduler creates the scheduler for the items (metrics) of Templates. It collects each item when the
// item is due.
func (t *templates) openItemScheduler(a *Agent, node uuid.UUID) {
	t.keepPositions = a.spool.RemovePositions
	t.wheel = collect.New(collect.Config{
		Node: node, Host: a.cfg.Machine.Host, FirstWithin: a.checks.maxFirstDelay(),
		Boot: func() time.Duration { return time.Duration(a.cfg.Machine.BootMs()) * time.Millisecond },
		Wall: a.cfg.Machine.Now, Log: a.cfg.Log, Position: a.spool.Position,
		Run: func(ctx context.Context, command string) (string, error) {
			var output []byte // alone: r.Output has explanations for people, too
			r := a.checks.runner.Run(ctx, run.Command{Shell: command, MaxOutput: model.DefaultOutputBytes, Stream: func(part []byte) { output = append(output, part...) }})
			if r.Code < 0 || r.Code == 126 || r.Code == 127 { // the shell did not run the program
				return "", errors.New(strings.TrimSpace(string(r.Output)))
			}
			return strings.TrimRight(strings.ToValidUTF8(string(output), "\uFFFD"), " \t\r\n"), nil
		},
		Secrets: a.secrets.Find,
		Full:    func() bool { st := a.spool.Stats(); return st.Bytes > st.Most/4*3 },
		Emit: func(signal *wire.Signal, at *collect.Position) {
			var err error
			switch {
			case at == nil:
				err = a.spool.Append(signal, false)
			case signal == nil:
				a.spool.SetPosition((*spool.Position)(at))
			default: // the lines of an error are read again
				_ = a.spool.AppendWithPosition(signal, (*spool.Position)(at))
			}
			if err != nil {
				a.checks.lostResults.Add(1)
				a.cfg.Log.Error("lost values: the spool cannot store them", "definition", signal.Definition, "err", err)
			}
		},
	})
}

// applyDefinitions starts to collect the items (metrics) of newly assigned Templates, in place of the previous items.
func (t *templates) applyDefinitions(a *link.Assignment, definitions []*model.Definition) error {
	list := make([]*model.TemplateDefinition, len(definitions))
	for i, c := range definitions {
		list[i] = c.AsTemplate()
	}
	t.wheel.Set(list, wire.PropertyLookup(a.Properties))
	t.keepPositions(func(name string) bool {
		return name == runChainPosition || slices.ContainsFunc(list, func(c *model.TemplateDefinition) bool { return c.Unit == collect.TemplateOfPosition(name) })
	})
	return nil
}

// suspendDefinitions stops the collection of all items. The next call of applyDefinitions starts the collection again.
func (t *templates) suspendDefinitions() { t.wheel.Set(nil, nil) }
