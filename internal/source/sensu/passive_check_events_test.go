package sensu

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// sendUnrequested sends an event without a request, as a program on the agent's machine can.
func (a *testAgent) sendUnrequested(name, proxy string, status uint32, output string) {
	a.t.Helper()
	r := testenv.Value(a.codec.ParseRequest(a.codec.AppendRequest(nil, &sensuwire.CheckRequest{Name: name, Proxy: proxy, Namespace: "default", Interval: 1})))(a.t)
	a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Check: r.Check, Executed: 1, Status: status, Output: output})
}

// resultLines returns the results in the journal as text, one per line. A line has the id of the compiled check,
// status and output. The caller holds the lock.
func (w *testServer) resultLines() (lines []string) {
	for _, s := range w.signals {
		if s.Kind == wire.SignalResult && s.Node == 0 {
			lines = append(lines, fmt.Sprintf("%d %s %s", s.Definition, s.Status, s.Output))
		}
	}
	return lines
}

// TestUnrequestedEventNeedsAPassiveCheck checks that an unrequested event is accepted only for a declared passive
// check.
func TestUnrequestedEventNeedsAPassiveCheck(t *testing.T) {
	inBothCodecs(t, func(t *testing.T, json bool) {
		w := newTestServer(t, nil)
		passive := func(id model.DefinitionID, name string) *model.CheckDefinition {
			return newCheck(id, name, "", func(c *model.CheckDefinition) { c.Command, c.Interval = nil, 0 })
		}
		w.passives["backup_db"] = directory.PassiveCheck{Definition: passive(11, "backup_db")}
		w.passives["off"] = directory.PassiveCheck{Definition: passive(12, "off"), Disabled: true}
		w.passives["load"] = directory.PassiveCheck{}
		w.passives["unpublished"] = directory.PassiveCheck{Disabled: true}
		w.passives["host-down"] = directory.PassiveCheck{Definition: passive(13, "host-down"), Source: model.SourceAlerts}
		a := w.connectAgent("web", json)
		a.sendUnrequested("Backup_DB", "", 2, "no space")
		for _, name := range []string{"off", "load", "unpublished", "host-down", "nothing", "keepalive"} {
			a.sendUnrequested(name, "", 0, "fine")
		}
		a.sendUnrequested("backup_db", "switch1", 0, "of somebody else")
		a.sendKeepalive()
		w.wait("all of them", func() bool { return w.count(keepaliveKept) == 2 })
		for out, want := range map[messageOutcome]int{resultKept: 1, disabledCheck: 2, checkUnassigned: 4, otherEntity: 1} {
			if got := w.count(out); got != want {
				t.Errorf("%s: %d, want %d", outcomeNames[out], got, want)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if got := w.resultLines(); len(got) != 1 || got[0] != "11 CRITICAL no space" || len(w.created) != 0 {
			t.Errorf("%q, created %v", got, w.created)
		}
	})
}

// Events of a missing check from five agents create one passive check. The events come at the same time, and the check
// has their settings. One passive check is created from the fields of the event.
func TestPassiveChecksAreCreated(t *testing.T) {
	w := newTestServer(t, nil)
	w.limits.PassivePerNode = 5
	rules := protowire.AppendTag(nil, 3, protowire.BytesType)
	rules = protowire.AppendString(rules, "toFile")
	for _, handler := range []string{"cmdb", "nobody"} {
		rules = protowire.AppendString(protowire.AppendTag(rules, 3, protowire.BytesType), handler)
	}
	rules = protowire.AppendVarint(protowire.AppendTag(rules, 4, protowire.VarintType), 60)
	rules = protowire.AppendVarint(protowire.AppendTag(rules, 6, protowire.VarintType), 30)
	rules = protowire.AppendVarint(protowire.AppendTag(rules, 18, protowire.VarintType), 90000)
	rules = protowire.AppendBytes(protowire.AppendTag(rules, 32, protowire.BytesType), protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "alerts"))
	pair := protowire.AppendString(protowire.AppendTag(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "team"), 2, protowire.BytesType), "a")
	rules = protowire.AppendBytes(protowire.AppendTag(rules, 26, protowire.BytesType), protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), pair))
	var all []*testAgent
	for i := range 5 {
		all = append(all, w.connectAgent(fmt.Sprint("web", i), false))
	}
	var together sync.WaitGroup
	for _, a := range all {
		together.Go(func() {
			r, err := a.codec.ParseRequest(a.codec.AppendRequest(nil, &sensuwire.CheckRequest{Name: "Nightly", Namespace: "default", Interval: 1}))
			if err != nil {
				t.Error(err)
			}
			a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Check: slices.Concat(r.Check, rules), Output: "done"})
		})
	}
	together.Wait()
	w.wait("five results", func() bool { return len(w.resultLines()) == 5 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.created) != 1 {
		t.Fatalf("created %+v", w.created)
	}
	r := w.created[0]
	spec := r.Spec.(*model.CheckSpec)
	if r.Metadata.Name != "nightly" || fmt.Sprint(r.Metadata.Labels) != "map[source:sensu-agent team:a]" || r.Metadata.Annotations["sensu-agent/not-carried"] != `handler "nobody"` {
		t.Errorf("created %+v", r.Metadata)
	}
	if !spec.Passive || spec.TTL != model.Duration(25*time.Hour) || fmt.Sprint(spec.Pipelines, spec.Alert.Handlers, *spec.Alert.Flapping) != "[alerts sensu-tofile] [cmdb] {60 30}" {
		t.Errorf("created %+v, %+v", spec, spec.Alert)
	}
}

