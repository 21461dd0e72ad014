package zabbix

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// An agent has a connection per request. All its requests make one session. Each request for active checks and each heartbeat
// writes the session's beginning to the journal: the agent's keepalive, beside its values. An agent numbers its values in each
// run of the program. The journal has them as signals with these numbers, in a stream of this run: values that an agent sends again
// count once, also after a kill of the server.

// agentStates holds, by node, the state of each Zabbix agent that has sent a request.
type agentStates struct {
	mu     sync.Mutex
	byNode map[model.NodeID]*agent
}

// agent is the state of one Zabbix agent, with its last request time and value sequence numbers.
type agent struct {
	mu             sync.Mutex // held while a request of the agent is handled, so that values stay in order
	session        uint64     // in the journal's marks
	sessionStart   journal.Position
	written        journal.Position // commit of its last values
	startedAt      time.Time        // of the last session start in the journal
	node           core.Node
	uid            uuid.UUID
	heartbeat      time.Duration            // interval of its heartbeats; zero: it sends none
	numbers        map[wire.StreamID]uint64 // last number of each run of the program
	discoveredKeys map[uint64]string        // keys of the discovered items that it collects, by number

	// Guarded by agents.mu.
	state       core.Agent
	lastRequest time.Time
	timeout     time.Duration
}

// defaultRefresh is the interval at which agents of Zabbix 6.0 ask for active checks.
const defaultRefresh = 2 * time.Minute

// Agent describes the Zabbix agent of a node. ok is false if it sent no request within its time-out.
func (s *Server) Agent(node model.NodeID) (state core.Agent, ok bool) {
	s.agents.mu.Lock()
	a := s.agents.byNode[node]
	if ok = a != nil && s.cfg.Now().Sub(a.lastRequest) < a.timeout; ok {
		state = a.state
	}
	s.agents.mu.Unlock()
	if ok {
		state.SetAssignment(s.cfg.Nodes.AssignmentOf(node), func(d *model.Definition) bool { return d.AsCheck() != nil }, "an agent of Zabbix runs no checks, it collects items")
	}
	return state, ok
}

// Connected reports whether the agent of a node sent a request within its time-out.
func (s *Server) Connected(node model.NodeID) bool {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	a := s.agents.byNode[node]
	return a != nil && s.cfg.Now().Sub(a.lastRequest) < a.timeout
}

// Sessions returns the number of agents that sent a request within their time-outs.
func (s *Server) Sessions() (n int) {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	for _, a := range s.agents.byNode {
		if s.cfg.Now().Sub(a.lastRequest) < a.timeout {
			n++
		}
	}
	return n
}

// lockAgent finds the state of the agent that sent a request, and locks the state. An agent whose address a namespace
// allows gets a node if it has none, within the limit of nodes of the namespace.
func (s *Server) lockAgent(ctx context.Context, p *peer, r *request, host string) (*agent, error) {
	m := &intent.ExternalAgent{System: system, Name: host, AgentReport: intent.AgentReport{Facts: factsOf(r)}}
	err := s.chooseNamespace(p.namespaces, m)
	if err == nil {
		err = s.checkHost(p, m.Namespace, host)
	}
	if err != nil {
		return nil, err
	}
	_, known := s.cfg.Intent.LookupNode(m.UID())
	info, err := s.cfg.Intent.RegisterExternal(ctx, intent.Actor{User: system, Address: p.address.String(), Message: "its Zabbix agent connected"}, m)
	if err == nil && !known {
		err = s.cfg.Nodes.CatchUp(ctx) // the agent asks again after minutes
	}
	if err != nil {
		return nil, err
	}
	if r.Request == "active checks" {
		s.cfg.Intent.RecordReport(info, m.AgentReport)
	}
	a := s.agents.get(info.ID)
	a.mu.Lock()
	if r.HeartbeatFreq > 0 {
		a.heartbeat = time.Duration(min(r.HeartbeatFreq, 3600)) * time.Second
	}
	interval := cmp.Or(a.heartbeat, defaultRefresh)
	a.uid, a.node = info.UID, core.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Warning: info.Warning, EveryKeepalive: info.Every,
		Keepalive: cmp.Or(info.Interval, interval), Timeout: cmp.Or(info.Timeout, interval*5/2)}
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	a.lastRequest, a.timeout = s.cfg.Now(), a.node.Timeout
	if a.state.Since.IsZero() {
		a.state.Since = a.lastRequest
	}
	a.state.Confirmed, a.state.Address, a.state.Version = true, p.address.String(), m.AgentReport.Facts["agentVersion"]
	return a, nil
}

