package sensu

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// nextAnswer waits for the next answer to an ad-hoc run, and fails the test after 20 seconds.
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

// An ad-hoc run is requested immediately, and its result goes to the caller and to the journal. A result of an
// earlier request is no answer.
func TestRequestedRunIsAnsweredAndJournaled(t *testing.T) {
	w := newTestServer(t, nil)
	hour := func(c *model.CheckDefinition) { c.Interval = time.Hour }
	w.definitions = []*model.CheckDefinition{newCheck(1, "disk", "x", hour), newCheck(2, "probe", "", func(c *model.CheckDefinition) {
		hour(c)
		c.Command, c.Probe = nil, &model.Probe{Name: "load"}
	})}
	a := w.connectAgent("web", false)
	before := a.nextRequest()
	w.mu.Lock()
	node := w.nodes[a.uid()].ID
	w.mu.Unlock()
	runs := core.NewRunOutput(nil).NewRuns()
	defer runs.Close()
	ask := func(run wire.Run) error { run.MaxOutput = 1000; return w.server.RequestRun(runs, node, run) }
	for want, run := range map[string]wire.Run{
		"but no other commands": {Command: &model.Command{Shell: "id"}}, "does not run this check": {Definition: 9}, "no probe load": {Definition: 2},
	} {
		if err := ask(run); model.ClassOf(err) != model.Forbidden || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", run, err)
		}
	}
	if err := w.server.RequestRun(runs, 4711, wire.Run{Definition: 1}); model.ClassOf(err) != model.NotFound {
		t.Errorf("a node without a session: %v", err)
	}
	testenv.NoError(t, ask(wire.Run{Definition: 1}))
	now := a.nextRequest()
	if now.Name != "disk" || now.Issued <= before.Issued {
		t.Errorf("request %+v after %+v", now, before)
	}
	a.sendResult(before, 0, "before")
	a.sendResult(now, 2, "now")
	if got := nextAnswer(t, runs); !got.Last || got.Node != node || got.Status != model.Critical || string(got.Output) != "now" || got.Duration != 250*time.Millisecond {
		t.Errorf("answer %+v %q", got, got.Output)
	}
	w.wait("both in the journal", func() bool {
		n := 0
		for _, s := range w.signals {
			if s.Definition == 1 {
				n++
			}
		}
		return n == 2
	})

	// A caller whose run cannot be answered gets the reason; a run whose caller has closed is forgotten.
	testenv.NoError(t, ask(wire.Run{Definition: 1}))
	gone := core.NewRunOutput(nil).NewRuns()
	testenv.NoError(t, w.server.RequestRun(gone, node, wire.Run{Definition: 1}))
	gone.Close()
	x := w.server.registry.Get(node)
	x.Mu.Lock()
	if len(x.runs) != 1 {
		t.Errorf("%d waited for", len(x.runs))
	}
	x.Mu.Unlock()
	_ = a.conn.Close()
	if got := nextAnswer(t, runs); !got.Last || !strings.Contains(got.EndUnknown, "the agent's session ended") {
		t.Errorf("answer %+v", got)
	}
}

