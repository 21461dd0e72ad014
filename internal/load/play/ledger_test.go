package play

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// A model of a server, without time: what is appended, committed and acknowledged is
// moved on by a random script, together with what agents do and what befalls their
// connections. A server that does what it should is never accused, whatever the script;
// one that does one thing wrong once always is.

const (
	modelAgents = 3
	modelChecks = 4
	pickyCheck  = 0 // some of its results are refused; mutants leave it alone
)

// modelBatch is an appended batch, with the refusals decided when it came.
type modelBatch struct {
	first   uint64
	signals []wire.Signal
	void    map[uint64]bool
}

// modelNode holds what the server knows of one agent. A crash loses the queue, and the end of a connection loses the
// answers to it.
type modelNode struct {
	agent  *agent
	stream wire.StreamID
	queue  []modelBatch
	at     uint64 // appended
	last   uint64 // committed
	states map[model.CheckID]*observe.EventState

	conn    *modelConn // nil: away
	acked   uint64     // to be said
	refused []wire.RefusedSignal
	told    uint64 // highest number that the agent was told is kept
}

// modelConn is a connection of an agent to the model server.
type modelConn struct {
	silent
	node   *modelNode
	server *modelServer
}

// Close ends the session, as the loader or the network does.
func (c *modelConn) Close() { c.node.cut() }

// cut ends the node's connection.
func (n *modelNode) cut() {
	if n.conn != nil {
		n.conn, n.refused = nil, nil
		n.agent.mu.Lock()
		n.agent.session = nil
		n.agent.mu.Unlock()
	}
}

// modelServer is a server in memory that makes one mistake, the one named by mutant.
type modelServer struct {
	rng    *rand.Rand
	nodes  []*modelNode
	mutant string
	struck bool // it has done its one wrong thing
	strict bool // every result of the picky check is refused
}

// wrong reports whether the server makes its mistake now.
func (s *modelServer) wrong(mutant string) bool {
	if s.struck || s.mutant != mutant || s.rng.IntN(4) > 0 {
		return false
	}
	s.struck = true
	return true
}

// SendFrame decodes a frame and queues its signals.
func (c *modelConn) SendFrame(_ wire.StreamKey, _ uint64, frame []byte) error {
	n, s := c.node, c.server
	if n.conn != c {
		return link.ErrSessionEnded
	}
	_, body, err := wire.FrameKind(bytes.Clone(frame[wsconn.Headroom:]))
	if err != nil {
		panic(err)
	}
	var b wire.Batch
	if err := b.Decode(body); err != nil {
		panic(err)
	}
	switch last := b.First + uint64(len(b.Signals)) - 1; {
	case last <= n.at:
		return nil // repeated
	case b.First != n.at+1:
		return link.ErrSessionEnded // a hole
	}
	batch := modelBatch{first: b.First, signals: b.Signals, void: map[uint64]bool{}}
	for i := range b.Signals {
		if number := b.First + uint64(i); checkOf(&b.Signals[i]) == pickyCheck && (s.strict || s.rng.IntN(3) == 0) {
			batch.void[number] = true
			n.refused = append(n.refused, wire.RefusedSignal{StreamKey: wire.StreamKey{Stream: n.stream}, Number: number, Code: "picky"})
		}
	}
	n.queue = append(n.queue, batch)
	n.at += uint64(len(b.Signals))
	return nil
}

// checkOf returns the index of a result's check, or -1 for a keepalive.
func checkOf(s *wire.Signal) int {
	if s.Kind != wire.SignalResult {
		return -1
	}
	return int(s.Definition) - 50
}

// commit applies the oldest queued batch of a node.
func (s *modelServer) commit(n *modelNode) {
	if len(n.queue) == 0 {
		return
	}
	b := n.queue[0]
	n.queue = n.queue[1:]
	reused := len(b.signals) > 0 && b.first > 1 && sound(b) && s.wrong("gives a batch the numbers of the one before")
	for i := range b.signals {
		sig, number := &b.signals[i], b.first+uint64(i)
		check := checkOf(sig)
		if check < 0 || reused {
			continue
		}
		if b.void[number] {
			continue
		}
		id := model.CheckID(10 + check)
		k := n.states[id]
		if k == nil {
			k = &observe.EventState{Node: n.agent.node, Check: id}
			n.states[id] = k
		}
		said, err := sig.Result()
		if err != nil {
			panic(err)
		}
		if check != pickyCheck && s.wrong("drops one result") {
			continue
		}
		k.Results++
		k.Order = k.Order.Append(uint64(n.stream), number)
		k.Stream, k.Number, k.Digest = uint64(n.stream), number, digest(said.Status, said.Output)
	}
	n.last = b.first + uint64(len(b.signals)) - 1
	n.acked = n.last
}

