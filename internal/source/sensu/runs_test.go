package sensu

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// heard waits for what comes of a run.
func nextAnswer(t *testing.T, r *core.Runs) model.RunAnswer {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		if a, ok := r.Next(); ok {
			return a
		}
		select {
		case <-r.Wake():
		case <-late:
			t.Fatal("no answer")
		}
	}
}

// A check is run by hand: the agent is asked at once, and what it returns goes to who asked and
// to the journal. A result of a request from before is no answer.
func TestRunsByHand(t *testing.T) {
	w := newWorld(t, nil)
	hour := func(c *model.CheckChunk) { c.Interval = time.Hour }
	w.chunks = []*model.CheckChunk{check(1, "disk", "x", hour), check(2, "probe", "", func(c *model.CheckChunk) {
		hour(c)
		c.Command, c.Probe = nil, &model.Probe{Name: "load"}
	})}
	a := w.agent("web", false)
	before := a.next()
	w.mu.Lock()
	node := w.nodes[a.uid()].ID
	w.mu.Unlock()
	runs := core.NewRunOutput(nil).NewRuns()
	defer runs.Close()
	ask := func(run wire.Run) error { run.MaxOutput = 1000; return w.server.Ask(runs, node, run) }
	for want, run := range map[string]wire.Run{
		"runs checks and no commands": {Command: &model.Command{Shell: "id"}}, "not assigned": {Chunk: 9}, "no probe load": {Chunk: 2},
	} {
		if err := ask(run); model.ClassOf(err) != model.Forbidden || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", run, err)
		}
	}
	if err := w.server.Ask(runs, 4711, wire.Run{Chunk: 1}); model.ClassOf(err) != model.NotFound {
		t.Errorf("a node without a session: %v", err)
	}
	if err := ask(wire.Run{Chunk: 1}); err != nil {
		t.Fatal(err)
	}
	now := a.next()
	if now.Name != "disk" || now.Issued <= before.Issued {
		t.Errorf("asked for %+v after %+v", now, before)
	}
	a.result(before, 0, "before")
	a.result(now, 2, "now")
	if got := nextAnswer(t, runs); !got.Done || got.Node != node || got.Status != model.Critical || string(got.Output) != "now" || got.Duration != 250*time.Millisecond {
		t.Errorf("heard %+v %q", got, got.Output)
	}
	w.wait("both in the journal", func() bool {
		n := 0
		for _, s := range w.signals {
			if s.Chunk == 1 {
				n++
			}
		}
		return n == 2
	})

	// Who is not answered hears why; who went away is forgotten.
	if err := ask(wire.Run{Chunk: 1}); err != nil {
		t.Fatal(err)
	}
	gone := core.NewRunOutput(nil).NewRuns()
	if err := w.server.Ask(gone, node, wire.Run{Chunk: 1}); err != nil {
		t.Fatal(err)
	}
	gone.Close()
	x := w.server.registry.Get(node)
	x.Mu.Lock()
	if len(x.runs) != 1 {
		t.Errorf("%d waited for", len(x.runs))
	}
	x.Mu.Unlock()
	_ = a.conn.Close()
	if got := nextAnswer(t, runs); !got.Done || !strings.Contains(got.Lost, "its session ended") {
		t.Errorf("heard %+v", got)
	}
}
