package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	maxCommands    = 4                      // commands of people at the same time, besides the checks
	maxRequests    = 100                    // runs with output that is not sent
	flushAfter     = 100 * time.Millisecond // delay in which output gathers …
	flushBytes     = 16 << 10               // … unless it is as long as this
	commandTimeout = 30 * time.Second       // default
	maxCommandTime = time.Hour
)

// requestedRuns holds the checks and commands that people started by request, with their unsent output. All belong to
// the current session. It implements link.Outbox. mu is never held during a run.
type requestedRuns struct {
	agent *Agent
	ready chan struct{}

	mu             sync.Mutex
	ctx            context.Context // context of Agent.Run, whose end cancels commands
	stopped        bool
	runsByID       map[uint64]*requestedRun
	runsWithOutput []*requestedRun // runs with unsent output, which take turns
	commands       int             // running
	running        sync.WaitGroup
}

// requestedRun is one run of a check or command on a person's request, with its output. The mutex requestedRuns.mu
// guards the run.
type requestedRun struct {
	id             uint64
	unit           model.UnitID            // check or directive; zero: the run is a command
	cancel         context.CancelCauseFunc // cancels a command; nil for a check or directive
	outputLeft     int                     // bytes of output that are still accepted
	cutBytes       uint64                  // bytes of output beyond the limit
	unsent         []byte                  // unsent output
	outputStreamed bool                    // output arrived during the run
	flushing       bool                    // a timer will queue the run
	queued         bool
	endMessage     *wire.RunOutput // the end of the run
	abandoned      bool            // the session has ended, or a person cancelled the run
}

// acceptRequests allows the server to request runs of checks and commands from now on. The end of ctx cancels
// their commands.
func (k *requestedRuns) acceptRequests(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx, k.runsByID = ctx, map[uint64]*requestedRun{}
}

// handleRequest starts or cancels a check or command, as the server's message Run asks. The server counts its own
// requests: requests beyond maxRequests have no answer.
func (k *requestedRuns) handleRequest(r *wire.Run) {
	if r.Cancel {
		k.cancelRun(r.ID)
		return
	}
	if r.Inventory {
		k.agent.inventories.collectNow()
		return
	}
	check, own, assigned := k.agent.checks.findCheck(r.Definition)
	directive := k.agent.directives.unitOf(r.Definition)
	x := &requestedRun{id: r.ID, outputLeft: int(min(cmp.Or(r.MaxOutput, model.DefaultOutputBytes), model.MaxOutputBytes))}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped || k.ctx == nil || r.ID == 0 && r.Command != nil || r.ID != 0 && k.runsByID[r.ID] != nil || len(k.runsByID) >= maxRequests {
		return
	}
	if r.ID != 0 {
		k.runsByID[r.ID] = x
	}
	refusal := ""
	switch {
	case k.agent.cfg.Commands.NoRun:
		refusal = "refused by the agent's setting --no-run: it forbids requested runs"
	case r.Command != nil && k.agent.cfg.Commands.AuditOnly:
		refusal = "refused by the agent's setting --audit-only: it forbids requested commands"
	case r.Command != nil && k.commands >= maxCommands:
		refusal = fmt.Sprintf("the node already runs %d requested commands, the limit; try again after one has ended", maxCommands)
	case r.Command != nil:
		var ctx context.Context
		ctx, x.cancel = context.WithCancelCause(k.ctx)
		k.commands++
		k.running.Go(func() { k.runCommand(ctx, x, r) })
	case directive != 0:
		x.unit = directive
		k.agent.directives.scheduler.RunNow(schedule.Key{Check: directive})
	case assigned && !own:
		refusal = "a proxy check runs only by its own schedule, for each proxy node"
	case !assigned:
		refusal = "the node does not run this check or directive, or its agent does not have the last change yet"
	default:
		x.unit = check
		k.agent.checks.scheduler.RunNow(schedule.Key{Check: check})
	}
	if refusal != "" {
		k.agent.cfg.Log.Warn("refused a requested run", "definition", r.Definition, "reason", refusal)
		k.endRunLocked(x, &wire.RunOutput{Refused: refusal})
	}
}

// runCommand runs an ad-hoc command that a person requested, within the limits of checks.
func (k *requestedRuns) runCommand(ctx context.Context, x *requestedRun, r *wire.Run) {
	defer x.cancel(nil)
	timeout := min(time.Duration(r.TimeoutMs)*time.Millisecond, maxCommandTime)
	k.agent.cfg.Log.Info("started a requested command", "shell", r.Command.Shell, "argv", r.Command.Argv)
	result := k.agent.checks.runner.Run(ctx, run.Command{
		Shell: r.Command.Shell, Argv: r.Command.Argv, Timeout: cmp.Or(timeout, commandTimeout), MaxOutput: x.outputLeft, AdHoc: true,
		Stream: func(p []byte) { k.addOutput(x, p) },
	})
	k.mu.Lock()
	k.commands--
	k.mu.Unlock()
	k.finishRun(x, result)
}

// runsOfUnitLocked returns the unfinished requests for a run of a check or directive. The caller must hold the lock.
func (k *requestedRuns) runsOfUnitLocked(unit model.UnitID) (list []*requestedRun) {
	for _, x := range k.runsByID {
		if x.unit == unit && x.endMessage == nil {
			list = append(list, x)
		}
	}
	return list
}

// outputReceiver returns a function that sends a check's output to everybody with a request for the run. It returns
// nil if no request exists.
func (k *requestedRuns) outputReceiver(check model.CheckID) func([]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.runsOfUnitLocked(check)
	if list == nil {
		return nil
	}
	return func(p []byte) {
		for _, x := range list {
			k.addOutput(x, p)
		}
	}
}