// get returns the state of the agent of a node, and creates a missing one.
func (x *agentStates) get(node model.NodeID) *agent {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.byNode[node]
	if a == nil {
		if x.byNode == nil {
			x.byNode = map[model.NodeID]*agent{}
		}
		a = &agent{session: rand.Uint64(), numbers: map[wire.StreamID]uint64{}}
		x.byNode[node] = a
	}
	return a
}

// agentName begins the fact agentVersion.
const agentName = "Zabbix agent"

// factsOf returns the facts about the agent's machine that a request contains.
func factsOf(r *request) map[string]string {
	version := agentName + " " + r.Version
	if r.Variant == 2 {
		version = agentName + " 2 " + r.Version
	}
	facts := map[string]string{"agentVersion": strings.TrimSpace(version)}
	if r.HostMetadata != "" {
		facts["hostMetadata"] = r.HostMetadata
	}
	return facts
}

// chooseNamespace decides in which of the allowed namespaces an agent has its node. It is the one with the agent's
// node, or else the only one that allows its address.
func (s *Server) chooseNamespace(namespaces []string, m *intent.ExternalAgent) error {
	name := model.CleanName(m.Name)
	if name == "" || len(m.Name) > model.MaxName {
		return model.Errorf(model.Invalid, "the host name %q is not a valid node name", model.Truncate(m.Name, 100)).WithHint("Hostname=NAME in the agent's configuration")
	}
	var own []string
	taken := ""
	for _, m.Namespace = range namespaces {
		if _, ok := s.cfg.Intent.LookupNode(m.UID()); ok {
			own = append(own, m.Namespace)
		} else if id, ok := s.cfg.Nodes.NodeByName(m.Namespace, name); ok {
			if n := s.cfg.Nodes.Node(id); id == model.ServerNode || n.Proxy || n.UID != uuid.Nil {
				taken = m.Namespace
			} else {
				own = append(own, m.Namespace)
			}
		}
	}
	switch {
	case len(own) == 1:
		m.Namespace = own[0]
	case len(own) == 0 && taken != "":
		return model.Errorf(model.Conflict, "node %s/%s has another agent, or is a proxy node", taken, name).
			WithHint("Hostname=NAME in the agent's configuration, or muster node retire %s", name)
	case len(own) > 1 || len(namespaces) > 1:
		return model.Errorf(model.Conflict, "the namespaces %s all allow this address, so the namespace of host %s is ambiguous", strings.Join(namespaces, ", "), name).
			WithHint("apply a Node %s in one of them", name)
	}
	return nil
}

// minSessionInterval is the least interval of an agent's session starts in the journal. Zabbix agents send a heartbeat
// at most once a second.
const minSessionInterval = 500 * time.Millisecond

// writeSessionStart writes a session start to the journal, as proof that the agent is alive. The record counts
// as a keepalive; further ones within minSessionInterval are left out. The caller holds a.mu.
func (s *Server) writeSessionStart(ctx context.Context, a *agent) (err error) {
	now := s.cfg.Now()
	if since := now.Sub(a.startedAt); a.sessionStart != (journal.Position{}) && since >= 0 && since < minSessionInterval {
		return nil
	}
	a.sessionStart, err = core.AppendDurably(ctx, s.cfg.Journal, []journal.Entry{{Section: core.SectionOf(a.uid), Data: a.node.EncodeSessionRecord(wire.SessionRecord{Session: a.session, Start: true})}})
	if err != nil {
		return model.Errorf(model.Unavailable, "cannot write to the journal: %w", err).WithHint("muster status has the reason")
	}
	a.startedAt = now
	return nil
}

// handleHeartbeat handles an agent's heartbeat request, a sign of life without values. It has no answer.
func (s *Server) handleHeartbeat(ctx context.Context, p *peer, r *request) (*reply, error) {
	a, err := s.lockAgent(ctx, p, r, r.Host)
	if err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	return nil, s.writeSessionStart(ctx, a)
}

// activeCheck is one item that an agent is asked to collect.
type activeCheck struct {
	Key         string `json:"key"`
	ItemID      uint64 `json:"itemid,omitempty"`
	Delay       any    `json:"delay"`
	LastLogSize uint64 `json:"lastlogsize"`
	MTime       uint64 `json:"mtime"`
	Timeout     string `json:"timeout,omitempty"`
}

