package muster

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestChangedCheckIsSentToItsNodesOnly changes a check of ten nodes among 2,000, and expects ten sent assignments.
// Each has only the changed check.
func TestChangedCheckIsSentToItsNodesOnly(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 200
	}
	w := newTestServer(t, nil)
	agents := make([]*testAgent, n)
	uids := make([]uuid.UUID, n)
	for i := range agents {
		uids[i] = w.addNode(i, 1, 2, 3)
		agents[i] = w.openAgent(uids[i])
	}
	for _, a := range agents {
		a.waitAssignment(1)
	}
	testenv.Until(w.t, "every agent has confirmed", func() bool { return w.countMetric("frames_total", "confirmed") == float64(n) })
	before := w.countMetric("sent_total", "assignment")
	var changed []model.NodeID
	for i := 0; i < n; i += n / 10 {
		w.plan.assign(model.NodeID(1000+i), uids[i], 1, 3, 4) // definition 2 became 4
		changed = append(changed, model.NodeID(1000+i))
	}
	w.plan.notify(directory.Change{Assignments: changed})
	for i := 0; i < n; i += n / 10 {
		a := agents[i]
		a.waitAssignment(2)
		if got := definitionIDs(a.assignments[1].Definitions); got != "[1 3 4]" {
			t.Fatalf("agent %d holds %s", i, got)
		}
	}
	testenv.Until(w.t, "the ten have confirmed", func() bool { return w.countMetric("frames_total", "confirmed") == float64(n+10) })
	if sent := w.countMetric("sent_total", "assignment") - before; sent != 10 {
		t.Fatalf("%v assignments sent, want 10", sent)
	}
}

// TestAgentOfADeletedNodeGetsTheReason deletes a node, and expects its session to end with the reason. All other
// sessions stay open.
func TestAgentOfADeletedNodeGetsTheReason(t *testing.T) {
	w := newTestServer(t, nil)
	uid := w.addNode(1, 1)
	a, b := w.openAgent(uid), w.openAgent(w.addNode(2, 1))
	for _, x := range []*testAgent{a, b} {
		x.waitAssignment(1)
	}
	w.plan.mu.Lock()
	delete(w.plan.assignments, 1001)
	delete(w.plan.assignments, 1002) // has no assignment now, as one that would be too large, but is there
	w.plan.mu.Unlock()
	w.nodes.mu.Lock()
	delete(w.nodes.nodes, uid)
	w.nodes.mu.Unlock()
	w.plan.notify(directory.Change{Assignments: []model.NodeID{1001, 1002}})
	if r := a.refusal(); r.Code != "unknown" || !strings.Contains(r.Message, "deleted") || r.Hint == "" {
		t.Fatalf("%+v", r)
	}
	b.send(resultBatch(1, 1, 1))
	b.waitAck(1)
	_, err := w.openSession(uid, nil)
	if r := refusalOf(t, err); r.Code != "unknown" {
		t.Fatalf("it comes back: %+v", r)
	}
}

// definitionIDs formats the ids of compiled checks as text, for comparisons in tests.
func definitionIDs(list []*model.Definition) string {
	var ids []model.DefinitionID
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return fmt.Sprint(ids)
}

// TestCurrentAssignmentIsNotSentAgain reconnects agents, and expects the assignment to be sent only to agents with an
// older version. An outdated agent gets the whole current assignment.
func TestCurrentAssignmentIsNotSentAgain(t *testing.T) {
	w := newTestServer(t, nil)
	uid := w.addNode(1, 1, 2)
	a := w.openAgent(uid)
	a.waitAssignment(1)
	held := a.assignments[0]
	b := w.mustOpenSession(uid, held, nil)
	b.send(resultBatch(1, 1, 1)) // after its acknowledgement, an assignment would have arrived
	b.waitAck(1)
	testenv.NoError(t, w.requestRun(1001, 1))
	b.wait("run", func() bool { return len(b.runs) == 1 })
	if sent := w.countMetric("sent_total", "assignment"); sent != 1 {
		t.Fatalf("%v assignments sent, want the first one only", sent)
	}
	b.Close()
	w.plan.assign(1001, uid, 2, 3) // while the agent was not connected
	c := w.mustOpenSession(uid, held, nil)
	c.wait("whole", func() bool { return len(c.assignments) == 1 && definitionIDs(c.assignments[0].Definitions) == "[2 3]" })
}

