package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/measure"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// runCheck runs one check once, with its hooks, and appends the result to the spool. The spool is the log of unsent
// results. A result with another status than before leaves at once.
func (c *checks) runCheck(ctx context.Context, x *check) {
	var stream func([]byte)
	if x.proxyNode == 0 {
		stream = c.agent.requests.outputReceiver(x.definition.Unit)
	}
	keep := x.definition.MaxOutput // bytes of its output
	if keep <= 0 {
		keep = model.DefaultOutputBytes
	}
	keep = min(keep, c.maxResultBytes())
	if len(x.definition.Secrets) > 0 && x.problem == "" {
		x = c.withSecrets(ctx, x)
	}
	result, scraped := c.runProbeOrCommand(ctx, x, stream, keep)
	extra := c.encodeExtraFields(ctx, x, &result, scraped, keep)
	samples := c.encodeScrape(x, scraped, &result, len(extra))
	if x.proxyNode == 0 {
		c.agent.requests.finishRunsOfUnit(x.definition.Unit, result)
	}
	if ctx.Err() != nil {
		return // the agent stops: the run was cut short and has no result
	}
	if x.definition.StdinEvent {
		x.state.last.Store(&result)
	}
	before := x.state.status.Swap(uint32(result.Status) + 1)
	changed := before != uint32(result.Status)+1 && (before != 0 || result.Status != model.OK)
	signal := wire.ResultSignal(wire.Signal{Definition: x.definition.ID, Node: x.proxyNode, AtMs: c.agent.cfg.Machine.BootMs()}, wire.Result{
		Status: result.Status, DurationMs: uint32(min(result.Duration.Milliseconds(), 1<<31)), Output: result.Output, Cut: result.Cut, Samples: samples, Extra: extra,
	})
	if err := c.agent.spool.Append(&signal, changed || x.definition.RoundRobin); err != nil {
		c.lostResults.Add(1)
		c.agent.cfg.Log.Error("lost a result: the spool cannot store it", "check", x.definition.Name, "err", err)
	}
	c.agent.logClockOffset()
}

// maxResultBytes returns the maximum size of a result that the server accepts, in bytes, extra fields included
func (c *checks) maxResultBytes() int {
	if most := int(c.maxOutput.Load()); most > 0 {
		return most
	}
	return model.MaxOutputBytes
}

// withSecrets returns a copy of the check with its secrets as environment variables of the command. If a secret
// is missing, the copy has an error message.
func (c *checks) withSecrets(ctx context.Context, x *check) *check {
	now := *x
	values, err := c.agent.secrets.Find(ctx, x.definition.Secrets)
	if err != nil {
		now.problem = err.Error()
		return &now
	}
	now.command.Env = make(map[string]string, len(x.command.Env)+len(values))
	maps.Copy(now.command.Env, x.command.Env)
	for name, value := range values {
		now.command.Env[name] = value
		now.hiddenSecrets = append(now.hiddenSecrets, value)
	}
	return &now
}

// runProbeOrCommand runs the check's probe or command, and returns the series that a probe scraped besides. A check with a
// problem is UNKNOWN and runs nothing.
func (c *checks) runProbeOrCommand(ctx context.Context, x *check, stream func([]byte), keep int) (_ run.Result, scraped []model.Value) {
	unknown := func(problem string) run.Result {
		return run.Result{Status: model.Unknown, Code: -1, Output: []byte(problem)}
	}
	switch {
	case x.problem != "":
		return unknown(x.problem), nil
	case x.command.Probe != "":
		return c.runProbe(ctx, x, keep)
	}
	var assets []run.Asset
	var problem string
	x.state.missingAsset.Store(false)
	c.lookUpArchive(func() bool {
		assets, problem = c.assetDirs(ctx, x)
		return problem == ""
	}, func() { x.state.missingAsset.Store(true) })
	if problem != "" {
		return unknown(problem), nil
	}
	x.state.missingAsset.Store(false)
	return c.runner.Run(ctx, run.Command{
		Assets: assets, Shell: x.command.Shell, Argv: x.command.Argv, Env: x.command.Env, Hide: x.hiddenSecrets, Stdin: c.commandInput(x),
		RunAs: x.command.RunAs, Timeout: x.definition.Timeout, MaxOutput: keep, Stream: stream,
	}), nil
}

