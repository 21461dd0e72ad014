package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// maxDepartedOneShots bounds the stored runs of one-shot directives that left the node.
const maxDepartedOneShots = 1000

// oneShotRetry is the retry interval of a one-shot directive that lacks a secret or archive.
const oneShotRetry = time.Minute

// oneShots has the last run of each one-shot directive (model.DirectiveDefinition.OneShot) on the node. The state folder
// has each run before the run begins, so that no crash makes the agent run a directive twice. Any goroutine may call
// its methods.
type oneShots struct {
	dir string // state folder

	mu       sync.Mutex
	runs     map[model.UnitID]oneShotRun           // nil: not read yet
	reported map[model.UnitID][]model.DefinitionID // definition and Waivers of the last report since the last connection
	assigned bool                                  // the assignment has one-shot directives
	retrying map[model.UnitID]bool                 // directives with a timer for their next look at secrets and archives
}

// oneShotRun is one run of a one-shot directive.
type oneShotRun struct {
	Work      []byte    `json:"work"`              // wire.DirectiveWork of its definition
	Changes   bool      `json:"changes,omitempty"` // the run was allowed to change the node
	StartedAt time.Time `json:"startedAt"`
	Report    []byte    `json:"report,omitempty"` // encoded wire.Report; empty: the run has not ended
}

// retry calls a function after oneShotRetry. It does nothing if the directive has such a timer.
func (s *oneShots) retry(unit model.UnitID, look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retrying[unit] {
		return
	}
	if s.retrying == nil {
		s.retrying = map[model.UnitID]bool{}
	}
	s.retrying[unit] = true
	time.AfterFunc(oneShotRetry, func() {
		s.mu.Lock()
		delete(s.retrying, unit)
		s.mu.Unlock()
		look()
	})
}

// load reads the stored runs. The caller holds mu.
func (s *oneShots) load() error {
	if s.runs != nil {
		return nil
	}
	runs := map[model.UnitID]oneShotRun{}
	data, err := os.ReadFile(filepath.Join(s.dir, oneShotFile))
	if err == nil {
		runs, err = decodeOneShots(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the runs of one-shot directives in %s: %w", filepath.Join(s.dir, oneShotFile), err)
	}
	s.runs = runs
	return nil
}

// decodeOneShots decodes the stored runs of one-shot directives.
func decodeOneShots(data []byte) (map[model.UnitID]oneShotRun, error) {
	runs := map[model.UnitID]oneShotRun{}
	if err := json.Unmarshal(data, &runs); err != nil {
		return nil, err
	}
	if runs == nil { // the file has null
		runs = map[model.UnitID]oneShotRun{}
	}
	return runs, nil
}

// find returns the run of a directive that excludes another run. changes says that a run may change the node: an
// earlier run that only audited does not exclude such a run.
func (s *oneShots) find(c *model.DirectiveDefinition, changes bool) (run oneShotRun, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return run, false, err
	}
	run, ok = s.runs[c.Unit]
	return run, ok && bytes.Equal(run.Work, wire.DirectiveWork(c)) && (run.Changes || !changes), nil
}

// store writes a run of a directive to the state folder.
func (s *oneShots) store(unit model.UnitID, run oneShotRun) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return err
	}
	before, known := s.runs[unit]
	s.runs[unit] = run
	data, err := json.Marshal(s.runs)
	if err == nil {
		err = disk.WriteFile(disk.OS{}, s.dir, oneShotFile, data)
	}
	if err == nil {
		return nil
	}
	if delete(s.runs, unit); known {
		s.runs[unit] = before
	}
	return fmt.Errorf("write the run of a one-shot directive: %w", err)
}

// setReported records that the session has got a report of a directive under a definition and Waivers.
func (s *oneShots) setReported(unit model.UnitID, ids []model.DefinitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reported == nil {
		s.reported = map[model.UnitID][]model.DefinitionID{}
	}
	s.reported[unit] = ids
}