// TestWrongHashLeadsToWholeAssignment lets an agent confirm a wrong assignment hash, and expects the server to
// send the whole assignment.
func TestWrongHashLeadsToWholeAssignment(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.openAgent(w.addNode(1, 1, 2))
	a.waitAssignment(1)
	sendRaw(a, wire.AppendAssignmentStatus(nil, &wire.AssignmentStatus{Hash: [32]byte{1}}))
	a.waitAssignment(2)
	if w.countMetric("assignments_resent_total", "") != 1 {
		t.Fatal("not counted")
	}
}

// TestAppliedDifferenceIsTheWantedAssignment applies the difference of two random assignments to the first, and
// expects the second assignment. It fits into one message.
func TestAppliedDifferenceIsTheWantedAssignment(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	uid := uuid.New()
	rapid.Check(t, func(t *rapid.T) {
		p := newMemoryPlan()
		most := rapid.SampledFrom([]uint32{30, 3000}).Draw(t, "most") // of many, more are removed than a difference takes
		draw := func(name string) *directory.Assignment {
			var list []model.DefinitionID
			if most > 30 {
				from := rapid.Uint32Range(1, most).Draw(t, name+" from")
				for id := from; id <= most; id++ {
					list = append(list, model.DefinitionID(id))
				}
			} else {
				for _, id := range rapid.SliceOfDistinct(rapid.Uint32Range(1, most), func(v uint32) uint32 { return v }).Draw(t, name) {
					list = append(list, model.DefinitionID(id))
				}
			}
			p.assign(1, uid, list...)
			a := *p.AssignmentOf(1)
			for i := range rapid.IntRange(0, 3).Draw(t, name+" properties") {
				a.Properties = append(a.Properties, wire.Property{Name: fmt.Sprint("p", i), Value: []byte(rapid.StringN(0, 4, -1).Draw(t, "value"))})
			}
			a.Hash = wire.AssignmentHash(a.Definitions, a.Properties, nil)
			return &a
		}
		have, want := draw("have"), draw("want")
		start := have
		var held *link.Assignment
		if rapid.Bool().Draw(t, "from nothing") {
			start = nil
		} else {
			held = &link.Assignment{Generation: have.Generation, Hash: have.Hash, Definitions: have.Definitions, Properties: have.Properties}
		}
		m := assignmentDifference(start, want)
		m.Signature = ed25519.Sign(key, wire.SignedBytes(uid, m.Generation, m.Hash))
		frame := wire.AppendPackedAssignment(nil, m)
		if len(frame) > wire.MaxFrame {
			t.Fatalf("message of %d bytes", len(frame))
		}
		_, body, err := wire.FrameKind(frame)
		testenv.NoError(t, err)
		var got wire.Assignment
		testenv.NoError(t, got.Decode(body))
		held, err = held.Apply(&got, uid, key.Public().(ed25519.PublicKey), wire.DecodeDefinition)
		testenv.NoError(t, err)
		if held.Hash != want.Hash {
			t.Fatalf("holds another")
		}
	})
}

// addDefinitions adds compiled checks that the test can assign to nodes. The method assign can then put them into
// assignments by their ids.
func (m *memoryPlan) addDefinitions(definitions ...*model.Definition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range definitions {
		c.Hash = wire.DefinitionHash(wire.AppendDefinition(nil, c))
		m.definitions[c.ID] = c
	}
}

const futureKind model.DefinitionKind = 9

// futureDefinition returns a compiled check of an invented kind, which no agent supports.
func futureDefinition(id model.DefinitionID) *model.Definition {
	return (&model.Definition{ID: id, Unit: 77, Namespace: model.DefaultNamespace, Name: "future"}).SetBody(futureKind, []byte{1, 2, 3})
}