// runProbe runs the built-in probe of a check and cuts its output to the permitted length. It returns the series that the
// probe scraped besides.
func (c *checks) runProbe(ctx context.Context, x *check, keep int) (run.Result, []model.Value) {
	if x.definition.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.definition.Timeout)
		defer cancel()
	}
	start := time.Now()
	env := probe.Env{Now: c.agent.cfg.Machine.Now, ServerOffset: c.agent.ServerOffset, AgentCounters: c.agent.probeCounters, Memory: &x.state.memory}
	status, text := probe.Run(ctx, &env, x.command.Probe, x.command.Args)
	text, cut := run.CutText(text, keep)
	return run.Result{Status: status, Code: int(status), Output: text, Cut: cut, Duration: time.Since(start)}, env.Scraped
}

const (
	hookTimeout        = 10 * time.Second // default
	maxExtraBytes      = 192 << 10        // bytes of a result's extra fields
	hookResultOverhead = 64               // most bytes that a hook's result takes besides its name and output
)

// encodeExtraFields runs a check's hooks, and encodes the hook results and metrics in the wire format. It leaves out
// values that do not fit, and a line in the output counts them. Scraped series are compared with thresholds alone.
func (c *checks) encodeExtraFields(ctx context.Context, x *check, result *run.Result, scraped []model.Value, keep int) []byte {
	if x.definition.Metrics == nil && len(x.definition.Hooks) == 0 {
		discardOutput(x, result)
		return nil
	}
	values := compareThresholds(x, result, scraped, keep)
	if scraped != nil {
		values = nil
	}
	room := min(c.maxResultBytes()-len(result.Output), maxExtraBytes)
	extra := wire.AppendExtra(nil, &wire.Extra{Hooks: c.runHooks(ctx, x, result, room)})
	discardOutput(x, result)
	for i := range values {
		longer := wire.AppendValue(extra, &values[i])
		if len(longer) > room {
			note := fmt.Sprintf("\n(%d of %d values omitted: the result would be too large)", len(values)-i, len(values))
			if len(result.Output)+len(note) <= keep && len(extra)+len(result.Output)+len(note) <= c.maxResultBytes() {
				result.Output = append(result.Output[:len(result.Output):len(result.Output)], note...)
			}
			break
		}
		extra = longer
	}
	if len(extra) > max(room, 0) {
		return nil
	}
	return extra
}

// compareThresholds compares values with the check's thresholds. Without values, it extracts them from the output. A value out of
// bounds raises the status and adds a line to the output. A result that is UNKNOWN by itself, or has no plug-in exit
// code, is not judged.
func compareThresholds(x *check, result *run.Result, values []model.Value, keep int) []model.Value {
	m := x.definition.Metrics
	if m == nil || result.Code < 0 || result.Code > 3 {
		return nil
	}
	if values == nil {
		values, _ = measure.Parse(m.Format, result.Output, result.Cut > 0, x.command.Tags)
	}
	if result.Status == model.Unknown {
		return values
	}
	status, lines := measure.ApplyThresholds(result.Status, values, x.command.Thresholds)
	if len(lines) == 0 {
		return values
	}
	added := "\n" + strings.Join(lines, "\n")
	if status != result.Status { // the cause comes first: tables and messages show the first line
		added = strings.TrimPrefix(added, "\n") + "\n"
	}
	text, room := result.Output, max(0, keep-len(added))
	if len(text) > room {
		var cut uint64
		text, cut = run.CutText(text, room)
		result.Cut += cut
	}
	if status != result.Status {
		result.Output = append([]byte(added), text...)
	} else {
		result.Output = append(text[:len(text):len(text)], added...)
	}
	if len(result.Output) > keep {
		result.Output = []byte(strings.ToValidUTF8(string(result.Output[:keep]), ""))
	}
	result.Status = status
	result.Note = strings.TrimPrefix(result.Note+"\n"+strings.Join(lines, "\n"), "\n")
	return values
}

