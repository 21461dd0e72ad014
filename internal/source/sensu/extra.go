package sensu

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	hookTimeout = 10 * time.Second // default of a hook
	// maxExtraBytes bounds hooks and values of a result.
	maxExtraBytes = 192 << 10
	// hookBytes bounds the encoding of a hook's result without its name and output.
	hookBytes = 64
)

// agentHookName is the form of hook names that agents accept.
var agentHookName = regexp.MustCompile(`\A[\w.\-:]+\z`)

// hookName returns the name of a check's i-th hook on the wire.
func hookName(c *model.CheckChunk, i int) string {
	if name := c.Hooks[i].Title(); agentHookName.MatchString(name) {
		return name
	}
	return fmt.Sprintf("hook-%d", i)
}

// hooksOf returns a check's hooks for a request. The agent runs them by the command's exit code.
func hooksOf(c *model.CheckChunk, run *model.ExpandedCommand) (list []sensuwire.Hook) {
	for i := range c.Hooks {
		h := &c.Hooks[i]
		timeout := time.Duration(h.Timeout)
		if timeout <= 0 {
			timeout = hookTimeout
		}
		when := slices.Clone(h.When)
		for i, w := range when {
			if when[i] = strings.ToLower(w); w == "non-ok" {
				when[i] = "non-zero"
			}
		}
		list = append(list, sensuwire.Hook{
			Name: hookName(c, i), When: when, Timeout: uint32((timeout + time.Second - 1) / time.Second), Stdin: h.Stdin,
			Command: sensuwire.Literal(exports(run.Env) + lineOf(&model.ExpandedCommand{Shell: run.Hooks[i].Shell, Argv: run.Hooks[i].Argv})),
		})
	}
	return list
}

// exports returns the shell lines that set a check's environment for a hook: the agent sets it for the command only.
func exports(env map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString("export " + name + "=" + quote(env[name]) + "\n")
	}
	return b.String()
}

// extra returns the hooks and values of a result, as far as they fit the limits of a result, and its output. If values
// do not fit, the output says so.
func (e *incoming) extra(c *model.CheckChunk, values []model.Value, text []byte, limit int) (_, extra []byte, err error) {
	room := min(e.Budget.Limits().OutputBytes-len(text), maxExtraBytes)
	if e.HasHooks() && len(c.Hooks) > 0 {
		hooks, err := e.ReadHooks(model.MaxHooks)
		if err != nil {
			return nil, nil, err
		}
		for i := range hooks {
			hooks[i].Output = string(e.redact(c, []byte(hooks[i].Output)))
		}
		extra = wire.AppendExtra(nil, &wire.Extra{Hooks: hookResults(c, hooks, room)})
	}
	extra, dropped := appendValues(extra, values, room)
	if len(dropped) > 0 {
		e.srv.metrics.valuesLost.Add(float64(len(dropped)))
		note := fmt.Sprintf("\n(%d of %d values are left out: the result would be too large)", len(dropped), len(values))
		if len(text)+len(note) <= limit && len(extra)+len(text)+len(note) <= e.Budget.Limits().OutputBytes {
			text = append(text[:len(text):len(text)], note...)
		}
	}
	return text, extra, nil
}

// hookResults returns the results of the check's own hooks, as many as fit into room bytes.
func hookResults(c *model.CheckChunk, hooks []sensuwire.HookResult, room int) (list []model.HookResult) {
	for i := range c.Hooks {
		at := slices.IndexFunc(hooks, func(h sensuwire.HookResult) bool { return h.Name == hookName(c, i) })
		if at < 0 {
			continue
		}
		h, name := &hooks[at], c.Hooks[i].Title()
		if room -= hookBytes + len(name); room <= 0 {
			break
		}
		status := model.Unknown
		if h.Status >= 0 && h.Status < int32(model.Unknown) {
			status = model.Status(h.Status)
		}
		text, cut := limitOutput("", []byte(h.Output), min(room, model.MaxHookOutput))
		room -= len(text)
		list = append(list, model.HookResult{Name: name, Status: status, Output: string(text), Cut: cut, Duration: model.Duration(time.Duration(milliseconds(h.Duration)) * time.Millisecond)})
	}
	return list
}
