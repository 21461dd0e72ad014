package intent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// nodeIndex answers for sessions, without SQL: after a restart every agent asks
// within seconds.
type nodeIndex struct {
	joining sync.Mutex // held while a machine that joins is written; before mu

	mu    sync.RWMutex
	byUID map[uuid.UUID]NodeInfo
	keys  map[Key]uuid.UUID
	byKey map[string]uuid.UUID // by the fingerprint of the machine's key
	seen  map[Key]seenNode     // said by agents and not written yet
	told  uint64               // how often something was noted there
	first map[Key]string       // keys of machines that had none on record, not written yet
	tombs tombs
}

// seenNode is what an agent said; a nil map: nothing that is taken.
type seenNode struct {
	facts, labels map[string]string
}

func newNodeIndex() nodeIndex {
	return nodeIndex{byUID: map[uuid.UUID]NodeInfo{}, keys: map[Key]uuid.UUID{}, byKey: map[string]uuid.UUID{},
		seen: map[Key]seenNode{}, first: map[Key]string{}, tombs: newTombs()}
}

func (x *nodeIndex) len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byUID)
}

func (x *nodeIndex) remove(key Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(x.keys[key])
	delete(x.keys, key)
	delete(x.seen, key)
	delete(x.first, key)
}

// forget takes a node out, with mu held.
func (x *nodeIndex) forget(uid uuid.UUID) {
	if info := x.byUID[uid]; x.byKey[info.Key] == uid {
		delete(x.byKey, info.Key)
	}
	delete(x.byUID, uid)
}

func (s *Service) tookNode(row Row) error {
	r, err := decode(row)
	if err != nil {
		return err
	}
	spec := r.Spec.(*model.NodeSpec)
	uid, err := uuid.Parse(spec.UID)
	if err != nil {
		return nil // declared, not enrolled yet
	}
	ns, _ := s.namespaceID(row.Namespace)
	info := NodeInfo{ID: model.NodeID(row.ID), UID: uid, Name: row.Name, Namespace: row.Namespace, NamespaceID: ns, Key: spec.Key,
		said: fingerprint(spec.Facts, spec.AgentLabels)}
	if spec.Keepalive != nil {
		info.Interval, info.Timeout = time.Duration(spec.Keepalive.Interval), time.Duration(spec.Keepalive.Timeout)
	}
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	if old, ok := s.nodes.keys[row.Key]; ok && old != uid {
		s.nodes.forget(old)
	}
	if info.Key == "" {
		info.Key = s.nodes.first[row.Key] // it is on its way into the row
	}
	s.nodes.forget(uid)
	s.nodes.byUID[uid], s.nodes.keys[row.Key] = info, uid
	if info.Key != "" {
		s.nodes.byKey[info.Key] = uid
	}
	return nil
}

// LookupNode finds a node by its immutable id, from memory.
func (s *Service) LookupNode(uid uuid.UUID) (NodeInfo, bool) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	info, ok := s.nodes.byUID[uid]
	return info, ok
}

// LookupKey finds the node of the machine that has a key, by its fingerprint, from memory.
func (s *Service) LookupKey(key string) (NodeInfo, bool) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	uid, ok := s.nodes.byKey[key]
	return s.nodes.byUID[uid], ok
}

// FirstKey puts the key of its machine on record for a node that has none: in memory at
// once, and Run writes it soon. It returns the key that is on record then.
func (s *Service) FirstKey(uid uuid.UUID, key string) string {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	info, ok := s.nodes.byUID[uid]
	if !ok || info.Key != "" {
		return info.Key
	}
	if _, taken := s.nodes.byKey[key]; taken {
		return ""
	}
	info.Key = key
	s.nodes.byUID[uid], s.nodes.byKey[key] = info, uid
	s.nodes.first[Key{"Node", info.Namespace, info.Name}] = key
	return key
}

