package zabbix

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// Keys that all agents know. Their answers prove an agent alive.
const (
	versionKey = "agent.version"
	variantKey = "agent.variant" // from Zabbix 6.0 on
)

// roundResult is the end of a round.
type roundResult struct {
	next time.Time // of the next round, without an error
	slow bool      // an item got no answer
	err  error     // the agent does not answer
}

// pollAgent polls the due items of an agent, and writes their values to the journal in one commit. An agent without due items is asked
// for its version, as a sign of life.
func (s *Server) pollAgent(ctx context.Context, a *polledAgent, at model.ZabbixAgent) (r roundResult) {
	began := s.cfg.Now()
	version := a.version
	if began.Before(a.last) { // somebody set the clock back
		a.last = began
	}
	info, err := s.registerPolled(ctx, a)
	if err != nil {
		return roundResult{err: err}
	}
	b := &valueBatch{srv: s, now: began}
	n := &valueNode{Node: polledNode(&info), uid: info.UID, blocks: map[itemLocation]*valueBlock{}}
	items := s.collectedItems(a.node, s.discoveredByNumber(a.node), func(key string) bool { return !isLogKey(key) })
	due, next := a.dueItems(info.UID, items, began, began.Add(n.Keepalive))
	if r.slow, r.err = s.pollItems(ctx, a, at, due, b, n); r.err == nil || n.values > 0 {
		if err := s.writeRound(ctx, b, n); err != nil {
			r.err = err
		}
	}
	s.setPolled(a, at, n, r.err == nil)
	if r.err == nil {
		if a.version != version {
			s.cfg.Intent.RecordReport(info, intent.AgentReport{Facts: map[string]string{"agentVersion": a.version}})
		}
		a.last, a.known, r.next = began, keysOf(items), next
	}
	return r
}

// polledNode returns the session data of a node whose agent is polled.
func polledNode(info *intent.NodeInfo) core.Node {
	interval := cmp.Or(info.Interval, min(contactInterval, cmp.Or(info.Timeout, time.Hour)*2/5))
	return core.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Warning: info.Warning, EveryKeepalive: info.Every,
		Keepalive: interval, Timeout: cmp.Or(info.Timeout, interval*5/2)}
}

// registerPolled returns the node of a polled agent. A declared node that waits for its machine becomes a node of Zabbix, and
// owes keepalives from then on.
func (s *Server) registerPolled(ctx context.Context, a *polledAgent) (info intent.NodeInfo, err error) {
	n := s.cfg.Nodes.Node(a.node)
	m := &intent.ExternalAgent{System: system, Namespace: n.Namespace, Name: n.Name.Name}
	if n.UID != uuid.Nil {
		version, _ := n.Facts.Get("agentVersion")
		info, ok := s.cfg.Intent.LookupNode(n.UID)
		switch {
		case n.UID != m.UID() && !strings.HasPrefix(version, agentName):
			return info, model.Errorf(model.Conflict, "the node has another agent").WithHint("remove spec.zabbixAgent of the node, or declare it at a node of its own")
		case !ok:
			return info, model.Errorf(model.Unavailable, "the node is being deleted")
		}
		return info, nil
	}
	if info, err = s.cfg.Intent.RegisterExternal(ctx, intent.Actor{User: system, Message: "its spec.zabbixAgent was declared"}, m); err != nil {
		return info, err
	}
	if info.ID != a.node {
		return info, model.Errorf(model.Conflict, "node %s/%s has the identity of this agent", info.Namespace, info.Name)
	}
	if err = s.cfg.Nodes.CatchUp(ctx); err != nil {
		return info, err
	}
	a.known = []string{} // all its items are due
	return info, s.writeRound(ctx, &valueBatch{srv: s, now: s.cfg.Now()}, &valueNode{Node: polledNode(&info), uid: info.UID})
}

