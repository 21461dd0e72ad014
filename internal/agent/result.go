package agent

import (
	"context"
	"maps"
	"time"

	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// runCheck runs one check once and spools what came of it. A status that changed
// leaves at once.
func (a *Agent) runCheck(ctx context.Context, c *check) {
	var stream func([]byte)
	if c.about == 0 {
		stream = a.asked.runs(c.chunk.Unit)
	}
	keep := a.keeps(c)
	if len(c.chunk.Secrets) > 0 && c.problem == "" {
		c = a.withSecrets(ctx, c)
	}
	result := a.judge(ctx, c, stream, keep)
	extra := a.beside(ctx, c, &result, keep)
	if c.about == 0 {
		a.asked.ran(c.chunk.Unit, result)
	}
	if ctx.Err() != nil {
		return // the agent stops: not a word about the check
	}
	before := c.past.status.Swap(uint32(result.Status) + 1)
	changed := before != uint32(result.Status)+1 && (before != 0 || result.Status != model.OK)
	signal := wire.ResultSignal(wire.Signal{Chunk: c.chunk.ID, Node: c.about, AtMs: a.cfg.Machine.BootMs()}, wire.Result{
		Status: result.Status, DurationMs: uint32(min(result.Duration.Milliseconds(), 1<<31)), Output: result.Output, Cut: result.Cut, Extra: extra,
	})
	err := a.spool.Append(&signal, changed || c.chunk.RoundRobin)
	if err != nil {
		a.lost.Add(1)
		a.cfg.Log.Error("result is lost", "check", c.chunk.Name, "err", err)
	}
	a.lookAtClock()
}

// clockWarn is how far the clock may be off the server's before the log speaks of it.
const clockWarn = 5 * time.Second

// lookAtClock tells when the clock is off, and when it is right again. Nothing here
// depends on it but what people read, and cron.
func (a *Agent) lookAtClock() {
	offset, ok := a.ServerOffset()
	off := ok && (offset > clockWarn || offset < -clockWarn)
	switch was := a.clockOff.Swap(off); {
	case off && !was:
		a.cfg.Log.Warn("this machine's clock is not the server's", "ahead", offset.Round(time.Millisecond), "hint", "mend it here: timedatectl set-ntp true")
	case was && !off:
		a.cfg.Log.Info("this machine's clock is the server's again", "ahead", offset)
	}
}

// takes is how many bytes of a result, with what lies beside its output, the server takes.
func (a *Agent) takes() int {
	if most := int(a.maxOutput.Load()); most > 0 {
		return most
	}
	return model.MaxOutputBytes
}

// keeps is how many bytes are kept of the check's output.
func (a *Agent) keeps(c *check) int {
	keep := c.chunk.MaxOutput
	if keep <= 0 {
		keep = model.DefaultOutputBytes
	}
	return min(keep, a.takes())
}

// withSecrets is the check for one run, with the values of its secrets in its environment, or the
// reason why they cannot be had.
func (a *Agent) withSecrets(ctx context.Context, c *check) *check {
	now := *c
	values, err := a.secrets.Find(ctx, c.chunk.Secrets)
	if err != nil {
		now.problem = err.Error()
		return &now
	}
	now.run.Env = make(map[string]string, len(c.run.Env)+len(values))
	maps.Copy(now.run.Env, c.run.Env)
	for name, value := range values {
		now.run.Env[name] = value
		now.hide = append(now.hide, value)
	}
	return &now
}

func (a *Agent) judge(ctx context.Context, c *check, stream func([]byte), keep int) run.Result {
	switch {
	case c.problem != "":
		return run.Result{Status: model.Unknown, Code: -1, Output: []byte(c.problem)}
	case c.run.Probe != "":
		return a.runProbe(ctx, c, keep)
	}
	assets, problem := a.assetsOf(ctx, c)
	if c.past.lacks.Store(problem != ""); problem != "" {
		return run.Result{Status: model.Unknown, Code: -1, Output: []byte(problem)}
	}
	return a.runner.Run(ctx, run.Command{
		Assets: assets,
		Shell:  c.run.Shell, Argv: c.run.Argv, Env: c.run.Env, Hide: c.hide, Stdin: c.run.Stdin, RunAs: c.run.RunAs,
		Timeout: c.chunk.Timeout, MaxOutput: keep, Stream: stream,
	})
}

func (a *Agent) runProbe(ctx context.Context, c *check, keep int) run.Result {
	if c.chunk.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.chunk.Timeout)
		defer cancel()
	}
	began := time.Now()
	env := probe.Env{Now: a.cfg.Machine.Now, ServerOffset: a.ServerOffset, Self: a.self, Memory: &c.past.memory}
	status, text := probe.Run(ctx, &env, c.run.Probe, c.run.Args)
	text, cut := run.Cut(text, keep)
	return run.Result{Status: status, Code: int(status), Output: text, Cut: cut, Duration: time.Since(began)}
}
