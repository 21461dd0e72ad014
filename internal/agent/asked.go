package agent

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	maxCommands    = 4                      // of people, at the same time, beside the checks
	maxAsked       = 100                    // runs whose answers are not all sent
	answerAfter    = 100 * time.Millisecond // what a run writes within this leaves together …
	answerFull     = 16 << 10               // … or as soon as it is so many bytes
	commandLasts   = 30 * time.Second       // where nobody says how long …
	commandLongest = time.Hour              // … and at most
)

// asked are the runs that somebody asked for in the present session, and what they wrote
// that is not sent yet: at most what each may write. It is the link's Answers. The lock is
// never held during a run.
type asked struct {
	agent *Agent
	ready chan struct{}

	mu       sync.Mutex
	ctx      context.Context // of the agent's Run: ends commands
	stopped  bool
	by       map[uint64]*askedRun
	full     []*askedRun // those with something to send, in turn
	commands int         // that run
	going    sync.WaitGroup
}

// askedRun is one of them; all of it is asked's, under its lock.
type askedRun struct {
	id      uint64
	check   model.CheckID           // zero: a command
	cancel  context.CancelCauseFunc // of a command
	room    int                     // that it may still write …
	cut     uint64                  // … and what it wrote beyond
	out     []byte                  // not sent
	wrote   bool                    // something came while it ran
	waits   bool                    // it will be in full after answerAfter
	listed  bool                    // it is in full
	last    *wire.RunOutput
	forgone bool // nobody listens any more
}

func (k *asked) begin(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx, k.by = ctx, map[uint64]*askedRun{}
}

// refuses is what Hello says that this agent does not do, whatever a server says.
func (a *Agent) refuses() (list []string) {
	if a.cfg.NoRun {
		list = append(list, wire.RestrictRuns)
	}
	if len(a.cfg.AllowCommands) > 0 {
		list = append(list, wire.RestrictCommands)
	}
	if a.cfg.AuditOnly {
		list = append(list, wire.RestrictChanges)
	}
	return list
}

// ask begins, or ends, a run.
func (k *asked) ask(r *wire.Run) {
	if r.Cancel {
		k.cancel(r.ID)
		return
	}
	k.agent.mu.Lock()
	check, held := k.agent.chunks[r.Chunk]
	_, own := k.agent.checks[schedule.Key{Check: check}]
	k.agent.mu.Unlock()
	x := &askedRun{id: r.ID, room: int(min(cmp.Or(r.MaxOutput, model.DefaultOutputBytes), model.MaxOutputBytes))}
	k.mu.Lock()
	if k.stopped || k.ctx == nil || r.ID == 0 && r.Command != nil || r.ID != 0 && k.by[r.ID] != nil || len(k.by) >= maxAsked {
		k.mu.Unlock()
		return // the server counts what it has asked; who sends more is not answered
	}
	var why string
	switch {
	case k.agent.cfg.NoRun:
		why = "refused by the agent's setting --no-run: nothing runs there out of its time"
	case r.Command != nil && k.agent.cfg.AuditOnly:
		why = "refused by the agent's setting --audit-only: no commands of people run there"
	case r.Command != nil && k.commands >= maxCommands:
		why = "as many commands run there as may at the same time; try again when one has ended"
	case r.Command == nil && held && !own:
		why = "this check is about proxy nodes: it runs for each of them by itself"
	case r.Command == nil && !held:
		why = "this check is not assigned to the node, or its agent has not heard of its last change yet"
	}
	if r.ID != 0 {
		k.by[r.ID] = x
	}
	ctx := k.ctx
	switch {
	case why != "":
		k.endLocked(x, &wire.RunOutput{Refused: why})
	case r.Command != nil:
		ctx, x.cancel = context.WithCancelCause(ctx)
		k.commands++
		k.going.Add(1)
	default:
		x.check = check
	}
	k.mu.Unlock()
	switch {
	case why != "":
		k.agent.cfg.Log.Warn("a run was asked for and refused", "chunk", r.Chunk, "why", why)
	case r.Command != nil:
		go k.command(ctx, x, r)
	default:
		k.agent.scheduler.RunNow(schedule.Key{Check: check})
	}
}

// command runs what people asked for, within the limits of checks.
func (k *asked) command(ctx context.Context, x *askedRun, r *wire.Run) {
	defer k.going.Done()
	defer x.cancel(nil)
	lasts := min(time.Duration(r.TimeoutMs)*time.Millisecond, commandLongest)
	k.agent.cfg.Log.Info("a command was asked for", "shell", r.Command.Shell, "argv", r.Command.Argv)
	result := k.agent.runner.Run(ctx, run.Command{
		Shell: r.Command.Shell, Argv: r.Command.Argv, Timeout: cmp.Or(lasts, commandLasts), MaxOutput: x.room, AdHoc: true,
		Stream: func(p []byte) { k.wrote(x, p) },
	})
	k.mu.Lock()
	k.commands--
	k.mu.Unlock()
	k.finish(x, result)
}

