package agent

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	collector "github.com/muster-fleet/muster/internal/agent/inventory"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/policy"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// directives runs the assigned directives (policy rules) one at a time, and spools their reports.
type directives struct {
	agent     *Agent
	restoring bool // the assignment is that of the agent's last run
	executor  policy.Executor
	scheduler *schedule.Scheduler
	applied   map[model.UnitID][]model.DefinitionID // the definition in force of each directive, and the Waivers that cover it
	since     map[model.DefinitionID]uint64         // boot time of the arrival of each definition, ms; zero: before the start of the agent
	signed    reportSigner
	reported  reportedRuns
	oneShots  oneShots
	node      uuid.UUID
	assigned  atomic.Pointer[map[model.DefinitionID]model.UnitID] // the directives of applied by definition, for requests
	awaiting  awaitingAssets
	expiry    *time.Timer // applies the assignment again when its next Waiver expires or its next one-shot begins; nil: none does
}

// openScheduler creates the scheduler of policy directives, and the executor that runs each directive.
func (d *directives) openScheduler(a *Agent, node uuid.UUID) {
	cfg := &a.cfg
	d.agent, d.signed.agent, d.node, d.oneShots.dir = a, a, node, cfg.StateDir
	d.executor = policy.Executor{
		Runner: a.checks.runner, Facts: a.facts.lastMeasured, Enforce: cfg.Commands.PolicyEnforce && !cfg.Commands.AuditOnly, Secrets: a.secrets.Find,
		Packages: &policy.PackageDatabase{}, PackageStamp: func() string { return collector.PackageStamp(os.DirFS("/")) },
	}
	d.scheduler = schedule.New(schedule.Config{
		Node: node, MaxConcurrent: 1, OneOffset: true, FirstWithin: cfg.FirstWithin, Grace: cfg.StopGrace,
		Boot: func() time.Duration { return time.Duration(cfg.Machine.BootMs()) * time.Millisecond }, Now: cfg.Machine.Now,
	})
}

// applyDefinitions schedules the directives (policy rules) of a new assignment and removes all others. A new or
// changed directive, and one whose Waivers changed or expired, runs soon, at the node's offset within Config.FirstWithin.
func (d *directives) applyDefinitions(a *link.Assignment, definitions []*model.Definition) error {
	values, now := wire.PropertyLookup(a.Properties), d.agent.serverTime()
	var jobs, unchanged []schedule.Job
	var next time.Time // end of the first Waiver, or begin of the first one-shot
	earlier := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	hasOneShots := false
	applied, since, assigned := map[model.UnitID][]model.DefinitionID{}, map[model.DefinitionID]uint64{}, map[model.DefinitionID]model.UnitID{}
	for _, definition := range definitions {
		c := definition.AsDirective()
		waivers, ids := waiversOf(a, c, now), []model.DefinitionID{c.ID}
		for _, w := range waivers {
			ids = append(ids, w.ID)
			earlier(w.Expires())
		}
		got, known := d.since[c.ID]
		if !known && !d.restoring {
			got = d.agent.cfg.Machine.BootMs()
		}
		since[c.ID] = got
		job := schedule.Job{Key: schedule.Key{Check: c.Unit}, Interval: c.Interval, Cron: c.Cron, Zone: c.TimeZone, Splay: c.Splay, Do: func(ctx context.Context) { d.runDirective(ctx, definition, values, waivers, got) }}
		if c.OneShot != nil {
			hasOneShots = true
			job.Do = func(ctx context.Context) { d.runOneShot(ctx, definition, values, waivers, ids, got) }
			if start := d.scheduleOneShot(&job, c, values, ids, now); !start.IsZero() {
				earlier(start)
			}
		}
		if jobs = append(jobs, job); slices.Equal(d.applied[c.Unit], ids) {
			unchanged = append(unchanged, job)
		}
		applied[c.Unit], assigned[c.ID] = ids, c.Unit
	}
	d.applied, d.since = applied, since
	d.assigned.Store(&assigned)
	d.oneShots.keep(applied, hasOneShots)
	d.signed.setAssignment(a.Hash, applied)
	d.reported.removeUnassigned(applied)
	d.stopWaiverTimer()
	if !next.IsZero() {
		d.expiry = time.AfterFunc(next.Sub(now), func() { d.agent.units.reapply(model.DefinitionDirective) })
	}
	if err := d.scheduler.Set(unchanged); err != nil { // so that a changed one counts as new
		return err
	}
	return d.scheduler.Set(jobs)
}