// answerActiveChecks answers a request for active checks with the items that the agent must collect. The items are in
// the node's Templates. A log has the position behind the last line that the server has; an agent reads it when it starts.
func (s *Server) answerActiveChecks(ctx context.Context, p *peer, r *request) (*reply, error) {
	a, err := s.lockAgent(ctx, p, r, r.Host)
	if err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	if err := s.writeSessionStart(ctx, a); err != nil {
		return nil, err
	}
	after := a.written
	if after == (journal.Position{}) {
		after = a.sessionStart // behind all values of a former run of the server
	}
	positions, err := s.cfg.LogPositions(ctx, a.node.ID, after)
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "the server cannot read the positions in logs now: %w", err)
	}
	list := []activeCheck{}
	polled := s.cfg.Nodes.Node(a.node.ID).ZabbixAgent != nil
	a.discoveredKeys = s.discoveredByNumber(a.node.ID)
	for _, one := range s.collectedItems(a.node.ID, a.discoveredKeys, func(key string) bool { return !polled || isLogKey(key) }) {
		seconds, number := max(int(one.schedule.Period()/time.Second), 1), itemNumber(one.key)
		c := activeCheck{Key: one.key, Delay: seconds, LastLogSize: positions[number].Size, MTime: positions[number].MTime}
		if r.Version != "" { // of an agent that names items by number, and follows custom intervals
			c.ItemID, c.Delay, c.Timeout = number, fmt.Sprintf("%ds", seconds), "3s"
			if one.schedule.IsCustom() {
				c.Delay = string(one.interval)
			}
		}
		list = append(list, c)
	}
	return &reply{Response: "success", Data: &list}, nil
}

// isLogKey reports whether an item key makes the agent follow a log. Only an active agent does that.
func isLogKey(key string) bool {
	name, _, _ := strings.Cut(key, "[")
	return slices.Contains([]string{"log", "logrt", "log.count", "logrt.count", "eventlog", "eventlog.count"}, name)
}

// itemNumber returns the number that stands for an item key in messages to and from the agent.
func itemNumber(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.LittleEndian.Uint64(sum[:])>>1 | 1
}

// maxNumber is the highest number of a value.
const maxNumber = 1 << 62

// maxRuns limits the remembered runs of an agent's program, because the event view knows all.
const maxRuns = 8

// storeAgentData writes the values in an agent's request to the journal. An agent keeps the values of a failed
// request.
func (s *Server) storeAgentData(ctx context.Context, p *peer, r *request, size int) (*reply, error) {
	host := r.Host
	if host == "" && len(r.Data) > 0 {
		host = strings.Clone(r.Data[0].Host) // agents before 4.4 name it with each value, and so does the C agent of 6.0
	}
	now := s.cfg.Now()
	if err := s.awaitCapacity(ctx, len(r.Data)); err != nil { // heartbeats need the lock
		return nil, err
	}
	a, err := s.lockAgent(ctx, p, r, host)
	if err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	if a.sessionStart == (journal.Position{}) {
		if err := s.writeSessionStart(ctx, a); err != nil {
			return nil, err
		}
	}
	if r.Session == "" {
		return nil, model.Errorf(model.Invalid, "the request names no session: agents before Zabbix 4.0 cannot connect")
	}
	sum := sha256.Sum256([]byte(r.Session))
	stream := wire.StreamKey{Stream: wire.StreamID(binary.LittleEndian.Uint64(sum[:])), Lane: wire.Live}
	last, ok := a.numbers[stream.Stream]
	if !ok {
		list, err := s.cfg.View.LastNumbers(ctx, a.node.ID, a.sessionStart)
		if err != nil {
			return nil, model.Errorf(model.Unavailable, "the server cannot read the agent's last sequence number now: %w", err)
		}
		if i := slices.IndexFunc(list, func(l wire.StreamLast) bool { return l.StreamKey == stream }); i >= 0 {
			last = list[i].Last
		}
	}
	var budget core.Budget
	budget.Open(s.cfg.Limiter, &a.node)
	if debt := budget.Debt(core.LoadValues, core.LoadBytes, core.LoadSteps); debt.Wait > maxDelay {
		budget.Exceed(&debt)
		return nil, model.Errorf(model.Limited, "%s", debt.Reason())
	}
	b := &agentBatch{valueBatch: valueBatch{srv: s, now: now}, agent: a, host: host, last: last}
	b.batch.StreamKey = stream
	b.ownNode.Node, b.ownNode.uid, b.ownNode.blocks = a.node, a.uid, map[itemLocation]*valueBlock{}
	if assignment := s.cfg.Nodes.AssignmentOf(a.node.ID); assignment != nil {
		b.ownNode.items = s.items.forAssignment(assignment)
	}
	for i := range r.Data {
		if out := b.add(&r.Data[i], i); out != kept {
			b.countRefused(out, 1, host, r.Data[i].Key)
		}
	}
	b.flush()
	at, err := b.appendEntries(ctx, append(b.entries, b.ownNode.entries()...), len(r.Data)-b.failed)
	if err != nil {
		return nil, err
	}
	if at != (journal.Position{}) {
		a.written = at
	}
	if len(a.numbers) >= maxRuns {
		clear(a.numbers)
	}
	a.numbers[stream.Stream] = b.last
	budget.Spend(&core.TrafficCost{core.LoadValues: len(r.Data), core.LoadBytes: size})
	return b.answer(len(r.Data)), nil
}

