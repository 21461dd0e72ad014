package zabbix

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// maxAhead limits how far in the future the time of a value may be.
const maxAhead = 10 * time.Minute

// blockBytes limits the values of one block in bytes, beside the last value.
const blockBytes = 256 << 10

// valueBatch collects the values of one sender request, by node and by Template.
type valueBatch struct {
	srv      *Server
	peer     *peer
	now      time.Time
	nodes    map[string]*valueNode // by the name of the host
	order    []*valueNode
	lastHost string // of the last value
	lastNode *valueNode
	failed   int
	first    string // the first refused value, with the reason; empty: none
}

// valueNode has the values of one request for one node.
type valueNode struct {
	core.Node
	uid    uuid.UUID
	items  itemIndex
	out    outcome // kept, or the reason why the host has no node that takes values
	values int
	blocks map[itemLocation]*valueBlock // by Template: the position is zero
	last   *valueBlock                  // of the last value
	full   []*valueBlock
}

// valueBlock collects values of one Template on one node, as a block for the journal.
type valueBlock struct {
	place  itemLocation // without position and key
	keys   []string     // of discovered items
	keyAt  map[string]int
	times  []int64 // ns since 1970
	values []wire.BlockValue
	bytes  int
	log    wire.LogPosition
}

// storeSenderData writes the values of a zabbix_sender request to the journal, and answers with their number.
// It counts accepted values. The answer leaves when they are durable.
func (s *Server) storeSenderData(ctx context.Context, p *peer, r *request, size int) (*reply, error) {
	b := &valueBatch{srv: s, peer: p, now: s.cfg.Now(), nodes: map[string]*valueNode{}}
	if err := s.awaitCapacity(ctx, len(r.Data)); err != nil {
		return nil, err
	}
	for i := range r.Data {
		if out := b.add(ctx, &r.Data[i], i); out != kept {
			b.countRefused(out, 1, r.Data[i].Host, r.Data[i].Key)
		}
	}
	debt := b.applyRateLimits(size)
	if err := b.write(ctx); err != nil {
		return nil, err
	}
	_ = pause.For(ctx, min(debt, maxDelay)) // a sender sends its next values when it has the answer
	return b.answer(len(r.Data)), nil
}

// awaitCapacity waits while the server is overloaded, and counts the values as refused if the wait fails. It counts the
// values after a refusal.
func (s *Server) awaitCapacity(ctx context.Context, values int) error {
	err := s.cfg.Pressures.Wait(ctx, core.SlowValuesAt)
	if err != nil {
		s.metrics.values[notJournaled].Add(float64(values))
	}
	return err
}

// answer returns the answer for zabbix_sender, with the numbers of accepted and refused values. The text has the form
// that zabbix_sender parses.
func (b *valueBatch) answer(total int) *reply {
	info := fmt.Sprintf("processed: %d; failed: %d; total: %d; seconds spent: %.6f", total-b.failed, b.failed, total, b.srv.cfg.Now().Sub(b.now).Seconds())
	if b.first != "" {
		info += "; first failed: " + b.first
	}
	return &reply{Response: "success", Info: info}
}

// countRefused counts n values as refused for a reason. It keeps a text about the first refused value for the answer.
func (b *valueBatch) countRefused(out outcome, n int, host, key string) {
	b.srv.count(out, n, host, key)
	if b.failed += n; b.first == "" {
		b.first = failedText(out, host, key)
	}
}