// unitOf returns the directive of a definition in the assignment. It returns zero for another definition.
func (d *directives) unitOf(definition model.DefinitionID) model.UnitID {
	if assigned := d.assigned.Load(); assigned != nil {
		return (*assigned)[definition]
	}
	return 0
}

// stopWaiverTimer stops the timer for the end of the next Waiver (a permitted exception from a policy rule).
func (d *directives) stopWaiverTimer() {
	if d.expiry != nil {
		d.expiry.Stop()
		d.expiry = nil
	}
}

// suspendDefinitions removes all directives (policy rules) from the schedule. The next call of applyDefinitions
// schedules the directives again.
func (d *directives) suspendDefinitions() {
	d.applied = nil
	d.assigned.Store(nil)
	d.stopWaiverTimer()
	_ = d.scheduler.Set(nil) // an empty list has no error
}

// heldBeforeStart is the age of a definition that the agent had before it started: longer than each grace period.
const heldBeforeStart = 1 << 62

// runDirective runs a directive (policy rule) once, and appends its signed report to the spool. A directive with a
// heartbeat gets a report only if one is due (reportedRuns.mustReport). A run that the end of the agent interrupted reports
// nothing.
func (d *directives) runDirective(ctx context.Context, definition *model.Definition, values model.PropertyValues, waivers []*model.WaiverDefinition, since uint64) {
	c := definition.AsDirective()
	if report, ok := d.execute(ctx, c, values, waivers); ok {
		d.report(definition, &report, since)
	}
}

// execute runs a directive once, and answers the people who requested the run. ok is false if the end of the agent
// interrupted the run.
func (d *directives) execute(ctx context.Context, c *model.DirectiveDefinition, values model.PropertyValues, waivers []*model.WaiverDefinition) (report wire.Report, ok bool) {
	executor := d.executor
	executor.AssetFolder = func(ctx context.Context, a *model.DefinitionAsset) (string, error) { return d.assetFolder(ctx, c, a) }
	report, ok = executor.Run(ctx, c, values, func(component string) bool { return coversComponent(waivers, component, d.agent.serverTime()) })
	if ok {
		d.agent.requests.finishRunsOfUnit(c.Unit, reportResult(c, &report))
	}
	return report, ok
}

// assetFolder returns the folder of an archive that a directive reads. If the archive is missing, its arrival starts
// another run of the directive.
func (d *directives) assetFolder(ctx context.Context, c *model.DirectiveDefinition, a *model.DefinitionAsset) (folder string, err error) {
	d.agent.checks.lookUpArchive(func() bool {
		folder, err = d.agent.checks.assetFolder(ctx, a)
		return err == nil
	}, func() { d.awaiting.add(c.Unit) })
	return folder, err
}

// report appends the signed report of a run to the spool, if a report is due. since is the boot time of the
// definition's receipt, in ms.
func (d *directives) report(definition *model.Definition, report *wire.Report, since uint64) {
	c := definition.AsDirective()
	now := d.agent.cfg.Machine.BootMs()
	if report.HeldMs = heldBeforeStart; since > 0 {
		report.HeldMs = now - since
	}
	due, forgets := d.reported.mustReport(c, report, now)
	if !due {
		return
	}
	if err := d.signed.append(definition, report); err != nil {
		d.agent.checks.lostResults.Add(1)
		d.agent.cfg.Log.Error("lost a report", "directive", c.Name, "err", err)
		return
	}
	d.reported.record(c, report, now, forgets)
}

// awaitingAssets has the policy directives that could not run because an asset's archive was missing. They run again
// when the archive arrives.
type awaitingAssets struct {
	mu    sync.Mutex
	units map[model.UnitID]bool
}

// add records a policy directive that could not run because an asset's archive was missing.
func (w *awaitingAssets) add(unit model.UnitID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.units == nil {
		w.units = map[model.UnitID]bool{}
	}
	w.units[unit] = true
}

// drain returns the policy directives that lack an archive, and empties the list.
func (w *awaitingAssets) drain() map[model.UnitID]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	units := w.units
	w.units = nil
	return units
}

// retryWithAsset reruns the policy directives that could not run completely, because an asset's archive was
// missing.
func (d *directives) retryWithAsset() {
	for unit := range d.awaiting.drain() {
		d.scheduler.RunAgain(schedule.Key{Check: unit})
	}
}