// An agent gets one check request per proxy node. It may report on its proxy nodes only. A round-robin check is
// requested when its turn is given.
func TestProxyNodesHaveRequestsOfTheirOwn(t *testing.T) {
	for _, json := range []bool{false, true} {
		turns, ended := make(chan model.CheckID, 100), make(chan model.NodeID, 1)
		w := newTestServer(t, func(c *Config) {
			c.OnRan = func(check model.CheckID, about model.NodeID, _ time.Duration) {
				if about == 61 {
					turns <- check
				}
			}
			c.OnEnded = func(node model.NodeID) { ended <- node }
		})
		proxy := func(c *model.CheckDefinition) { c.Proxy = true }
		w.definitions = []*model.CheckDefinition{newCheck(1, "ping", "ping {{ .props.address }}", proxy), newCheck(2, "turn", "x", func(c *model.CheckDefinition) { c.Proxy, c.RoundRobin, c.Interval = true, true, time.Hour })}
		checks := wire.ProxyChecks{Sets: []wire.ProxySet{{Definitions: []model.DefinitionID{1, 2}, Nodes: []model.NodeID{60, 61}}}}
		var nodes []directory.ProxyNode
		for id, name := range map[model.NodeID]string{60: "switch1", 61: "switch2"} {
			nodes = append(nodes, directory.ProxyNode{ID: id, UID: uuid.UUID{15: byte(id)}, Namespace: model.DefaultNamespace})
			checks.Nodes = append(checks.Nodes, wire.ProxyNode{Node: id, Name: name, Properties: []wire.Property{{Name: "address", Value: []byte(`"` + name + `.test"`)}}})
		}
		if checks.Nodes[0].Node > checks.Nodes[1].Node {
			checks.Nodes[0], checks.Nodes[1], nodes[0], nodes[1] = checks.Nodes[1], checks.Nodes[0], nodes[1], nodes[0]
		}
		w.proxied = directory.NewProxyTargets(checks, nodes, compileDefinitions(w.definitions))
		a := w.connectAgent("poller", json)
		node := w.session("poller").Node.ID
		asked := map[string]*sensuwire.ReceivedRequest{}
		for len(asked) < 2 {
			r := a.nextRequest()
			if r.Name != "ping" {
				t.Fatalf("unexpected request %+v", r)
			}
			asked[r.Proxy] = r
		}
		down := strings.Repeat("down ", 100) + "!"
		a.sendResult(asked["switch1"], 2, down)
		a.sendResult(asked["switch2"], 0, "up")
		var own sensuwire.ReceivedRequest = *asked["switch1"]
		c := testenv.Value(a.codec.ParseRequest(a.codec.AppendRequest(nil, &sensuwire.CheckRequest{Name: "ping", Proxy: "switch3", Namespace: "default", Interval: 1})))(t)
		own.Check = c.Check
		a.sendResult(&own, 0, "of another")

		if w.server.RequestRoundRobinRun(node, wire.RoundRobinRun{Definition: 2, Node: 62}) || w.server.RequestRoundRobinRun(node+1, wire.RoundRobinRun{Definition: 2, Node: 61}) || !w.server.RequestRoundRobinRun(node, wire.RoundRobinRun{Definition: 2, Node: 61}) {
			t.Error("gave turns of unassigned nodes or checks, or refused an assigned one")
		}
		for r := a.nextRequest(); ; r = a.nextRequest() {
			if r.Name == "turn" {
				if r.Proxy != "switch2" {
					t.Errorf("a turn for %s, want switch2", r.Proxy)
				}
				a.sendResult(r, 1, "turned")
				break
			}
		}
		w.wait("the turn", func() bool { return len(turns) == 1 && len(w.proxyResults) >= 3 })
		w.mu.Lock()
		for i, want := range []struct {
			node       model.NodeID
			definition model.DefinitionID
			status     model.Status
			output     string
		}{{60, 1, model.Critical, down}, {61, 1, model.OK, "up"}, {61, 2, model.Warning, "turned"}} {
			r := w.proxyResults[i]
			var s wire.Signal
			err := s.Decode(r.ProxyResult.Signal)
			if s := decodeSignal(t, s); err != nil || r.Node != want.node || r.ProxyResult.By != node || s.Node != want.node || s.Definition != want.definition || s.Status != want.status || string(s.Output) != want.output {
				t.Errorf("%d: %+v, %+v, %v", i, r.ProxyResult, s, err)
			}
		}
		if first, second := w.proxyResults[0].ProxyResult.Number, w.proxyResults[1].ProxyResult.Number; second != first+1 {
			t.Errorf("numbers %d and %d", first, second)
		}
		w.mu.Unlock()
		if w.count(otherEntity) != 1 {
			t.Errorf("%d refused", w.count(otherEntity))
		}
		a.conn.Close()
		if got := <-ended; got != node {
			t.Errorf("the session of %d ended", got)
		}
	}
}