// SeenNode notes what an agent said of itself; Run writes it soon, if it is new. A
// fleet that comes back with what it said before costs no look into the store. What is
// beyond a limit is not taken: limit (labels or facts) and reason say so.
func (s *Service) SeenNode(info NodeInfo, facts, labels map[string]string) (limit, reason string) {
	if facts == nil {
		facts = map[string]string{}
	}
	if labels == nil {
		labels = map[string]string{}
	}
	if reason = unsaidFacts(facts); reason != "" {
		limit, facts = "facts", nil
	}
	if why := s.unsaidLabels(info.Namespace, labels); why != "" {
		limit, reason, labels = "labels", why, nil
	}
	said := fingerprint(facts, labels)
	key := Key{"Node", info.Namespace, info.Name}
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	if on, ok := s.nodes.byUID[info.UID]; ok && on.said == said {
		delete(s.nodes.seen, key)
		return limit, reason
	}
	s.nodes.seen[key] = seenNode{facts, labels}
	s.nodes.told++
	return limit, reason
}

// fingerprint tells sets of facts and labels apart, whatever their order.
func fingerprint(facts, labels map[string]string) uint64 {
	sum := uint64(len(facts))<<32 | uint64(len(labels))
	for i, set := range []map[string]string{facts, labels} {
		for k, v := range set {
			d := xxhash.NewWithSeed(uint64(i))
			_, _ = d.WriteString(k)
			_, _ = d.WriteString("\x00")
			_, _ = d.WriteString(v)
			sum += d.Sum64()
		}
	}
	return sum
}

// Facts says of how many nodes, of all that enrolled, Run has still to write what their
// agents said, and how often there was something to write.
func (s *Service) Facts() (waiting, nodes int, ever uint64) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	return len(s.nodes.seen), len(s.nodes.byUID), s.nodes.told
}

// Run writes what agents said of themselves, many nodes in one transaction, until
// ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.writeSeen(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("facts of nodes could not be written; trying again", "err", err)
			}
		}
	}
}

// seenAtOnce bounds one transaction of facts.
const seenAtOnce = 2000

func (s *Service) writeSeen(ctx context.Context) error {
	for {
		seen, keys := s.unwritten()
		if len(seen)+len(keys) == 0 {
			return nil
		}
		all := maps.Clone(seen)
		for key := range keys {
			all[key] = seen[key]
		}
		var writes []Write
		for key, said := range all {
			write, ok, err := s.seenWrite(ctx, key, said, keys[key])
			if err != nil {
				return err
			}
			if ok {
				writes = append(writes, write)
			}
		}
		if len(writes) > 0 {
			if _, err := s.commit(ctx, server("facts from agents"), writes); err != nil {
				return err
			}
		}
		s.nodes.mu.Lock()
		for key, said := range seen {
			if now, ok := s.nodes.seen[key]; ok && maps.Equal(now.facts, said.facts) && maps.Equal(now.labels, said.labels) {
				delete(s.nodes.seen, key)
			}
		}
		for key := range keys {
			delete(s.nodes.first, key)
		}
		s.nodes.mu.Unlock()
	}
}

// unwritten is what one transaction may take of what agents said, and of first keys.
func (s *Service) unwritten() (seen map[Key]seenNode, keys map[Key]string) {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	seen, keys = map[Key]seenNode{}, map[Key]string{}
	for key, said := range s.nodes.seen {
		if seen[key] = said; len(seen) == seenAtOnce {
			break
		}
	}
	for key, machine := range s.nodes.first {
		if keys[key] = machine; len(keys) == seenAtOnce {
			break
		}
	}
	return seen, keys
}