// sound reports whether a batch has a result that every mistake would make visible.
func sound(b modelBatch) bool {
	return slices.ContainsFunc(b.signals, func(s wire.Signal) bool { return checkOf(&s) > pickyCheck })
}

// tell sends a node's agent the pending acknowledgement and refusals.
func (s *modelServer) tell(n *modelNode) {
	if n.conn == nil {
		return
	}
	key := wire.StreamKey{Stream: n.stream}
	last := n.acked
	switch {
	case len(n.queue) > 0 && last < n.at && sound(n.queue[0]) && s.wrong("acknowledges before it commits, and is killed"):
		last = n.queue[0].first + uint64(len(n.queue[0].signals)) - 1
		defer func() { s.crash(0) }()
	case n.at == n.agent.ledger.shown && s.wrong("acknowledges a number never sent"):
		last = n.at + 1
	case last > 1 && s.wrong("takes an acknowledgement back"):
		n.agent.Acked(nil, &wire.Ack{Last: []wire.StreamLast{{StreamKey: key, Last: last}}, Refused: n.refused})
		last, n.refused = last-1, nil
	case last > 0 && s.wrong("refuses after it acknowledged"):
		n.agent.Acked(nil, &wire.Ack{Last: []wire.StreamLast{{StreamKey: key, Last: last}}, Refused: n.refused})
		n.refused = []wire.RefusedSignal{{StreamKey: key, Number: last, Code: "late"}}
	}
	ack := &wire.Ack{Last: []wire.StreamLast{{StreamKey: key, Last: last}}, Refused: n.refused}
	n.told, n.refused = max(n.told, last), nil
	n.agent.Acked(nil, ack)
}

// connect opens a session of an agent; the server first commits the batches of the session before.
func (s *modelServer) connect(n *modelNode) {
	n.cut()
	for len(n.queue) > 0 {
		s.commit(n)
	}
	n.at, n.acked = n.last, n.last
	n.conn = &modelConn{node: n, server: s}
	last := n.last
	if last > 0 && n.told == last && s.wrong("forgets in a Welcome") {
		last--
	}
	n.agent.Welcome(n.conn, &wire.Welcome{Node: n.agent.node, KeepaliveMs: 20000, Last: []wire.StreamLast{{StreamKey: wire.StreamKey{Stream: n.stream}, Last: last}}})
	n.told = max(n.told, last)
}

// crash ends all connections and loses queued batches, after some more commits without an acknowledgement.
func (s *modelServer) crash(commits int) {
	for _, n := range s.nodes {
		n.cut()
		for range commits {
			s.commit(n)
		}
		n.queue, n.at = nil, n.last
	}
}

