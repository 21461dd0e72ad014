package rudder

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// The first inventory of a node brings its key (trust on first use): the server keeps it as a fact of the node, in the same commit that
// makes the node. The first sender of an inventory, from an address that a namespace allows, becomes the node. Later inventories and runs
// have to be signed by this key; muster delete node NAME lets the node bring another one.

// keyFact is the fact that holds the node's public key, in base64.
const keyFact = "rudderKey"

// stream is the stream of the numbers that the server gives to signals of agents of Rudder.
const stream wire.StreamID = 0x7275646465720001

// nodes has the state of each node whose Rudder agent has sent files since the server's start.
type nodes struct {
	mu   sync.Mutex
	byID map[model.NodeID]*node
}

// node is the state of one node with an agent of Rudder.
type node struct {
	mu       sync.Mutex // held while a request of the node is handled, so that its signals stay in order
	core     core.Node
	uid      uuid.UUID
	session  uint64           // in the journal's marks
	written  journal.Position // of its last signals
	lastRun  time.Time        // start of its last run that counted
	lastMade time.Time        // when its last inventory was made

	// Guarded by nodes.mu.
	state        core.Agent
	lastRunStart time.Time // start of the last run that proved the agent alive
	limit        time.Duration
}

// get returns the state of a node with a Rudder agent, and creates a missing state.
func (x *nodes) get(info *intent.NodeInfo) *node {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.byID[info.ID]
	if n == nil {
		if x.byID == nil {
			x.byID = map[model.NodeID]*node{}
		}
		n = &node{session: rand.Uint64()}
		x.byID[info.ID] = n
	}
	return n
}

// lockNode locks the state of a node, and refreshes its name and keepalive times from the node directory. It
// creates a missing state. The caller unlocks n.mu.
func (s *Server) lockNode(info *intent.NodeInfo) *node {
	n := s.nodes.get(info)
	n.mu.Lock()
	if n.lastMade.IsZero() {
		text, _ := s.cfg.Nodes.Node(info.ID).Facts.Get(model.RudderInventoryFact)
		n.lastMade, _ = time.Parse(time.RFC3339, text) // no time: no inventory came
	}
	timeout := info.Timeout
	if timeout == 0 {
		timeout = s.interval(info.ID) + policy.Grace
	}
	n.uid, n.core = info.UID, core.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Warning: info.Warning, EveryKeepalive: info.Every,
		Keepalive: min(max(info.Interval, time.Minute), timeout), Timeout: timeout}
	return n
}

// interval returns the longest run interval among the directives of a node with a Rudder agent.
func (s *Server) interval(id model.NodeID) time.Duration {
	interval := time.Duration(model.DefaultPolicyInterval)
	for _, d := range s.directives(id) {
		interval = max(interval, d.Interval)
	}
	return interval
}

// directives returns the directives of a node that Rudder's agents run.
func (s *Server) directives(id model.NodeID) (list []*model.DirectiveDefinition) {
	a := s.cfg.Nodes.AssignmentOf(id)
	if a == nil {
		return nil
	}
	for _, definition := range a.Definitions {
		if d := definition.AsDirective(); d != nil && d.Rudder != "" {
			list = append(list, d)
		}
	}
	return list
}

// Connected reports whether a node's Rudder agent has sent its latest run before the keepalive time-out.
func (s *Server) Connected(id model.NodeID) bool {
	_, ok := s.Agent(id)
	return ok
}

// Agent describes the Rudder agent of a node. ok is false if it has sent no run in time.
func (s *Server) Agent(id model.NodeID) (state core.Agent, ok bool) {
	s.nodes.mu.Lock()
	n := s.nodes.byID[id]
	if ok = n != nil && s.cfg.Now().Sub(n.lastRunStart) < n.limit; ok {
		state = n.state
	}
	s.nodes.mu.Unlock()
	if ok {
		state.SetAssignment(s.cfg.Nodes.AssignmentOf(id), func(d *model.Definition) bool { return d.AsDirective() == nil || d.AsDirective().Rudder == "" },
			"an agent of Rudder runs only the directives of Rudder")
	}
	return state, ok
}

// Sessions returns how many Rudder agents have sent their latest run before their keepalive time-outs.
func (s *Server) Sessions() (count int) {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	for _, n := range s.nodes.byID {
		if s.cfg.Now().Sub(n.lastRunStart) < n.limit {
			count++
		}
	}
	return count
}

// recordRun records a run of a node's agent, as proof that the agent is alive. The caller holds n.mu.
func (s *Server) recordRun(n *node, start time.Time, from netip.Addr) {
	version, _ := s.cfg.Nodes.Node(n.core.ID).Facts.Get("agentVersion")
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	n.lastRunStart, n.limit = start, n.core.Timeout
	if n.state.Since.IsZero() {
		n.state.Since = start
	}
	n.state.Confirmed, n.state.Address, n.state.Version = true, from.String(), version
}