// add adds a value of the request, if the node has a trapper item with its key.
func (b *valueBatch) add(ctx context.Context, r *row, i int) outcome {
	n := b.lastNode
	if n == nil || r.Host != b.lastHost {
		if n = b.nodes[r.Host]; n == nil {
			n = b.srv.findNode(ctx, b.peer, strings.Clone(r.Host))
			if b.nodes[r.Host] = n; n.out == kept {
				b.order = append(b.order, n)
			}
		}
		b.lastHost, b.lastNode = r.Host, n
	}
	if n.out != kept {
		return n.out
	}
	of := n.items.byKey[r.Key]
	if of == nil {
		of = b.srv.discoveredItem(n.ID, r.Key)
	}
	switch {
	case of == nil && !n.items.others[r.Key]:
		return unknownKey
	case of == nil || !of.trapper:
		return otherItem
	case r.Value == nil:
		return noValue
	case len(*r.Value) > b.srv.cfg.Limits.ValueBytes:
		return tooLong
	}
	at, ok := b.timeOf(r, i)
	if !ok {
		return wrongTime
	}
	n.values++
	for _, place := range of.places {
		n.add(place, at, wire.BlockValue{Value: item.FromText(string(*r.Value))})
	}
	return kept
}

// timeOf returns the time of a value in ns since 1970. As in Zabbix, a value without nanoseconds gets its number in the request
// for them, so that times differ, and a value without a time gets the present one.
func (b *valueBatch) timeOf(r *row, i int) (at int64, ok bool) {
	switch ahead := b.now.Add(maxAhead); {
	case r.Clock == 0:
		return b.now.UnixNano() + int64(i), true
	case r.Clock < 0 || r.Clock > ahead.Unix() || r.NS < 0 || r.NS >= 1e9:
		return 0, false
	}
	return r.Clock*1e9 + cmp.Or(r.NS, int64(i)), true
}

// add adds a value of an item to the block of values for the item's Template.
func (n *valueNode) add(place itemLocation, at int64, v wire.BlockValue) {
	position, key := place.position, place.key
	place.position, place.key = 0, ""
	block := n.last
	if block == nil || block.place != place {
		block = n.blocks[place]
	}
	if block == nil || block.bytes >= blockBytes {
		if block != nil {
			n.full = append(n.full, block)
		}
		block = &valueBlock{place: place}
		n.blocks[place] = block
	}
	n.last = block
	if key != "" {
		at, known := block.keyAt[key]
		if !known {
			if block.keyAt == nil {
				block.keyAt = map[string]int{}
			}
			at, block.keys = len(block.keys), append(block.keys, key)
			block.keyAt[key] = at
			block.bytes += len(key)
		}
		position += uint32(at)
	}
	v.Position = position
	if len(block.times) == 0 || block.times[len(block.times)-1] != at {
		block.times = append(block.times, at)
	}
	v.Row = uint32(len(block.times) - 1)
	block.values = append(block.values, v)
	block.bytes += 16 + len(v.Value.String())
}

// signal converts the block of values to a signal (message) for the journal.
func (block *valueBlock) signal() wire.Signal {
	base := block.times[0]
	for i := range block.times {
		block.times[i] -= base
	}
	slices.SortStableFunc(block.values, func(x, y wire.BlockValue) int { return cmp.Compare(x.Position, y.Position) })
	return wire.Signal{Kind: wire.SignalValueBlock, Definition: block.place.definition, Body: wire.AppendValueBlock(nil, &wire.ValueBlock{
		Rows: uint32(len(block.values)), Columns: wire.AppendColumns(nil, block.times, block.values), Macros: block.place.macros, Keys: block.keys, UnixNs: uint64(base), Log: block.log,
	})}
}

// maxDelay limits the delay of an answer, by which a node at its limit slows its sender. A sender with more debt is
// refused.
const maxDelay = time.Second

// applyRateLimits counts values against the rate limits, and returns how long the sender must wait. Values of a node whose debt
// is longer than maxDelay are refused.
func (b *valueBatch) applyRateLimits(size int) (debt time.Duration) {
	total := 0
	for _, n := range b.order {
		total += n.values
	}
	for _, n := range b.order {
		if n.values == 0 {
			continue
		}
		var budget core.Budget
		budget.Open(b.srv.cfg.Limiter, &n.Node)
		if before := budget.Debt(core.LoadValues, core.LoadBytes, core.LoadSteps); before.Wait > maxDelay {
			budget.Exceed(&before)
			b.countRefused(overLimit, n.values, n.Name, "")
			n.values, n.blocks, n.full = 0, nil, nil
			continue
		}
		after := budget.Spend(&core.TrafficCost{core.LoadValues: n.values, core.LoadBytes: size * n.values / total})
		if debt = max(debt, after.Wait); after.Wait > 0 {
			budget.Hit(after.Limit(), after.Reason())
		}
	}
	return debt
}