// runHooks runs the hooks of a check that match the result, one after the other. room is the bytes
// that all their results may take.
func (c *checks) runHooks(ctx context.Context, x *check, result *run.Result, room int) (list []model.HookResult) {
	if x.problem != "" {
		return nil
	}
	assets, _ := c.assetDirs(ctx, x) // without them a hook reports the missing program itself
	for i := range x.definition.Hooks {
		h := &x.definition.Hooks[i]
		if !h.Runs(result.Status, result.Code) || ctx.Err() != nil {
			continue
		}
		if room -= hookResultOverhead + len(h.Name); room <= 0 {
			break
		}
		timeout := time.Duration(h.Timeout)
		if timeout <= 0 {
			timeout = hookTimeout
		}
		r := c.runner.Run(ctx, run.Command{
			Assets: assets, Shell: x.command.Hooks[i].Shell, Argv: x.command.Hooks[i].Argv, Env: x.command.Env, Hide: x.hiddenSecrets,
			RunAs: x.command.RunAs, Stdin: c.hookInput(x, h, result), Timeout: timeout, MaxOutput: min(room, model.MaxHookOutput), AdHoc: true,
		})
		room -= len(r.Output)
		list = append(list, model.HookResult{
			Name: h.Name, Status: r.Status, Output: string(r.Output), Cut: r.Cut, Duration: model.Duration(r.Duration.Round(time.Millisecond)),
		})
	}
	return list
}

// commandInput returns the standard input for a check's command, as declared or the check's last result. It is
// the declared text, or the check's last result as a Sensu event in JSON.
func (c *checks) commandInput(x *check) string {
	if !x.definition.StdinEvent {
		return x.command.Stdin
	}
	last := x.state.last.Load()
	if last == nil {
		last = new(run.Result)
	}
	return c.eventJSON(x, last)
}

// hookInput returns a hook's standard input, the check's result as a Sensu event in JSON. It is "" if the hook
// declares no stdin.
func (c *checks) hookInput(x *check, h *model.Hook, result *run.Result) string {
	if !h.Stdin {
		return ""
	}
	return c.eventJSON(x, result)
}

// eventJSON formats a check result as a Sensu event in JSON, without fields that only the server knows.
func (c *checks) eventJSON(x *check, result *run.Result) string {
	type metadata struct {
		Name string `json:"name"`
	}
	var event struct {
		Entity struct {
			Metadata metadata `json:"metadata"`
		} `json:"entity"`
		Check struct {
			Metadata metadata     `json:"metadata"`
			Command  string       `json:"command"`
			Interval int64        `json:"interval"`
			Status   model.Status `json:"status"`
			Output   string       `json:"output"`
			Duration float64      `json:"duration"`
		} `json:"check"`
	}
	event.Entity.Metadata.Name = *c.agent.name.Load()
	event.Check.Metadata.Name, event.Check.Command, event.Check.Interval = x.definition.Name, x.command.Shell, int64(x.definition.Interval.Seconds())
	event.Check.Status, event.Check.Output, event.Check.Duration = result.Status, string(result.Output), result.Duration.Seconds()
	text, err := json.Marshal(event)
	if err != nil {
		panic("BUG: encode a result as JSON: " + err.Error())
	}
	return string(text) + "\n"
}

// discardOutput removes the command's output from a result if the check's setting discardOutput is true. The
// agent's own lines stay: how the run ended, and which value is out of bounds.
func discardOutput(x *check, result *run.Result) {
	if !x.definition.DiscardOutput || result.Code < 0 && result.Note == "" {
		return
	}
	text := cmp.Or(result.Note, model.OutputDiscarded)
	result.Output, result.Cut = []byte(text), 0
}