// seenWrite is the node's row with what its agent said; ok is false where that is so already.
func (s *Service) seenWrite(ctx context.Context, key Key, seen seenNode, machine string) (w Write, ok bool, err error) {
	row, err := s.opts.Store.Get(ctx, key)
	if model.ClassOf(err) == model.NotFound {
		return w, false, nil
	}
	if err != nil {
		return w, false, err
	}
	r, err := decode(row)
	if err != nil {
		return w, false, err
	}
	spec := r.Spec.(*model.NodeSpec)
	facts, labels := spec.Facts, spec.AgentLabels
	if seen.facts != nil {
		facts = seen.facts
	}
	if seen.labels != nil {
		labels = seen.labels
	}
	if spec.Key != "" {
		machine = spec.Key
	}
	if maps.Equal(spec.Facts, facts) && maps.Equal(spec.AgentLabels, labels) && spec.Key == machine {
		return w, false, nil
	}
	spec.Facts, spec.AgentLabels, spec.Key = facts, labels, machine
	body, err := encode(r)
	return Write{Key: key, Body: body, Expect: row.Revision}, true, err
}

// Holder implements pki.Registrar.
func (s *Service) Holder(key string) (pki.Member, bool) {
	info, ok := s.LookupKey(key)
	return pki.Member{UID: info.UID, Name: info.Name, Namespace: info.Namespace}, ok
}

// Register implements pki.Registrar: it creates the node of a machine that joins.
func (s *Service) Register(ctx context.Context, key string, token pki.JoinToken, request pki.EnrolRequest) (pki.Member, error) {
	base := NodeName(request.Name)
	namespace := token.Namespace
	if namespace == "" {
		namespace = model.DefaultNamespaceName
	}
	if unsaidFacts(request.Facts) != "" {
		request.Facts = nil
	}
	if s.unsaidLabels(namespace, request.Labels) != "" { // its first session says so
		request.Labels = nil
	}
	s.nodes.joining.Lock() // a machine that asks twice at once is one node
	defer s.nodes.joining.Unlock()
	if member, ok := s.Holder(key); ok {
		return member, nil
	}
	uid := uuid.New()
	for i := 1; i <= 1000; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		r := model.Resource{
			Kind: "Node", Metadata: model.Metadata{Name: name, Namespace: namespace, Labels: token.Labels},
			Spec: &model.NodeSpec{UID: uid.String(), Groups: token.Groups, Lifecycle: token.Lifecycle, Key: key,
				Facts: request.Facts, AgentLabels: request.Labels},
		}
		body, err := encode(&r)
		if err != nil {
			return pki.Member{}, err
		}
		writes := append([]Write{{Key: KeyOf(&r), Body: body}}, s.nodes.liftKey(key)...)
		_, err = s.commit(ctx, Who{User: "token:" + token.ID, Why: "joined"}, writes)
		if model.ClassOf(err) == model.Conflict {
			continue // that name is taken
		}
		return pki.Member{UID: uid, Name: name, Namespace: namespace}, err
	}
	return pki.Member{}, model.Errorf(model.Conflict, "a thousand nodes are called %s already", base).WithHint("start the agent with --name")
}

// NodeName makes a resource name of what a machine calls itself.
func NodeName(wanted string) string {
	name := model.CleanName(wanted)
	name = strings.Trim(name[:min(len(name), 240)], "-._") // room for a number behind it
	if name == "" {
		return "node"
	}
	return name
}

// NewNode is a node made without enrolment, for load tests.
type NewNode struct {
	UID    uuid.UUID
	Name   string
	Labels map[string]string
	Groups []string
}

// BulkNodes makes many nodes in one transaction; those that exist are left alone.
func (s *Service) BulkNodes(ctx context.Context, by Who, namespace string, nodes []NewNode) error {
	var writes []Write
	for _, n := range nodes {
		r := model.Resource{
			Kind: "Node", Metadata: model.Metadata{Name: n.Name, Namespace: namespace, Labels: n.Labels},
			Spec: &model.NodeSpec{UID: n.UID.String(), Groups: n.Groups},
		}
		key := KeyOf(&r)
		if _, err := s.opts.Store.Get(ctx, key); err == nil {
			continue
		}
		body, err := encode(&r)
		if err != nil {
			return err
		}
		writes = append(writes, Write{Key: key, Body: body})
	}
	for chunk := range slices.Chunk(writes, 5000) {
		if _, err := s.commit(ctx, by, chunk); err != nil {
			return err
		}
	}
	return nil
}