// agentBatch collects the values of one agent request for the journal, with the agent's sequence numbers.
type agentBatch struct {
	valueBatch
	agent          *agent
	host           string
	readDiscovered bool      // this request has read agent.found
	ownNode        valueNode // its blocks have values of a key that a second Template of the node has, too
	batch          wire.Batch
	last           uint64 // number in the stream
	entries        []journal.Entry
}

// add adds the value at index i of the request to the batch, or refuses the value. A value that is refused leaves a
// keepalive with its number.
func (b *agentBatch) add(r *row, i int) outcome {
	switch {
	case r.ID == 0 || r.ID > maxNumber || r.Host != "" && r.Host != b.host:
		return notNumbered
	case r.ID <= b.last:
		return repeated
	}
	if b.last > 0 && r.ID > b.last+1 {
		b.flush()
		b.appendBatch(&wire.Batch{StreamKey: b.batch.StreamKey, First: b.last + 1, Gap: &wire.Gap{Last: r.ID - 1, Reason: "the agent's buffer was full"}})
	}
	if len(b.batch.Signals) == 0 {
		b.batch.First = r.ID
	}
	b.last = r.ID
	signal, out := b.toSignal(r, i)
	if b.batch.Signals = append(b.batch.Signals, signal); len(b.batch.Signals) == wire.MaxSignals {
		b.flush()
	}
	return out
}

// toSignal converts the value at index i of the request to a signal (numbered message) for the journal. A row of a log without a value
// that can be stored still has its position.
func (b *agentBatch) toSignal(r *row, i int) (wire.Signal, outcome) {
	empty := wire.Signal{Kind: wire.SignalKeepalive}
	of := b.ownNode.items.byKey[r.Key]
	if r.Key == "" {
		of = b.ownNode.items.byNumber[r.ItemID]
	}
	if of == nil {
		of = b.findDiscoveredItem(r)
	}
	switch {
	case of == nil:
		return empty, unknownKey
	case of.trapper:
		return empty, trapperItem
	}
	log := logPositionOf(r)
	if log.Item != 0 {
		empty = wire.Signal{Kind: wire.SignalValueBlock, Definition: of.places[0].definition, Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Log: log})}
	}
	switch {
	case r.Value == nil:
		return empty, kept
	case len(*r.Value) > b.srv.cfg.Limits.ValueBytes:
		return empty, tooLong
	}
	at, ok := b.timeOf(r, i)
	if !ok {
		return empty, wrongTime
	}
	v := wire.BlockValue{Value: item.FromText(string(*r.Value)), Unsupported: r.State == 1}
	for _, place := range of.places[1:] {
		b.ownNode.add(place, at, v)
	}
	place := of.places[0]
	block := valueBlock{times: []int64{at}, log: log}
	if place.key != "" {
		block.keys = []string{place.key}
	}
	v.Position, place.position, place.key = place.position, 0, ""
	block.place, block.values = place, []wire.BlockValue{v}
	return block.signal(), kept
}

// logPositionOf returns the position in a log that a row of an agent has, or none.
func logPositionOf(r *row) (p wire.LogPosition) {
	if r.LastLogSize == nil {
		return p
	}
	p = wire.LogPosition{Item: r.ItemID, Size: *r.LastLogSize, MTime: uint64(max(r.MTime, 0))}
	if r.Key != "" {
		p.Item = itemNumber(r.Key)
	}
	return p
}

// findDiscoveredItem returns the discovered item to which a value of the agent belongs, or nil. Discovery rules
// made the items on the agent's node. After a start of the server the numbers of an agent's items are unknown
// until the first value of one of them.
func (b *agentBatch) findDiscoveredItem(r *row) *nodeItem {
	key := r.Key
	if key == "" {
		if key = b.agent.discoveredKeys[r.ItemID]; key == "" && !b.readDiscovered {
			b.readDiscovered, b.agent.discoveredKeys = true, b.srv.discoveredByNumber(b.agent.node.ID)
			key = b.agent.discoveredKeys[r.ItemID]
		}
	}
	if key == "" {
		return nil
	}
	return b.srv.discoveredItem(b.agent.node.ID, key)
}

// flush appends the current batch to the journal entries of the request. The next value starts a new batch.
func (b *agentBatch) flush() {
	if len(b.batch.Signals) > 0 {
		b.appendBatch(&b.batch)
		b.batch.Signals = nil
	}
}

// appendBatch appends a batch as one entry for the journal.
func (b *agentBatch) appendBatch(batch *wire.Batch) {
	b.entries = append(b.entries, core.BatchEntry(core.SectionOf(b.agent.uid), b.agent.node.ID, batch))
}