// TestUnsupportedDefinitionsAreLeftOut assigns a kind of check unknown to the agent, and expects the server to omit
// the check.
func TestUnsupportedDefinitionsAreLeftOut(t *testing.T) {
	w := newTestServer(t, nil)
	w.plan.addDefinitions(futureDefinition(3))
	uid := w.addNode(1, 1, 2, 3)
	old := w.openAgent(uid)
	old.wait("the rest", func() bool {
		return len(old.assignments) == 1 && definitionIDs(old.assignments[0].Definitions) == "[1 2]"
	})
	idle := func() (list []core.IdleUnit) {
		a, _ := w.server.Agent(1001)
		return a.Idle
	}
	if list := idle(); len(list) != 1 || list[0].Unit != 77 || list[0].Name != "future" || !strings.Contains(list[0].Reason, "kind 9: update") {
		t.Fatalf("idle %+v", list)
	}
	if n := w.countMetric("units_left_out_total", ""); n != 1 {
		t.Fatalf("%v units left out", n)
	}
	w.plan.assign(1001, uid, 2, 3, 4)
	w.plan.notify(directory.Change{Assignments: []model.NodeID{1001}})
	old.wait("a difference", func() bool {
		return len(old.assignments) == 2 && definitionIDs(old.assignments[1].Definitions) == "[2 4]"
	})
	old.Close()

	next, err := w.openSession(uid, func(cfg *link.Config, hello *wire.Hello) {
		hello.Features = append(wire.Features(), wire.DefinitionFeature(futureKind))
		cfg.Definition = func(id model.DefinitionID, body []byte) (*model.Definition, error) {
			c, err := wire.DecodeDefinition(id, body)
			if err == nil && c.Kind == futureKind {
				c.SetBody(futureKind, struct{}{})
			}
			return c, err
		}
	})
	testenv.NoError(t, err)
	next.wait("all", func() bool {
		return len(next.assignments) == 1 && definitionIDs(next.assignments[0].Definitions) == "[2 3 4]"
	})
	if list := idle(); len(list) != 0 {
		t.Fatalf("idle %+v", list)
	}
}