// A check that an operator declares is not overwritten when an event of the same name arrives.
func TestConcurrentDeclarationOfACheckStays(t *testing.T) {
	for _, passive := range []bool{false, true} {
		w := newTestServer(t, nil)
		w.limits.PassivePerNode = 5
		w.declared = &directory.PassiveCheck{}
		if passive {
			w.declared.Definition = newCheck(77, "nightly", "", func(c *model.CheckDefinition) { c.Command, c.Interval = nil, 0 })
		}
		a := w.connectAgent("web", false)
		a.sendUnrequested("nightly", "", 2, "failed")
		a.sendKeepalive()
		w.wait("both", func() bool { return w.count(keepaliveKept) == 2 })
		if kept := w.count(resultKept) == 1; kept != passive || len(w.created) != 0 {
			t.Errorf("declared as passive: %v, kept: %v, made %+v", passive, kept, w.created)
		}
	}
}

// A passive check is created from the fields of an event in JSON.
func TestPassiveCheckIsCreatedFromJSON(t *testing.T) {
	w := newTestServer(t, nil)
	w.limits.PassivePerNode = 5
	a := w.connectAgent("web", true)
	a.sendRaw("event", `{"entity":{"metadata":{"name":"web","namespace":"default"}},"check":{"metadata":{"name":"nightly","namespace":"default","labels":{"team":"a","source":"x","two words":"x"},"annotations":{"sensu.io/plugins/slack/config/channel":"#a","a:b":"x"}},"output":"x","status":1,"ttl":60,
		"handlers":["cmdb"],"pipelines":[{"api_version":"core/v2","type":"Pipeline","name":"alerts"},{"name":"gone"}],"high_flap_threshold":20,"low_flap_threshold":10}}`)
	w.wait("a result", func() bool { return len(w.resultLines()) == 1 })
	w.mu.Lock()
	defer w.mu.Unlock()
	spec := w.created[0].Spec.(*model.CheckSpec)
	if fmt.Sprint(spec.Pipelines, spec.Alert.Handlers, *spec.Alert.Flapping, spec.TTL, w.created[0].Metadata.Annotations, w.created[0].Metadata.Labels) != `[alerts] [cmdb] {20 10} 1m map[sensu-agent/not-carried:pipeline "gone" sensu.io/plugins/slack/config/channel:#a] map[source:sensu-agent team:a]` {
		t.Errorf("created %+v, %+v, %+v", spec, spec.Alert, w.created[0].Metadata)
	}
}

