package sensu

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wire"
)

// answer sends an event of a request, with what lies beside its output.
func (a *agent) answer(r *sensuwire.Request, change func(*sensuwire.Event)) {
	e := &sensuwire.Event{Timestamp: 1, Entity: &a.x, Check: r.Check, Issued: r.Issued, Executed: r.Issued}
	change(e)
	a.send(sensuwire.TypeEvent, e)
}

// Hooks go out with the request, and what they brought stands with the result.
func TestHooksOfSensuAgents(t *testing.T) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprint("json ", json), func(t *testing.T) {
			w := newWorld(t, nil)
			w.chunks = []*model.CheckChunk{check(1, "disk", "x", func(c *model.CheckChunk) {
				c.Env = map[string]string{"A": "it's"}
				c.Hooks = []model.Hook{
					{Name: "ps", When: []string{"critical", "non-ok", "127"}, Command: &model.Command{Shell: "ps {{ .props.word }}"}, Timeout: model.Duration(1500 * time.Millisecond)},
					{Name: "two words", When: []string{"non-ok"}, Command: &model.Command{Argv: []string{"a b"}}, Stdin: true},
				}
			})}
			a := w.agent("web", json)
			r := a.next()
			x := w.session("web")
			x.Mu.Lock()
			asked := x.list[0].recipe.request.Hooks
			x.Mu.Unlock()
			want := []sensuwire.Hook{
				{Name: "ps", When: []string{"critical", "non-zero", "127"}, Command: "export A='it'\\''s'\nps 'it'\\''s'", Timeout: 2},
				{Name: "hook-1", When: []string{"non-zero"}, Command: "export A='it'\\''s'\n'a b'", Timeout: 10, Stdin: true},
			}
			if !reflect.DeepEqual(asked, want) {
				t.Errorf("asked for %+v\nwant %+v", asked, want)
			}
			a.answer(r, func(e *sensuwire.Event) {
				e.Status, e.Hooks = 2, []sensuwire.HookResult{{Name: "hook-1", Status: 1, Output: "b\n"}, {Name: "nobody's"}, {Name: "ps", Status: -1, Output: "PID", Duration: 0.5}}
			})
			w.wait("the result", func() bool { return len(w.signals) >= 2 })
			w.mu.Lock()
			defer w.mu.Unlock()
			extra, err := wire.DecodeExtra(w.signals[1].Extra)
			got := []model.HookResult{{Name: "ps", Status: model.Unknown, Output: "PID", Duration: model.Duration(500 * time.Millisecond)}, {Name: "two words", Status: model.Warning, Output: "b"}}
			if err != nil || !reflect.DeepEqual(extra.Hooks, got) {
				t.Errorf("%v %+v", err, extra.Hooks)
			}
		})
	}
}