// awaitsRun reports whether somebody has requested a run of a check or directive that has not ended.
func (k *requestedRuns) awaitsRun(unit model.UnitID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.runsOfUnitLocked(unit)) > 0
}

// finishRunsOfUnit ends all requests for a run of a check or directive with the result of the run.
func (k *requestedRuns) finishRunsOfUnit(unit model.UnitID, result run.Result) {
	k.mu.Lock()
	list := k.runsOfUnitLocked(unit)
	k.mu.Unlock()
	for _, x := range list {
		k.finishRun(x, result)
	}
}

// addOutput buffers a piece of a requested run's output, for the session to send to the server.
func (k *requestedRuns) addOutput(x *requestedRun, p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x.abandoned {
		return
	}
	x.outputStreamed = true
	x.cutBytes += uint64(max(0, len(p)-x.outputLeft))
	p = p[:min(len(p), x.outputLeft)]
	x.outputLeft -= len(p)
	x.unsent = append(x.unsent, p...)
	switch {
	case len(x.unsent) >= flushBytes:
		k.queueOutputLocked(x)
	case !x.flushing && !x.queued:
		x.flushing = true
		time.AfterFunc(flushAfter, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			x.flushing = false
			k.queueOutputLocked(x)
		})
	}
}

// finishRun ends a requested run with its status and last output.
func (k *requestedRuns) finishRun(x *requestedRun, result run.Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := &wire.RunOutput{Status: result.Status, DurationMs: uint32(min(result.Duration.Milliseconds(), 1<<31)), Cut: result.UnstreamedBytes + x.cutBytes}
	switch {
	case result.Refused:
		last.Refused = string(result.Output)
	case !x.outputStreamed:
		last.Cut = result.Cut
		x.unsent = append(x.unsent, result.Output[:min(len(result.Output), x.outputLeft)]...)
		last.Cut += uint64(max(0, len(result.Output)-x.outputLeft))
	case result.Note != "":
		if n := len(x.unsent); n > 0 && x.unsent[n-1] != '\n' {
			x.unsent = append(x.unsent, '\n')
		}
		x.unsent = append(x.unsent, result.Note...)
	}
	k.endRunLocked(x, last)
}

// endRunLocked records the end of a run and queues its last output.
func (k *requestedRuns) endRunLocked(x *requestedRun, last *wire.RunOutput) {
	last.ID, last.Last = x.id, true
	x.endMessage = last
	k.queueOutputLocked(x)
}

// queueOutputLocked queues a run with unsent output, and wakes the session to send the output.
func (k *requestedRuns) queueOutputLocked(x *requestedRun) {
	if x.queued || x.abandoned || x.id == 0 {
		return
	}
	x.queued = true
	k.runsWithOutput = append(k.runsWithOutput, x)
	pause.Wake(k.ready)
}

// Ready returns a channel that receives a value when a requested run has new output.
func (k *requestedRuns) Ready() <-chan struct{} { return k.ready }

// Next returns the next piece of a requested run's output, for the session to send. Runs take turns; a piece ends at
// the end of a character.
func (k *requestedRuns) Next(most int) (wire.RunOutput, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.runsWithOutput) > 0 {
		x := k.runsWithOutput[0]
		k.runsWithOutput = k.runsWithOutput[1:]
		x.queued = false
		n := min(len(x.unsent), max(utf8.UTFMax, most))
		if n < len(x.unsent) || x.endMessage == nil {
			n = lengthOfWholeRunes(x.unsent[:n])
		}
		ran := wire.RunOutput{ID: x.id, Output: x.unsent[:n]}
		x.unsent = x.unsent[n:]
		switch {
		case x.endMessage != nil && len(x.unsent) == 0:
			last := *x.endMessage
			last.Output = ran.Output
			x.abandoned = true
			delete(k.runsByID, x.id)
			return last, true
		case x.endMessage != nil || len(x.unsent) >= utf8.UTFMax:
			x.queued = true
			k.runsWithOutput = append(k.runsWithOutput, x)
		}
		if n > 0 {
			return ran, true
		}
	}
	return wire.RunOutput{}, false
}

// lengthOfWholeRunes returns the length of p without an incomplete UTF-8 character at its end.
func lengthOfWholeRunes(p []byte) int {
	for back := 1; back <= min(len(p), utf8.UTFMax-1); back++ {
		if at := len(p) - back; utf8.RuneStart(p[at]) {
			if !utf8.FullRune(p[at:]) {
				return at
			}
			break
		}
	}
	return len(p)
}

var (
	errCancelled = errors.New("cancelled")
	errNoSession = errors.New("ended because the session with the server ended")
)

// cancelRun cancels the command of a requested run. A check continues, only its answer is dropped.
func (k *requestedRuns) cancelRun(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.runsByID[id]
	switch {
	case x == nil:
	case x.cancel != nil:
		x.cancel(errCancelled)
	default:
		x.abandoned = true
		delete(k.runsByID, id)
	}
}

// abandonRuns cancels all requested commands at the end of the session, and discards their unsent output.
func (k *requestedRuns) abandonRuns() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.runsByID {
		x.abandoned, x.unsent = true, nil
		if x.cancel != nil {
			x.cancel(errNoSession)
		}
	}
	clear(k.runsByID)
	k.runsWithOutput = nil
}

// stopRuns refuses new runs and waits until all requested commands have ended.
func (k *requestedRuns) stopRuns() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.running.Wait()
}
