package agent

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/policy"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// directives runs the directives (policy rules) of the assignment, one at a time, and appends their reports to the
// spool.
type directives struct {
	agent       *Agent
	executor    policy.Executor
	scheduler   *schedule.Scheduler
	definitions map[model.UnitID]model.DefinitionID // in force
}

// openScheduler makes the executor and the scheduler of directives (policy rules).
func (d *directives) openScheduler(a *Agent, node uuid.UUID) {
	cfg := &a.cfg
	d.agent = a
	d.executor = policy.Executor{Runner: a.checks.runner, Facts: a.facts.lastMeasured, Enforce: cfg.Commands.PolicyEnforce && !cfg.Commands.AuditOnly}
	d.scheduler = schedule.New(schedule.Config{
		Node: node, MaxConcurrent: 1, FirstWithin: cfg.FirstWithin, Grace: cfg.StopGrace,
		Boot: func() time.Duration { return time.Duration(cfg.Machine.BootMs()) * time.Millisecond }, Now: cfg.Machine.Now,
	})
}

// applyDefinitions schedules the directives (policy rules) of a new assignment in place of the present ones. A new or
// changed directive runs soon, at its splay within Config.FirstWithin.
func (d *directives) applyDefinitions(a *link.Assignment, definitions []*model.Definition) error {
	values := wire.PropertyLookup(a.Properties)
	var jobs, unchanged []schedule.Job
	inForce := map[model.UnitID]model.DefinitionID{}
	for _, definition := range definitions {
		c := definition.AsDirective()
		job := schedule.Job{Key: schedule.Key{Check: c.Unit}, Interval: c.Interval, Do: func(ctx context.Context) { d.runDirective(ctx, c, values) }}
		if jobs = append(jobs, job); d.definitions[c.Unit] == c.ID {
			unchanged = append(unchanged, job)
		}
		inForce[c.Unit] = c.ID
	}
	d.definitions = inForce
	if err := d.scheduler.Set(unchanged); err != nil { // so that a changed one counts as new
		return err
	}
	return d.scheduler.Set(jobs)
}

// suspendDefinitions removes all directives (policy rules) from the schedule until applyDefinitions sets them again.
func (d *directives) suspendDefinitions() {
	d.definitions = nil
	_ = d.scheduler.Set(nil) // an empty list has no error
}

// runDirective runs a directive (policy rule) once and appends its report to the spool. A run that the end of the
// agent interrupted reports nothing.
func (d *directives) runDirective(ctx context.Context, c *model.DirectiveDefinition, values model.PropertyValues) {
	report, ok := d.executor.Run(ctx, c, values)
	if !ok {
		return
	}
	signal := &wire.Signal{Kind: wire.SignalReport, Definition: c.ID, AtMs: d.agent.cfg.Machine.BootMs(), Body: wire.AppendReport(nil, &report)}
	if err := d.agent.spool.Append(signal, false); err != nil {
		d.agent.checks.lostResults.Add(1)
		d.agent.cfg.Log.Error("lost a report: the spool refused it", "directive", c.Name, "err", err)
	}
}
