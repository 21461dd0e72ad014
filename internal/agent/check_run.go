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

// run runs one check once, with its hooks, and spools the result. A result with another status than
// before leaves at once.
func (c *checks) run(ctx context.Context, x *check) {
	var stream func([]byte)
	if x.proxy == 0 {
		stream = c.agent.requests.listeners(x.chunk.Unit)
	}
	keep := c.outputLimit(x)
	if len(x.chunk.Secrets) > 0 && x.problem == "" {
		x = c.withSecrets(ctx, x)
	}
	result := c.execute(ctx, x, stream, keep)
	extra := c.extra(ctx, x, &result, keep)
	if x.proxy == 0 {
		c.agent.requests.checkEnded(x.chunk.Unit, result)
	}
	if ctx.Err() != nil {
		return // the agent stops: the run was cut short and has no result
	}
	before := x.carried.status.Swap(uint32(result.Status) + 1)
	changed := before != uint32(result.Status)+1 && (before != 0 || result.Status != model.OK)
	signal := wire.ResultSignal(wire.Signal{Chunk: x.chunk.ID, Node: x.proxy, AtMs: c.agent.cfg.Machine.BootMs()}, wire.Result{
		Status: result.Status, DurationMs: uint32(min(result.Duration.Milliseconds(), 1<<31)), Output: result.Output, Cut: result.Cut, Extra: extra,
	})
	if err := c.agent.spool.Append(&signal, changed || x.chunk.RoundRobin); err != nil {
		c.lost.Add(1)
		c.agent.cfg.Log.Error("result is lost: the spool refused it", "check", x.chunk.Name, "err", err)
	}
	c.agent.logClockOffset()
}

// resultLimit returns the bytes of one result, extra fields included, that the server accepts.
func (c *checks) resultLimit() int {
	if most := int(c.maxOutput.Load()); most > 0 {
		return most
	}
	return model.MaxOutputBytes
}

// outputLimit returns the bytes to keep of a check's output.
func (c *checks) outputLimit(x *check) int {
	keep := x.chunk.MaxOutput
	if keep <= 0 {
		keep = model.DefaultOutputBytes
	}
	return min(keep, c.resultLimit())
}

// withSecrets returns a copy of the check for one run, with the values of its secrets in the
// environment, or with the problem that one of them is missing.
func (c *checks) withSecrets(ctx context.Context, x *check) *check {
	now := *x
	values, err := c.agent.secrets.Find(ctx, x.chunk.Secrets)
	if err != nil {
		now.problem = err.Error()
		return &now
	}
	now.command.Env = make(map[string]string, len(x.command.Env)+len(values))
	maps.Copy(now.command.Env, x.command.Env)
	for name, value := range values {
		now.command.Env[name] = value
		now.hide = append(now.hide, value)
	}
	return &now
}

// execute runs the check's probe or command. A check with a problem is UNKNOWN and runs nothing.
func (c *checks) execute(ctx context.Context, x *check, stream func([]byte), keep int) run.Result {
	unknown := func(problem string) run.Result {
		return run.Result{Status: model.Unknown, Code: -1, Output: []byte(problem)}
	}
	switch {
	case x.problem != "":
		return unknown(x.problem)
	case x.command.Probe != "":
		return c.probe(ctx, x, keep)
	}
	assets, problem := c.assetDirs(ctx, x)
	if x.carried.lacksFile.Store(problem != ""); problem != "" {
		return unknown(problem)
	}
	return c.runner.Run(ctx, run.Command{
		Assets: assets, Shell: x.command.Shell, Argv: x.command.Argv, Env: x.command.Env, Hide: x.hide, Stdin: x.command.Stdin,
		RunAs: x.command.RunAs, Timeout: x.chunk.Timeout, MaxOutput: keep, Stream: stream,
	})
}

func (c *checks) probe(ctx context.Context, x *check, keep int) run.Result {
	if x.chunk.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.chunk.Timeout)
		defer cancel()
	}
	start := time.Now()
	env := probe.Env{Now: c.agent.cfg.Machine.Now, ServerOffset: c.agent.ServerOffset, Self: c.agent.self, Memory: &x.carried.memory}
	status, text := probe.Run(ctx, &env, x.command.Probe, x.command.Args)
	text, cut := run.Cut(text, keep)
	return run.Result{Status: status, Code: int(status), Output: text, Cut: cut, Duration: time.Since(start)}
}