// script plays random steps against a model server, delivers all that is pending, and returns the comparison.
func script(t *testing.T, seed uint64, mutant string) (*report.Balance, *modelServer) {
	t.Helper()
	s := &modelServer{rng: rand.New(rand.NewPCG(seed, 7)), mutant: mutant}
	o := optionsOf(scenario.Uniform{Agents: modelAgents, Checks: modelChecks, Changes: 0.3}.Scenario())
	o.Spool = 2000
	r := fleetWith(t, o)
	r.Follow(plan.Timetable{{To: int64(time.Hour), Rate: 1, Measured: true}})
	r.Deal()
	held := &link.Assignment{}
	for c := range modelChecks {
		held.Definitions = append(held.Definitions, (&model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(50 + c), Unit: model.CheckID(10 + c), Name: fmt.Sprintf("load-%03d", c)}}).ToDefinition())
	}
	for i, a := range r.agents {
		a.node = model.NodeID(100 + i)
		n := &modelNode{agent: a, stream: a.stream, states: map[model.CheckID]*observe.EventState{}}
		s.nodes = append(s.nodes, n)
		s.connect(n)
		a.Assigned(nil, held)
	}
	leave := func(a *agent) { a.mu.Lock(); a.leave(r.Now()); a.mu.Unlock() }
	for range 300 {
		n := s.nodes[s.rng.IntN(len(s.nodes))]
		switch s.rng.IntN(20) {
		case 0:
			n.cut()
		case 1:
			s.crash(s.rng.IntN(3))
		case 2, 3:
			s.connect(n)
		case 4, 5, 6:
			s.commit(n)
		case 7, 8, 9:
			s.tell(n)
		case 10, 11:
			leave(n.agent)
		case 12:
			n.agent.alive(int64(time.Hour)+r.Now(), func(at int64) int64 { return at })
		default:
			n.agent.mu.Lock()
			n.agent.add(task{check: s.rng.IntN(modelChecks), seq: s.rng.Uint64() >> 16}, r.Now(), r.Now())
			n.agent.mu.Unlock()
		}
	}
	s.strict = true // who refused some goes on refusing, and is heard in the end
	for range 3 {
		for _, n := range s.nodes {
			s.connect(n)
			n.agent.mu.Lock()
			n.agent.add(task{check: pickyCheck, seq: s.rng.Uint64() >> 16}, r.Now(), r.Now())
			n.agent.mu.Unlock()
			leave(n.agent)
			for len(n.queue) > 0 {
				s.commit(n)
			}
			s.tell(n)
			leave(n.agent)
			s.connect(n)
			for len(n.queue) > 0 {
				s.commit(n)
			}
			s.tell(n)
		}
	}
	c, err := judge.Compare([]observe.Ledgers{r.Ledgers()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.nodes {
		for _, k := range n.states {
			c.State(*k)
		}
	}
	return c.Balance(), s
}

// TestLedgerNeverAccusesASoundServer plays 300 random runs against a correct server, and expects a ledger without
// differences.
func TestLedgerNeverAccusesASoundServer(t *testing.T) {
	var all report.Balance
	for seed := range uint64(300) {
		b, _ := script(t, seed, "")
		if !b.OK() {
			t.Fatalf("seed %d: %+v", seed, b)
		}
		all.Sent += b.Sent
		all.Refused += b.Refused
		all.Unsure += b.Unsure
		all.Ordered += b.Ordered
	}
	if all.Refused == 0 || all.Unsure == 0 || all.Ordered < 1000 {
		t.Errorf("the scripts do not reach everything: %+v", all)
	}
}

// TestLedgerCatchesEveryMutant plays random runs against servers with one mistake each, and expects that the ledger
// finds it. What a server can do wrong with its event states is in package judge.
func TestLedgerCatchesEveryMutant(t *testing.T) {
	for _, mutant := range []string{
		"drops one result", "gives a batch the numbers of the one before", "acknowledges before it commits, and is killed", "acknowledges a number never sent",
		"takes an acknowledgement back", "refuses after it acknowledged", "forgets in a Welcome",
	} {
		t.Run(mutant, func(t *testing.T) {
			struck := 0
			for seed := range uint64(60) {
				b, s := script(t, seed, mutant)
				if s.struck {
					struck++
				}
				if b.OK() == s.struck {
					t.Fatalf("seed %d: struck %t, %+v", seed, s.struck, b)
				}
				if s.struck && (b.Imbalances == 0 || b.Examples[0].Name == "" || b.Examples[0].Number == 0) {
					t.Fatalf("seed %d: no example that names node and number: %+v", seed, b)
				}
			}
			if struck < 30 {
				t.Errorf("only %d of 60 scripts struck", struck)
			}
		})
	}
}

// TestEntryIsSmall limits the memory of ledger entries, because a process may have 1.5 million of them.
func TestEntryIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(observe.Entry{}); size > 20 {
		t.Errorf("%d bytes per state, at most 20", size)
	}
	if size := unsafe.Sizeof(sign{}); size > 24 {
		t.Errorf("%d bytes per signal on its way, at most 24", size)
	}
}