// runs are asked for a check that begins to run: it returns who wants to hear of it, nil:
// nobody.
func (k *asked) runs(check model.CheckID) func([]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []*askedRun
	for _, x := range k.by {
		if x.check == check && x.last == nil {
			list = append(list, x)
		}
	}
	if list == nil {
		return nil
	}
	return func(p []byte) {
		for _, x := range list {
			k.wrote(x, p)
		}
	}
}

// ran ends what was asked of a check: also by those who asked while it ran.
func (k *asked) ran(check model.CheckID, result run.Result) {
	k.mu.Lock()
	var list []*askedRun
	for _, x := range k.by {
		if x.check == check && x.last == nil {
			list = append(list, x)
		}
	}
	k.mu.Unlock()
	for _, x := range list {
		k.finish(x, result)
	}
}

// wrote keeps what a run wrote until it is sent.
func (k *asked) wrote(x *askedRun, p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x.forgone {
		return
	}
	x.wrote = true
	x.cut += uint64(max(0, len(p)-x.room))
	p = p[:min(len(p), x.room)]
	x.room -= len(p)
	x.out = append(x.out, p...)
	switch {
	case len(x.out) >= answerFull:
		k.sendLocked(x)
	case !x.waits && !x.listed:
		x.waits = true
		time.AfterFunc(answerAfter, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			x.waits = false
			k.sendLocked(x)
		})
	}
}

// finish is the end of a run.
func (k *asked) finish(x *askedRun, result run.Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := &wire.RunOutput{Status: result.Status, DurationMs: uint32(min(result.Duration.Milliseconds(), 1<<31)), Cut: result.Unheard + x.cut}
	switch {
	case result.Refused:
		last.Refused = string(result.Output)
	case !x.wrote:
		last.Cut = result.Cut
		x.out = append(x.out, result.Output[:min(len(result.Output), x.room)]...)
		last.Cut += uint64(max(0, len(result.Output)-x.room))
	case result.Note != "":
		if n := len(x.out); n > 0 && x.out[n-1] != '\n' {
			x.out = append(x.out, '\n')
		}
		x.out = append(x.out, result.Note...)
	}
	k.endLocked(x, last)
}

func (k *asked) endLocked(x *askedRun, last *wire.RunOutput) {
	last.ID, last.Done = x.id, true
	x.last = last
	k.sendLocked(x)
}

// sendLocked lets the link fetch what there is.
func (k *asked) sendLocked(x *askedRun) {
	if x.listed || x.forgone || x.id == 0 {
		return
	}
	x.listed = true
	k.full = append(k.full, x)
	select {
	case k.ready <- struct{}{}:
	default:
	}
}

// Ready implements link.RunOutputs.
func (k *asked) Ready() <-chan struct{} { return k.ready }

// Next implements link.RunOutputs. Runs take turns; a piece ends where a character does.
func (k *asked) Next(most int) (wire.RunOutput, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.full) > 0 {
		x := k.full[0]
		k.full = k.full[1:]
		x.listed = false
		n := min(len(x.out), max(utf8.UTFMax, most))
		if n < len(x.out) || x.last == nil {
			n = wholeRunes(x.out[:n])
		}
		ran := wire.RunOutput{ID: x.id, Output: x.out[:n]}
		x.out = x.out[n:]
		switch {
		case x.last != nil && len(x.out) == 0:
			last := *x.last
			last.Output = ran.Output
			x.forgone = true
			delete(k.by, x.id)
			return last, true
		case x.last != nil || len(x.out) >= utf8.UTFMax:
			x.listed = true
			k.full = append(k.full, x)
		}
		if n > 0 {
			return ran, true
		}
	}
	return wire.RunOutput{}, false
}

// wholeRunes is how many bytes there are before the first one of a character that is not
// all there.
func wholeRunes(p []byte) int {
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
	errTakenBack = errors.New("ended because it was cancelled")
	errNoSession = errors.New("ended because the session with the server did")
)

// cancel ends a command; of a check that was asked for, only the answer ends.
func (k *asked) cancel(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.by[id]
	switch {
	case x == nil:
	case x.cancel != nil:
		x.cancel(errTakenBack)
	default:
		x.forgone = true
		delete(k.by, id)
	}
}

// forget is the end of the session: nobody hears of what it asked for, and commands end.
func (k *asked) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.by {
		x.forgone, x.out = true, nil
		if x.cancel != nil {
			x.cancel(errNoSession)
		}
	}
	clear(k.by)
	k.full = nil
}

// end waits for the commands, which the end of the agent has told to end; no more begin.
func (k *asked) end() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.going.Wait()
}