// findNode returns the node with a Rudder id, and the stored key for verifying its agent's signatures. The node
// is in one of the namespaces that allow the address of the sender.
func (s *Server) findNode(namespaces []string, id string) (info intent.NodeInfo, key *agentKey, err error) {
	for _, namespace := range namespaces {
		m := &intent.ExternalAgent{System: system, Namespace: namespace, ID: id}
		found, ok := s.cfg.Intent.LookupNode(m.UID())
		if !ok {
			continue
		}
		if key, err = s.keyOf(&found); err != nil {
			return info, nil, err
		}
		return found, key, nil
	}
	return info, nil, nil
}

// keyOf returns the stored public key of a node, which verifies its agent's signatures.
func (s *Server) keyOf(info *intent.NodeInfo) (*agentKey, error) {
	text, ok := s.cfg.Nodes.Node(info.ID).Facts.Get(keyFact)
	if !ok {
		return nil, model.Errorf(model.Unavailable, "the key of node %s is not known yet", info.Name).
			WithHint("send it again; if the error stays: muster delete node %s -n %s, and on the node: rudder agent inventory", info.Name, info.Namespace)
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("the stored key of node %s: %w", info.Name, err)
	}
	return keyFromDER(der)
}

// register returns the node whose agent sent an inventory, and creates the node of an unknown machine. It
// creates the node if the machine is unknown, with the key in the inventory.
func (s *Server) register(ctx context.Context, namespaces []string, m *machineInventory, from netip.Addr) (intent.NodeInfo, error) {
	info, key, err := s.findNode(namespaces, m.node)
	if err != nil {
		return info, err
	}
	m.facts[keyFact] = base64.StdEncoding.EncodeToString(m.key.der)
	report := intent.AgentReport{Facts: m.facts}
	if key != nil {
		if !key.Equal(m.key.PublicKey) {
			return info, wrongKeyError(&info, "the inventory has another key than the first one of the node")
		}
		return info, nil
	}
	if len(namespaces) > 1 {
		return info, model.Errorf(model.Conflict, "the namespaces %s all allow this address, so the namespace of %s is ambiguous", strings.Join(namespaces, ", "), m).
			WithHint("let one of them name the address in spec.rudderFrom")
	}
	external := &intent.ExternalAgent{System: system, ID: m.node, Namespace: namespaces[0], Name: m.name, AgentReport: report}
	info, err = s.cfg.Intent.RegisterExternal(ctx, intent.Actor{User: system, Address: from.String(), Message: "its agent of Rudder sent its first inventory"}, external)
	if err != nil {
		return info, err
	}
	return info, s.cfg.Nodes.CatchUp(ctx) // its runs follow, and need the key
}

// wrongKeyError returns the error for a file that is not signed by the node's stored key.
func wrongKeyError(info *intent.NodeInfo, text string) error {
	return model.Errorf(model.Forbidden, "the upload of node %s is not trusted: %s", info.Name, text).
		WithHint("if its agent has a new key: muster delete node %s -n %s, and on the node: rudder agent inventory", info.Name, info.Namespace)
}

// writeSignals appends numbered messages about a node (results or inventory changes) to the journal. The entry before comes
// first, unless it is nil. It returns when all are durable. The caller holds n.mu and has called lastNumber.
func (s *Server) writeSignals(ctx context.Context, n *node, key wire.StreamKey, last uint64, signals []wire.Signal, before []byte) error {
	section := core.SectionOf(n.uid)
	var entries []journal.Entry
	if before != nil {
		entries = append(entries, journal.Entry{Section: section, Data: before})
	}
	now := uint64(s.cfg.Now().UnixMilli())
	for i := range signals {
		batch := &wire.Batch{StreamKey: key, First: last + 1 + uint64(i), NowMs: now, Signals: signals[i : i+1]}
		entries = append(entries, core.BatchEntry(section, n.core.ID, batch))
	}
	if len(entries) == 0 {
		return nil
	}
	var stall *time.Time
	if s.cfg.Stalled != nil {
		stall = s.cfg.Stalled()
	}
	for i := range entries {
		entries[i].Aged, entries[i].Stall = true, stall
	}
	at, err := core.AppendDurably(ctx, s.cfg.Journal, entries)
	if err != nil {
		return model.Errorf(model.Unavailable, "cannot write to the journal: %w", err).WithHint("send it again; muster status has the reason")
	}
	n.written = at
	return nil
}

// lastNumber returns the last sequence number of a node's message stream, once the server has applied earlier
// messages. The caller holds n.mu.
func (s *Server) lastNumber(ctx context.Context, n *node, key wire.StreamKey) (uint64, error) {
	list, err := s.cfg.View.LastNumbers(ctx, n.core.ID, n.written)
	if err != nil {
		return 0, model.Errorf(model.Unavailable, "the server cannot read the last sequence number of node %s now: %w", n.core.Name, err).WithHint("send it again")
	}
	for _, l := range list {
		if l.StreamKey == key {
			return l.Last, nil
		}
	}
	return 0, nil
}