// write appends all values to the journal in one durable commit.
func (b *valueBatch) write(ctx context.Context) error {
	var entries []journal.Entry
	values := 0
	for _, n := range b.order {
		values += n.values
		entries = append(entries, n.entries()...)
	}
	_, err := b.appendEntries(ctx, entries, values)
	return err
}

// entries converts the node's blocks of values to journal entries.
func (n *valueNode) entries() (entries []journal.Entry) {
	list := n.full
	for _, block := range n.blocks {
		list = append(list, block)
	}
	slices.SortStableFunc(list, func(x, y *valueBlock) int { return cmp.Compare(x.place.definition, y.place.definition) })
	for _, block := range list {
		signal := block.signal()
		entries = append(entries, journal.Entry{Section: core.SectionOf(n.uid), Signals: 1, Data: wire.AppendRecord(nil, &wire.Record{
			Kind: wire.RecordProxyResult, Node: n.ID, ProxyResult: &wire.ProxyResult{Namespace: n.Namespace, Signal: wire.AppendSignalMessage(nil, &signal)},
		})})
	}
	return entries
}

// appendEntries appends the entries of a request to the journal in one commit, and counts the accepted values.
func (b *valueBatch) appendEntries(ctx context.Context, entries []journal.Entry, values int) (at journal.Position, err error) {
	if len(entries) == 0 {
		return at, nil
	}
	if at, err = core.AppendDurably(ctx, b.srv.cfg.Journal, entries); err != nil {
		b.srv.metrics.values[notJournaled].Add(float64(values))
		return at, model.Errorf(model.Unavailable, "cannot write the values to the journal: %w", err).WithHint("send them again; muster status has the reason")
	}
	b.srv.metrics.values[kept].Add(float64(values))
	return at, nil
}

// findNode finds the node with a host name, in the namespaces of the sender. They allow the sender's address. A
// declared node that waits for its machine becomes a node of Zabbix. Refused hosts share a node for each reason, because a
// request may name 100,000 unknown ones.
func (s *Server) findNode(ctx context.Context, p *peer, host string) *valueNode {
	name, namespace, id := model.CleanName(host), "", model.NodeID(0)
	for _, ns := range p.namespaces {
		one, ok := s.cfg.Nodes.NodeByName(ns, name)
		if !ok || one == model.ServerNode {
			continue
		}
		if id != 0 {
			return &s.refusedHosts[ambiguousHost]
		}
		id, namespace = one, ns
	}
	if id == 0 {
		return &s.refusedHosts[unknownHost]
	}
	n := s.cfg.Nodes.Node(id)
	switch {
	case n.Proxy:
		return &s.refusedHosts[proxyHost]
	case s.cfg.CertificateRequired(namespace) && !p.proves(name):
		return &s.refusedHosts[unprovenHost]
	}
	found := &valueNode{out: kept, uid: n.UID, blocks: map[itemLocation]*valueBlock{}}
	if n.UID == uuid.Nil {
		info, err := s.cfg.Intent.RegisterExternal(ctx, intent.Actor{User: system, Message: "a Zabbix sender sent values of it"}, &intent.ExternalAgent{System: system, Namespace: namespace, Name: host})
		if err != nil || info.ID != id {
			s.logRefusal.Do(func() {
				s.cfg.Log.Warn("cannot give a declared node to Zabbix", "node", name, "namespace", namespace, "err", err)
			})
			return &s.refusedHosts[unknownHost]
		}
		found.uid = info.UID
	}
	found.Node.ID, found.Node.Name = id, name
	found.Node.Namespace, _ = s.cfg.Nodes.NamespaceByName(namespace)
	if a := s.cfg.Nodes.AssignmentOf(id); a != nil {
		found.items = s.items.forAssignment(a)
	}
	return found
}
