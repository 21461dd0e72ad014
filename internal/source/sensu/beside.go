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
	hookTimeout = 10 * time.Second // where a hook says none
	// maxBeside is how many bytes a result may have beside its output.
	maxBeside = 192 << 10
	// hookRoom is what a hook's result takes beside its name and output, at most.
	hookRoom = 64
)

// nameThatAgentsTake is how they want the names of hooks.
var nameThatAgentsTake = regexp.MustCompile(`\A[\w.\-:]+\z`)

// hookName is what a check's i-th hook is called on the wire.
func hookName(c *model.CheckChunk, i int) string {
	if name := c.Hooks[i].Title(); nameThatAgentsTake.MatchString(name) {
		return name
	}
	return fmt.Sprintf("hook-%d", i)
}

// hooksOf are a check's hooks, in the agent's words: it runs them by the command's exit code.
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

// exports gives a hook the check's environment: the agent gives it to the command alone.
func exports(env map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString("export " + name + "=" + quote(env[name]) + "\n")
	}
	return b.String()
}

// beside is what lies beside a result's output, within what the server takes of a result.
// Values that do not fit are left out, which the output says.
func (x *session) beside(said *sensuwire.Said, c *model.CheckChunk, values []model.Value, text []byte, keep int) (_, extra []byte, err error) {
	room := min(x.budget.Limits().OutputBytes-len(text), maxBeside)
	if said.Hooked() && len(c.Hooks) > 0 {
		hooks, err := x.codec.ReadHooks(said, model.MaxHooks)
		if err != nil {
			return nil, nil, err
		}
		for i := range hooks {
			hooks[i].Output = string(x.hidden(c, []byte(hooks[i].Output)))
		}
		extra = wire.AppendExtra(nil, &wire.Extra{Hooks: hookResults(c, hooks, room)})
	}
	extra, left := appendValues(extra, values, room)
	if len(left) > 0 {
		x.srv.metrics.valuesLost.Add(float64(len(left)))
		note := fmt.Sprintf("\n(%d of %d values are left out: the result would be too large)", len(left), len(values))
		if len(text)+len(note) <= keep && len(extra)+len(text)+len(note) <= x.budget.Limits().OutputBytes {
			text = append(text[:len(text):len(text)], note...)
		}
	}
	return text, extra, nil
}

// hookResults are those of the check's own hooks, as many as there is room for.
func hookResults(c *model.CheckChunk, hooks []sensuwire.Hooked, room int) (list []model.HookResult) {
	for i := range c.Hooks {
		at := slices.IndexFunc(hooks, func(h sensuwire.Hooked) bool { return h.Name == hookName(c, i) })
		if at < 0 {
			continue
		}
		h, name := &hooks[at], c.Hooks[i].Title()
		if room -= hookRoom + len(name); room <= 0 {
			break
		}
		status := model.Unknown
		if h.Status >= 0 && h.Status < int32(model.Unknown) {
			status = model.Status(h.Status)
		}
		text, cut := cutText("", []byte(h.Output), min(room, model.MaxHookOutput))
		room -= len(text)
		list = append(list, model.HookResult{Name: name, Status: status, Output: string(text), Cut: cut, Duration: milliseconds(h.Duration)})
	}
	return list
}

// milliseconds reads seconds that an agent says.
func milliseconds(seconds float64) model.Duration {
	if !(seconds > 0) { // not a number is none
		return 0
	}
	return model.Duration(time.Duration(min(seconds*1000, 1<<31)) * time.Millisecond)
}