// dueItems returns the items whose times have come since the last round, and new items. It also returns the time of the next round,
// at most the given time. Items of equal intervals are due together, at an offset of the node.
func (a *polledAgent) dueItems(uid uuid.UUID, items []collectedItem, now, next time.Time) (due []collectedItem, _ time.Time) {
	for _, one := range items {
		seed := uint64(when.Phase(uid, 0, cmp.Or(one.schedule.Interval, time.Hour)))
		first := one.schedule.Next(a.last, seed)
		_, known := slices.BinarySearch(a.known, one.key)
		if !first.IsZero() && !first.After(now) || !known && a.known != nil {
			due = append(due, one)
		}
		if at := one.schedule.Next(now, seed); !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return due, next
}

// keysOf returns the keys of items, in their order.
func keysOf(items []collectedItem) []string {
	keys := make([]string, len(items))
	for i := range items {
		keys[i] = items[i].key
	}
	return keys
}

// pollItems asks an agent for items, and adds their values to the block of the node. An item without an answer is unsupported if
// the agent still answers, else the round ends with an error.
func (s *Server) pollItems(ctx context.Context, a *polledAgent, at model.ZabbixAgent, due []collectedItem, b *valueBatch, n *valueNode) (slow bool, err error) {
	var budget core.Budget
	budget.Open(s.cfg.Limiter, &n.Node)
	if debt := budget.Debt(core.LoadValues, core.LoadBytes, core.LoadSteps); debt.Wait > maxDelay && len(due) > 0 {
		budget.Exceed(&debt)
		b.countRefused(overLimit, len(due), n.Name, "")
		due = nil
	}
	if a.failures > 0 || a.version == "" {
		a.version, a.plain = "", false
	}
	if a.version == "" || len(due) == 0 {
		if err := s.pollVersion(ctx, a, at); err != nil {
			return false, err
		}
	}
	if len(due) == 0 {
		return false, nil
	}
	if err := s.awaitCapacity(ctx, len(due)); err != nil {
		return false, err
	}
	size, row := 0, s.cfg.Now()
	for _, one := range due {
		answer, err := s.pollItem(ctx, a, at, one.key)
		if err != nil {
			if down := (unreachableError{}); errors.As(err, &down) || ctx.Err() != nil || s.pollVersion(ctx, a, at) != nil {
				return slow, err
			}
			if a.plain && errors.Is(err, errNoAnswer) {
				answer.none = true
			} else {
				answer.reason, slow = err.Error(), slow || model.ClassOf(err) != model.TooLarge
			}
		}
		if answer.none {
			continue
		}
		if now := s.cfg.Now(); now.Sub(row) >= time.Second { // values of one time are a row of the block
			row = now
		}
		v := wire.BlockValue{Value: item.FromText(answer.value)}
		if answer.reason != "" {
			v = wire.BlockValue{Value: item.FromText(answer.reason), Unsupported: true}
		}
		for _, place := range one.places {
			n.add(place, row.UnixNano(), v)
		}
		n.values++
		size += len(answer.value)
	}
	budget.Spend(&core.TrafficCost{core.LoadValues: n.values, core.LoadBytes: size})
	return slow, nil
}

// pollVersion asks an agent for the version of its program. An agent that is denied the key is alive, too.
func (s *Server) pollVersion(ctx context.Context, a *polledAgent, at model.ZabbixAgent) error {
	answer, err := s.pollItem(ctx, a, at, versionKey)
	if err != nil {
		return err
	}
	if a.version != "" {
		return nil
	}
	if a.version = answer.version; a.version == "" {
		r := request{Version: answer.value}
		if variant, err := s.pollItem(ctx, a, at, variantKey); err == nil && variant.value == "2" {
			r.Variant = 2
		}
		a.version = factsOf(&r)["agentVersion"]
	}
	return nil
}

// pollItem asks an agent for the value of an item, in the protocol that the agent understands.
func (s *Server) pollItem(ctx context.Context, a *polledAgent, at model.ZabbixAgent, key string) (answer passiveAnswer, err error) {
	answer, err = s.requestItem(ctx, at, key, a.plain)
	if errors.Is(err, errPlainAgent) {
		a.plain = true
		answer, err = s.requestItem(ctx, at, key, true)
	}
	if len(answer.value) > s.cfg.Limits.ValueBytes {
		answer.reason = reasons[tooLong]
	}
	out := pollValue
	switch {
	case err != nil:
		out = pollFailed
	case answer.reason != "":
		out = pollUnsupported
	case answer.none:
		out = pollNone
	}
	s.metrics.polls[out].Inc()
	return answer, err
}

// writeRound writes the values of a round to the journal. A session start before them is the agent's keepalive, twice in its interval
// at most.
func (s *Server) writeRound(ctx context.Context, b *valueBatch, n *valueNode) error {
	z := s.agents.get(n.ID)
	z.mu.Lock()
	defer z.mu.Unlock()
	entries := n.entries()
	started := b.now.Sub(z.startedAt).Abs() >= n.Keepalive/2
	if started {
		start := wire.SessionRecord{Session: z.session, Start: true}
		entries = append([]journal.Entry{{Section: core.SectionOf(n.uid), Data: n.EncodeSessionRecord(start)}}, entries...)
	}
	_, err := b.appendEntries(ctx, entries, n.values)
	if err == nil && started {
		z.startedAt = b.now
	}
	return err
}

// setPolled records for Agent whether a polled agent answers.
func (s *Server) setPolled(a *polledAgent, at model.ZabbixAgent, n *valueNode, answers bool) {
	z := s.agents.get(n.ID)
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	if !answers {
		z.lastRequest, z.state.Since = time.Time{}, time.Time{}
		return
	}
	z.lastRequest, z.timeout = s.cfg.Now(), n.Timeout
	if z.state.Since.IsZero() {
		z.state.Since = z.lastRequest
	}
	z.state.Confirmed, z.state.Address, z.state.Version = true, at.Endpoint(), a.version
}

// endPolledSession ends the session of an agent that the server no longer polls. The node owes no keepalive, as after a planned stop. An
// end without a start counts for nothing, and the journal may have the start of an earlier run of the server.
func (s *Server) endPolledSession(ctx context.Context, node model.NodeID) {
	n := s.cfg.Nodes.Node(node)
	namespace, ok := s.cfg.Nodes.NamespaceByName(n.Namespace)
	if n.UID == uuid.Nil || !ok {
		return
	}
	z := s.agents.get(node)
	z.mu.Lock()
	defer z.mu.Unlock()
	var entries []journal.Entry
	of := core.Node{ID: node, Namespace: namespace}
	for _, m := range []wire.SessionRecord{{Session: z.session, Start: true}, {Session: z.session, Clean: true}} {
		entries = append(entries, journal.Entry{Section: core.SectionOf(n.UID), Data: of.EncodeSessionRecord(m)})
	}
	if _, err := core.AppendDurably(ctx, s.cfg.Journal, entries); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("cannot end the session of an agent that is no longer polled", "node", n.Name.Name, "err", err)
	}
	z.startedAt = time.Time{}
	s.setPolled(&polledAgent{}, model.ZabbixAgent{}, &valueNode{Node: of}, false)
}