// isReported reports whether the session has got a report of a directive under a definition and Waivers.
func (s *oneShots) isReported(unit model.UnitID, ids []model.DefinitionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Equal(s.reported[unit], ids)
}

// forgetReports makes the agent report each run again, because a restored server may lack the reports. It returns
// whether the assignment has one-shot directives.
func (s *oneShots) forgetReports() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.reported)
	return s.assigned
}

// keep forgets the reports of directives that left the node. It forgets the oldest runs if too many directives left.
// assigned says that the assignment has one-shot directives.
func (s *oneShots) keep(directives map[model.UnitID][]model.DefinitionID, assigned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned = assigned
	for unit := range s.reported {
		if directives[unit] == nil {
			delete(s.reported, unit)
		}
	}
	var departed []model.UnitID
	for unit := range s.runs {
		if directives[unit] == nil {
			departed = append(departed, unit)
		}
	}
	if len(departed) <= maxDepartedOneShots {
		return
	}
	slices.SortFunc(departed, func(a, b model.UnitID) int { return s.runs[a].StartedAt.Compare(s.runs[b].StartedAt) })
	for _, unit := range departed[:len(departed)-maxDepartedOneShots] {
		delete(s.runs, unit) // the file follows with the next run
	}
}

// scheduleOneShot sets when a one-shot directive runs or reports next. It returns the time of the run if that lies in
// the future, else zero.
func (d *directives) scheduleOneShot(job *schedule.Job, c *model.DirectiveDefinition, values model.PropertyValues, ids []model.DefinitionID, now time.Time) (start time.Time) {
	_, ran, err := d.oneShots.find(c, d.executor.MayChange(c, values))
	switch begin := c.OneShot.From().Add(when.Phase(d.node, c.Unit, c.Splay)); {
	case err != nil:
		d.agent.cfg.Log.Error("a one-shot directive does not run, because its earlier runs are unknown", "directive", c.Name, "err", err, "hint", "delete the file if the directive may run again")
	case ran:
		job.OneShot = !d.oneShots.isReported(c.Unit, ids)
	case now.Before(begin):
		start = begin
	default:
		job.OneShot = c.OneShot.IsOpen(now)
	}
	job.OnRequest = !job.OneShot
	return start
}

// runOneShot runs a one-shot directive, unless an earlier run or the end of its time forbids the run. A request of a person
// runs it in any case. The agent reports the run, and reports an earlier run again.
func (d *directives) runOneShot(ctx context.Context, definition *model.Definition, values model.PropertyValues, waivers []*model.WaiverDefinition, ids []model.DefinitionID, since uint64) {
	c := definition.AsDirective()
	requested := d.agent.requests.awaitsRun(c.Unit)
	defer func() {
		if !requested && d.agent.requests.awaitsRun(c.Unit) {
			d.scheduler.RunAgain(schedule.Key{Check: c.Unit}) // the request came after the look above
		}
	}()
	earlier, ran, err := d.oneShots.find(c, d.executor.MayChange(c, values))
	if err == nil && (requested || !ran) {
		if now := d.agent.serverTime(); !requested && (now.Before(c.OneShot.From()) || !c.OneShot.IsOpen(now)) {
			return
		}
		if err := d.awaitInputs(ctx, c); err != nil && !requested {
			d.agent.cfg.Log.Warn("a one-shot directive waits", "directive", c.Name, "err", err)
			d.oneShots.retry(c.Unit, func() { d.scheduler.RunNow(schedule.Key{Check: c.Unit}) })
			return
		}
		last := oneShotRun{Work: wire.DirectiveWork(c), Changes: d.executor.MayChange(c, values), StartedAt: d.agent.serverTime()}
		if err = d.oneShots.store(c.Unit, last); err == nil {
			report, ok := d.execute(ctx, c, values, waivers)
			if !ok {
				return
			}
			last.Report = wire.AppendReport(nil, &report)
			if err := d.oneShots.store(c.Unit, last); err != nil {
				d.agent.cfg.Log.Error("the next report of a one-shot directive will lack its result", "directive", c.Name, "err", err)
			}
			d.report(definition, &report, since)
			d.oneShots.setReported(c.Unit, ids)
			return
		}
	}
	if err != nil {
		d.agent.cfg.Log.Error("a one-shot directive does not run", "directive", c.Name, "err", err)
		d.agent.requests.finishRunsOfUnit(c.Unit, run.Result{Status: model.Unknown, Code: -1, Output: []byte(err.Error())})
		return
	}
	report := repeatedReport(c, earlier.Report, func(component string) bool { return coversComponent(waivers, component, d.agent.serverTime()) })
	d.report(definition, &report, since)
	d.oneShots.setReported(c.Unit, ids)
}