// TestRefusedCheckStopsNoOtherCheck lets an agent refuse some of its checks, and expects its other checks to run. The
// server has the reason. The other units run, and the server knows the refused ones, also in later sessions.
func TestRefusedCheckStopsNoOtherCheck(t *testing.T) {
	w := newTestServer(t, nil)
	long := &model.CheckDefinition{Definition: model.Definition{ID: 4, Unit: 78, Namespace: model.DefaultNamespace, Name: "long"}, Command: &model.Command{Shell: strings.Repeat("x", wire.MaxBody+1)}}
	w.plan.addDefinitions(futureDefinition(3), long.ToDefinition())
	uid := w.addNode(1, 1, 3, 4)
	all := func(_ *link.Config, hello *wire.Hello) {
		hello.Features = append(wire.Features(), wire.DefinitionFeature(futureKind))
	}
	a := testenv.Value(w.openSession(uid, all))(t)
	refused := func(a *testAgent) {
		t.Helper()
		testenv.Until(t, "the server knows what is refused", func() bool {
			x, _ := w.server.Agent(1001)
			return len(x.Idle) == 2 && x.Idle[0].Unit == 77 && x.Idle[1].Unit == 78 && x.Confirmed &&
				strings.Contains(x.Idle[0].Reason, "kind 9") && strings.Contains(x.Idle[1].Reason, "at most 262144")
		})
	}
	refused(a)
	a.send(resultBatch(1, 1, 1))
	a.waitAck(1)
	if len(a.refused) != 0 {
		t.Fatalf("results of the others are refused: %+v", a.refused)
	}
	w.plan.assign(1001, uid, 2, 3, 4)
	w.plan.notify(directory.Change{Assignments: []model.NodeID{1001}})
	a.wait("a difference", func() bool {
		return len(a.assignments) == 2 && definitionIDs(a.assignments[1].Definitions) == "[2 3 4]"
	})
	refused(a)

	// The agent reads the same assignment from its disk.
	kept, err := (*link.Assignment)(nil).Apply(a.assignments[1].Message(), uid, nil, wire.DecodeDefinition)
	if err != nil || kept.Hash != a.assignments[1].Hash || len(kept.Refused) != 2 {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	a.Close()
	b := w.mustOpenSession(uid, kept, all)
	refused(b)
}

// An assignment larger than a frame is sent in parts. The same holds for a difference.
func TestLargeAssignmentComesInParts(t *testing.T) {
	w := newTestServer(t, nil)
	var ids []model.DefinitionID
	for id := model.DefinitionID(1); id <= 3000; id++ {
		c := &model.CheckDefinition{Definition: model.Definition{ID: id, Unit: 100 + model.UnitID(id), Namespace: model.DefaultNamespace, Name: "check"},
			Command: &model.Command{Shell: strings.Repeat("x", 700)}, Interval: time.Minute, FailAfter: 1, RecoverAfter: 1}
		if id%1000 == 0 {
			c.Command.Shell = strings.Repeat("y", 200<<10)
		}
		w.plan.addDefinitions(c.ToDefinition())
		ids = append(ids, id)
	}
	uid := w.addNode(1, ids[:1]...)
	a := w.openAgent(uid)
	a.waitAssignment(1)
	w.plan.assign(1001, uid, slices.Clone(ids)...)
	w.plan.notify(directory.Change{Assignments: []model.NodeID{1001}})
	a.wait("all of a difference", func() bool { return len(a.assignments) == 2 && len(a.assignments[1].Definitions) == len(ids) })
	if n := w.countMetric("sent_total", "assignment"); n < 3 {
		t.Fatalf("%v frames", n)
	}
	kept, err := (*link.Assignment)(nil).Apply(a.assignments[1].Message(), uid, nil, wire.DecodeDefinition)
	if err != nil || kept.Hash != a.assignments[1].Hash {
		t.Fatalf("kept: %v", err)
	}
	a.Close()
	b := w.openAgent(uid)
	b.wait("the whole", func() bool { return len(b.assignments) == 1 && len(b.assignments[0].Definitions) == len(ids) })
}

// TestPartsOfAnotherAssignmentAreDropped sends an agent mixed parts of two assignments, and expects the agent
// to apply the second assignment. The agent drops the parts of the first.
func TestPartsOfAnotherAssignmentAreDropped(t *testing.T) {
	body := make([]byte, 600<<10)
	first := &wire.Assignment{Hash: [32]byte{1}, Add: []wire.AssignedDefinition{{ID: 1, Body: body}, {ID: 2, Body: body}}, Signature: []byte{1}}
	second := &wire.Assignment{Hash: [32]byte{2}, Add: []wire.AssignedDefinition{{ID: 3, Body: body}, {ID: 4, Body: body}}, Signature: []byte{2}}
	one, two := first.Parts(), second.Parts()
	if len(one) != 2 || len(two) != 2 || !one[0].More || one[1].More || len(one[0].Signature) != 0 {
		t.Fatalf("%d and %d parts", len(one), len(two))
	}
	var p wire.PartialAssignment
	if p.Join(one[0]) != nil || p.Join(two[0]) != nil {
		t.Fatal("whole after a part")
	}
	if whole := p.Join(two[1]); whole == nil || len(whole.Add) != 2 || whole.Add[0].ID != 3 || whole.Add[1].ID != 4 {
		t.Fatalf("joined %+v", whole)
	}
}

// valueBatch returns a test batch of metric values, with one encoded block of values per argument. An argument
// is the number of rows in the block.
func valueBatch(first uint64, rows ...uint32) *wire.Batch {
	b := &wire.Batch{StreamKey: liveStream, First: first}
	for _, n := range rows {
		body := wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: n, Columns: make([]byte, max(n, 1))})
		b.Signals = append(b.Signals, wire.Signal{Kind: wire.SignalValueBlock, Definition: 1, Body: body})
	}
	return b
}

// TestSignalsOfUnsupportedKindsAreRefused sends numbered data of kinds unknown to the server, and expects a
// refusal of each number. Signals are results, values and so on.
func TestSignalsOfUnsupportedKindsAreRefused(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.openAgent(w.addNode(1, 1))
	b := resultBatch(1, 1, 1)
	for _, kind := range []wire.SignalKind{wire.SignalValueBlock, wire.SignalReport, wire.SignalInventory, 30} {
		b.Signals = append(b.Signals, wire.Signal{Kind: kind, Definition: 1, Body: []byte{1}})
	}
	a.send(b)
	a.waitAck(5)
	a.expectRefused("2 kind", "3 kind", "4 kind", "5 kind")
	a.send(resultBatch(6, 1, 1))
	a.waitAck(6)
}