// A node that sends events of ever new checks reaches its limit. Events of its existing checks are still accepted.
func TestCreatedChecksOfANodeAreLimited(t *testing.T) {
	w := newTestServer(t, nil)
	w.limits.PassivePerNode = 3
	a := w.connectAgent("web", false)
	for i := range 10 {
		a.sendUnrequested(fmt.Sprint("job-", i), "", 0, "fine")
	}
	a.sendUnrequested("job-1", "", 1, "again")
	a.sendKeepalive()
	w.wait("all of them", func() bool { return w.count(keepaliveKept) == 2 })
	hits := w.server.cfg.Limiter.RecentHits(time.Time{})
	if w.count(resultKept) != 4 || w.count(stateLimit) != 7 || len(w.created) != 3 {
		t.Errorf("%d kept, %d refused, %d checks created", w.count(resultKept), w.count(stateLimit), len(w.created))
	}
	if len(hits) != 1 || hits[0].Limit != "node_passive" || hits[0].Node != "web" || hits[0].Count != 7 || !strings.HasSuffix(hits[0].Reason, "refused: job-9") {
		t.Errorf("reported %+v", hits)
	}
	// Another session of the node counts what the view has.
	w.mu.Lock()
	node := w.nodes[a.uid()].ID
	for _, p := range w.passives {
		w.events[eventKey{node, p.Definition.Unit}] = true
	}
	w.mu.Unlock()
	a.conn.Close()
	w.wait("its end", func() bool { return w.server.registry.Get(node) == nil })
	b := w.connectAgent("web", false)
	b.sendUnrequested("job-0", "", 0, "fine")
	b.sendUnrequested("job-7", "", 0, "fine")
	b.sendKeepalive()
	w.wait("both", func() bool { return w.count(keepaliveKept) == 4 })
	if w.count(resultKept) != 5 || w.count(stateLimit) != 8 {
		t.Errorf("%d kept, %d refused", w.count(resultKept), w.count(stateLimit))
	}
}

// While passive checks cannot be created, events of new checks are refused immediately and the session continues.
func TestFailedCreationRefusesEventsAtOnce(t *testing.T) {
	w := newTestServer(t, nil)
	w.limits.PassivePerNode = 3
	w.applyError = model.Errorf(model.Unavailable, "the store does not answer")
	a := w.connectAgent("web", false)
	a.sendUnrequested("one", "", 0, "fine")
	a.sendUnrequested("two", "", 0, "fine")
	a.sendKeepalive()
	w.wait("all of them", func() bool { return w.count(keepaliveKept) == 2 })
	if w.count(creationFailed) != 2 {
		t.Errorf("%d refused", w.count(creationFailed))
	}
}

// TestAgentSendsEventsOfAssignedProxyNodesOnly sends events of two proxy nodes, and expects only the assigned node's
// event.
func TestAgentSendsEventsOfAssignedProxyNodesOnly(t *testing.T) {
	w := newTestServer(t, nil)
	w.definitions = []*model.CheckDefinition{newCheck(1, "ping", "x", func(c *model.CheckDefinition) { c.Proxy, c.Interval = true, time.Hour })}
	w.proxied = directory.NewProxyTargets(wire.ProxyChecks{Sets: []wire.ProxySet{{Definitions: []model.DefinitionID{1}, Nodes: []model.NodeID{60}}}, Nodes: []wire.ProxyNode{{Node: 60, Name: "switch1"}}},
		[]directory.ProxyNode{{ID: 60, UID: uuid.UUID{15: 60}, Namespace: model.DefaultNamespace}}, compileDefinitions(w.definitions))
	w.passives["firmware"] = directory.PassiveCheck{Definition: newCheck(11, "firmware", "", func(c *model.CheckDefinition) { c.Command, c.Interval = nil, 0 })}
	a := w.connectAgent("poller", false)
	a.nextRequest()
	a.sendUnrequested("firmware", "Switch1", 1, "old")
	a.sendUnrequested("firmware", "switch2", 1, "old")
	w.wait("the one, and not the other", func() bool { return len(w.proxyResults) == 1 && w.count(otherEntity) == 1 })
	w.mu.Lock()
	defer w.mu.Unlock()
	var s wire.Signal
	err := s.Decode(w.proxyResults[0].ProxyResult.Signal)
	if r := decodeSignal(t, s); err != nil || w.proxyResults[0].Node != 60 || s.Definition != 11 || r.Status != model.Warning {
		t.Errorf("%v %+v", err, r)
	}
}

// sendRaw sends a message whose body is given as bytes.
func (a *testAgent) sendRaw(kind, body string) {
	a.t.Helper()
	if err := a.conn.Write(append(sensuwire.NewMessage(kind), body...)); err != nil {
		a.t.Error(err)
	}
}
