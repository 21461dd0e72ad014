package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/measure"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	hookTimeout = 10 * time.Second
	// maxBeside is how many bytes a result may have beside its output.
	maxBeside = 192 << 10
	// hookRoom is what a hook's result takes beside its name and output, at most.
	hookRoom = 64
)

// values finds the values in a result, and holds them to their thresholds: what is beyond
// raises the status and says so in a line below the output. A command that could not say
// how it is (UNKNOWN, timed out, …) is not held to them.
func (a *Agent) values(c *check, result *run.Result, keep int) []model.Value {
	m := c.chunk.Metrics
	if m == nil || result.Code < 0 || result.Code > 3 {
		return nil
	}
	values, _ := measure.Parse(m.Format, result.Output, result.Cut > 0, m.Tags)
	if result.Status == model.Unknown {
		return values
	}
	status, lines := measure.Judge(result.Status, values, c.chunk.Thresholds)
	if len(lines) == 0 {
		return values
	}
	added := "\n" + strings.Join(lines, "\n")
	if status != result.Status { // what is wrong stands first: it is what tables and messages show
		added = strings.TrimPrefix(added, "\n") + "\n"
	}
	text, room := result.Output, max(0, keep-len(added))
	if len(text) > room {
		var cut uint64
		text, cut = run.Cut(text, room)
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

// hooks runs what the check wants to be run after such a result, one after the other.
func (a *Agent) hooks(ctx context.Context, c *check, result *run.Result, room int) (list []model.HookResult) {
	if c.problem != "" {
		return nil
	}
	assets, _ := a.assetsOf(ctx, c) // without them a hook says itself what it misses
	for i := range c.chunk.Hooks {
		h := &c.chunk.Hooks[i]
		if !h.Runs(result.Status, result.Code) || ctx.Err() != nil {
			continue
		}
		if room -= hookRoom + len(h.Name); room <= 0 {
			break
		}
		timeout := time.Duration(h.Timeout)
		if timeout <= 0 {
			timeout = hookTimeout
		}
		said := a.runner.Run(ctx, run.Command{
			Assets: assets,
			Shell:  c.run.Hooks[i].Shell, Argv: c.run.Hooks[i].Argv, Env: c.run.Env, Hide: c.hide, RunAs: c.run.RunAs, Stdin: a.told(c, h, result),
			Timeout: timeout, MaxOutput: min(room, model.MaxHookOutput), AdHoc: true,
		})
		room -= len(said.Output)
		list = append(list, model.HookResult{
			Name: h.Name, Status: said.Status, Output: string(said.Output), Cut: said.Cut, Duration: model.Duration(said.Duration.Round(time.Millisecond)),
		})
	}
	return list
}

// discard drops the output of a check that wants it kept nowhere. What the agent says itself stays: how
// the run ended, what is beyond a threshold, and why there was none.
func discard(c *check, result *run.Result) {
	if !c.chunk.DiscardOutput || result.Code < 0 && result.Note == "" {
		return
	}
	text := result.Note
	if text == "" {
		text = model.OutputDiscarded
	}
	result.Output, result.Cut = []byte(text), 0
}

// beside is what the result carries beside its output, within what the server takes of a
// result. Values that do not fit are left out, which the output says.
func (a *Agent) beside(ctx context.Context, c *check, result *run.Result, keep int) []byte {
	if c.chunk.Metrics == nil && len(c.chunk.Hooks) == 0 {
		discard(c, result)
		return nil
	}
	values := a.values(c, result, keep)
	room := min(a.takes()-len(result.Output), maxBeside)
	x := wire.Extra{Hooks: a.hooks(ctx, c, result, room)}
	discard(c, result)
	extra := wire.AppendExtra(nil, &x)
	for i := range values {
		longer := wire.AppendValue(extra, &values[i])
		if len(longer) > room {
			note := fmt.Sprintf("\n(%d of %d values are left out: the result would be too large)", len(values)-i, len(values))
			if len(result.Output)+len(note) <= keep && len(extra)+len(result.Output)+len(note) <= a.takes() {
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