// TestValuesOfSlowNodesWait sends results and values of a node with slow value processing, and expects only
// values to wait. A result does not wait. Values wait before the journal has them, and count once.
func TestValuesOfSlowNodesWait(t *testing.T) {
	turns := core.NewWorkerShares(func() int64 { return 0 })
	w := newTestServer(t, func(c *Config) {
		c.Kinds, c.Turns = []wire.SignalKind{wire.SignalValueBlock}, turns
	})
	uid := w.addNode(1, 1)
	node, _ := w.nodes.Lookup(uid)
	a := w.openAgent(uid)
	turns.AddUsage(node.ID, 1500*time.Millisecond) // a second beyond the turn: two seconds
	a.send(resultBatch(1, 1, 1))
	a.waitAck(1)
	if _, waits := turns.Counts(); waits != 0 {
		t.Errorf("a result waited")
	}
	w.journal.pauseCommits(true)
	a.send(valueBatch(2, 1))
	testenv.Until(t, "the values wait", func() bool { _, waits := turns.Counts(); return waits == 1 })
	if n := w.journal.queued(); n != 0 {
		t.Errorf("%d entries in the journal's queue before the node waited", n)
	}
	w.journal.pauseCommits(false)
	a.waitAck(2)
	if _, waits := turns.Counts(); waits != 1 {
		t.Errorf("%d waits, want 1", waits)
	}
}

// Blocks of metric values have their own rate limit, and the server refuses invalid blocks.
func TestValueBlocksHaveTheirOwnRateLimit(t *testing.T) {
	w := newTestServer(t, func(c *Config) {
		c.Kinds = []wire.SignalKind{wire.SignalValueBlock}
		c.Limits.RateBurst = time.Second
	})
	uid := w.addNode(1, 1)
	w.nodes.setLimits(1, core.NamespaceLimits{NodeValuesPerSec: 100, NodeResultsPerSec: 1e6})
	node, _ := w.nodes.Lookup(uid)
	w.nodes.setLimits(node.Namespace, core.NamespaceLimits{NodeValuesPerSec: 100, NodeResultsPerSec: 1e6})
	a := w.openAgent(uid)
	a.send(resultBatch(1, 300, 1))
	a.waitAck(300)
	if w.countMetric("throttled_total", "node")+w.countMetric("throttled_total", "node_values") != 0 {
		t.Fatal("results met a limit of values")
	}
	bad := valueBatch(301, 5, 6, 7)
	bad.Signals[0].Body = wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: 5, Columns: make([]byte, 4)})
	bad.Signals[1].Definition, bad.Signals[2].Node = 99, 50
	a.send(bad)
	a.waitAck(303)
	a.expectRefused("301 malformed", "302 unknown_definition", "303 proxy")
	start := time.Now()
	a.send(valueBatch(304, 60, 40)) // the burst
	a.send(valueBatch(306, 30))     // 0.3 s of debt
	a.send(valueBatch(307, 1))
	a.waitAck(307)
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("131 values at 100 per second with a burst of a second took %v", took)
	}
	if w.countMetric("throttled_total", "node_values") == 0 || w.countMetric("throttled_total", "node") != 0 {
		t.Error("the limit that was met is not counted by its name")
	}
	a.wait("slow", func() bool {
		return len(a.slowReasons) == 1 && strings.Contains(a.slowReasons[0], "100 values per second")
	})
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	rows := uint32(0)
	for _, data := range w.journal.entries {
		var r wire.Record
		var b wire.Batch
		if r.Decode(data) != nil || r.Kind != wire.RecordBatch || b.Decode(r.Batch) != nil {
			continue
		}
		for _, s := range b.Signals {
			var block wire.ValueBlock
			if s.Kind == wire.SignalValueBlock && block.Decode(s.Body) == nil {
				rows += block.Rows
			}
		}
	}
	if rows != 131 {
		t.Errorf("the journal has %d values, want 131", rows)
	}
}

// TestAgentsThatSendValueBlocksAreSlowedFirst raises the fill level of a queue, and expects agents with metric values
// to be slowed first. Agents that send values are slowed when the queue is a quarter full, agents that send results
// when it is half full.
func TestAgentsThatSendValueBlocksAreSlowedFirst(t *testing.T) {
	results, values := agentThrottle{threshold: core.SlowResultsAt}, agentThrottle{threshold: core.SlowValuesAt}
	for i, step := range []struct {
		share           float64
		results, values bool
	}{{0.24, false, false}, {0.3, false, true}, {0.2, false, true}, {0.12, false, false}, {0.51, true, true}, {0.26, true, true}, {0.13, false, true}} {
		results.update(int64(i), step.share)
		values.update(int64(i), step.share)
		if results.active != step.results || values.active != step.values {
			t.Errorf("step %d, %g full: results slow %v, values slow %v", i, step.share, results.active, values.active)
		}
	}
}