// awaitInputs returns an error if a secret or archive of a directive may still arrive. A one-shot directive would miss
// both in its only run.
func (d *directives) awaitInputs(ctx context.Context, c *model.DirectiveDefinition) error {
	if len(c.Secrets) > 0 {
		if _, err := d.executor.Secrets(ctx, c.Secrets); err != nil {
			return err
		}
	}
	for i := range c.Assets {
		if _, built := d.agent.checks.archiveForMachine(&c.Assets[i]); !built {
			continue // no archive will come for this machine: the component says so
		}
		if _, err := d.assetFolder(ctx, c, &c.Assets[i]); err != nil {
			return err
		}
	}
	return nil
}

// repeatedReport returns the report of an earlier run of a directive, with the present Waivers. Without a stored
// report all components are missing: the agent ended during the run.
func repeatedReport(c *model.DirectiveDefinition, stored []byte, waived func(component string) bool) (report wire.Report) {
	n := len(c.Components)
	if err := report.Decode(stored); err != nil || int(report.Components) != n || policy.Codes(report.Codes).Check(n) != nil {
		return wire.Report{
			Components: uint32(n), Codes: policy.NewCodes(n),
			Ended: "the agent ended during the run, and does not run a one-shot directive again",
		}
	}
	codes := policy.Codes(report.Codes)
	for i := range c.Components {
		switch status := codes.At(i); {
		case (status == policy.NonCompliant || status == policy.Error || status == policy.CouldNotCheck) && waived(c.Components[i].Name):
			codes.Set(i, policy.Waived)
		case status == policy.Waived && !waived(c.Components[i].Name):
			codes.Set(i, policy.NonCompliant)
		}
	}
	return report
}

// reportResult converts the report of a directive to the result of a requested run.
func reportResult(c *model.DirectiveDefinition, r *wire.Report) run.Result {
	codes := policy.Codes(r.Codes)
	counts, _ := codes.CountStatuses(len(c.Components), c.Blocks)
	result := run.Result{Duration: time.Duration(r.DurationMs) * time.Millisecond}
	switch {
	case counts.Failed():
		result.Status = model.Critical
	case counts.Unfulfilled() > 0:
		result.Status = model.Unknown
	}
	text := fmt.Appendf(nil, "%d of %s compliant", counts.Total()-counts.Unfulfilled()-counts[policy.Waived], model.CountNoun(counts.Total(), "component"))
	if r.Ended != "" {
		text = append(append(text, "; "...), r.Ended...)
	}
	exceptions := r.Exceptions
	for i := range c.Components {
		message := ""
		if len(exceptions) > 0 && int(exceptions[0].Position) == i {
			message, exceptions = ": "+exceptions[0].Message, exceptions[1:]
		}
		switch status := codes.At(i); status {
		case policy.NotApplicable, policy.Compliant, policy.Success:
		default:
			text = fmt.Appendf(text, "\n%s: %s%s", c.Components[i].Name, status, message)
		}
	}
	result.Output = text
	return result
}