// nopCloser adds a Close method without effect to a bytes.Reader.
type nopCloser struct{ *bytes.Reader }

// Close does nothing, because a reader in memory holds no file.
func (nopCloser) Close() error { return nil }

// fetchArchive requests an archive from a byte offset, with a client certificate. An empty offset means the start.
func (h *tlsServer) fetchArchive(id *pki.Identity, path, from string) (status int, body string) {
	h.t.Helper()
	config := link.TLSFor(wire.AssetProtocol, id, nil)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return link.DialTLS(ctx, (&net.Dialer{}).DialContext, config, h.tls)
	}}}
	request := testenv.Value(http.NewRequestWithContext(h.t.Context(), http.MethodGet, "https://"+h.tls+path, nil))(h.t)
	if from != "" {
		request.Header.Set("Range", "bytes="+from+"-")
	}
	answer := testenv.Value(client.Do(request))(h.t)
	defer answer.Body.Close()
	data := testenv.Value(io.ReadAll(answer.Body))(h.t)
	return answer.StatusCode, string(data)
}

// TestAgentFetchesAssignedArchivesOnly expects an agent to fetch the archives of its assignment, and no others. It may
// begin at any offset. A replaced or unknown machine may fetch none.
func TestAgentFetchesAssignedArchivesOnly(t *testing.T) {
	here, missing, other := [64]byte{1}, [64]byte{2}, [64]byte{3}
	h := newTLSServerWith(t, func(c *Config) {
		c.Assets = func(sum [64]byte) (io.ReadSeekCloser, error) {
			if sum == missing {
				return nil, model.Errorf(model.NotFound, "nobody has uploaded it")
			}
			return nopCloser{bytes.NewReader([]byte("an archive"))}, nil
		}
	}, nil)
	defer h.stop()
	id, stranger := h.enrol("web1"), h.enrol("web2")
	node, _ := h.nodes.Lookup(id.Node)
	text := func(sum [64]byte) string { return hex.EncodeToString(sum[:]) }
	h.plan.mu.Lock()
	named := *h.plan.assignments[node.ID].Definitions[0].AsCheck()
	named.Assets = []model.DefinitionAsset{{Name: "x", Builds: []model.AssetBuild{{SHA512: text(here), OS: "plan9"}, {SHA512: text(missing)}}}}
	h.plan.assignments[node.ID].Definitions = []*model.Definition{named.ToDefinition()}
	h.plan.mu.Unlock()
	for _, x := range []struct {
		what       string
		as         *pki.Identity
		path, from string
		status     int
		says       string
	}{
		{"named", id, wire.AssetPath + text(here), "", http.StatusOK, "an archive"},
		{"the rest of it", id, wire.AssetPath + text(here), "3", http.StatusPartialContent, "archive"},
		{"beyond its end", id, wire.AssetPath + text(here), "10", http.StatusRequestedRangeNotSatisfiable, ""},
		{"not here", id, wire.AssetPath + text(missing), "", http.StatusNotFound, "nobody has uploaded it"},
		{"not named", id, wire.AssetPath + text(other), "", http.StatusForbidden, ""},
		{"another node's", stranger, wire.AssetPath + text(here), "", http.StatusForbidden, ""},
		{"no sum", id, wire.AssetPath + "../../etc/passwd", "", http.StatusNotFound, ""},
		{"something else", id, "/api/v1/nodes", "", http.StatusNotFound, ""},
	} {
		if status, body := h.fetchArchive(x.as, x.path, x.from); status != x.status || !strings.Contains(body, x.says) {
			t.Errorf("%s: %d %q", x.what, status, body)
		}
	}
	info, _ := h.nodes.Lookup(id.Node)
	info.Key = "another"
	h.nodes.setNode(id.Node, info)
	if status, body := h.fetchArchive(id, wire.AssetPath+text(here), ""); status != http.StatusForbidden {
		t.Errorf("a machine that another has replaced: %d %q", status, body)
	}
}
