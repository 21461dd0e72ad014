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
	mu    sync.RWMutex
	byUID map[uuid.UUID]NodeInfo
	keys  map[Key]uuid.UUID
	seen  map[Key]seenNode // said by agents and not written yet
	told  uint64           // how often something was noted there
}

// seenNode is what an agent said; a nil map: nothing that is taken.
type seenNode struct {
	facts, labels map[string]string
}

func newNodeIndex() nodeIndex {
	return nodeIndex{byUID: map[uuid.UUID]NodeInfo{}, keys: map[Key]uuid.UUID{}, seen: map[Key]seenNode{}}
}

func (x *nodeIndex) len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byUID)
}

func (x *nodeIndex) remove(key Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byUID, x.keys[key])
	delete(x.keys, key)
	delete(x.seen, key)
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
	info := NodeInfo{ID: model.NodeID(row.ID), UID: uid, Name: row.Name, Namespace: row.Namespace, NamespaceID: ns,
		said: fingerprint(spec.Facts, spec.AgentLabels)}
	if spec.Keepalive != nil {
		info.Interval, info.Timeout = time.Duration(spec.Keepalive.Interval), time.Duration(spec.Keepalive.Timeout)
	}
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	if old, ok := s.nodes.keys[row.Key]; ok && old != uid {
		delete(s.nodes.byUID, old)
	}
	s.nodes.byUID[uid], s.nodes.keys[row.Key] = info, uid
	return nil
}

// LookupNode finds a node by its immutable id, from memory.
func (s *Service) LookupNode(uid uuid.UUID) (NodeInfo, bool) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	info, ok := s.nodes.byUID[uid]
	return info, ok
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
		s.nodes.mu.Lock()
		batch := map[Key]seenNode{}
		for key, seen := range s.nodes.seen {
			if batch[key] = seen; len(batch) == seenAtOnce {
				break
			}
		}
		s.nodes.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		var writes []Write
		for key, seen := range batch {
			row, err := s.opts.Store.Get(ctx, key)
			if model.ClassOf(err) == model.NotFound {
				continue
			}
			if err != nil {
				return err
			}
			r, err := decode(row)
			if err != nil {
				return err
			}
			spec := r.Spec.(*model.NodeSpec)
			facts, labels := spec.Facts, spec.AgentLabels
			if seen.facts != nil {
				facts = seen.facts
			}
			if seen.labels != nil {
				labels = seen.labels
			}
			if maps.Equal(spec.Facts, facts) && maps.Equal(spec.AgentLabels, labels) {
				continue
			}
			spec.Facts, spec.AgentLabels = facts, labels
			body, err := encode(r)
			if err != nil {
				return err
			}
			writes = append(writes, Write{Key: key, Body: body, Expect: row.Revision})
		}
		if len(writes) > 0 {
			if _, err := s.commit(ctx, server("facts from agents"), writes); err != nil {
				return err
			}
		}
		s.nodes.mu.Lock()
		for key, seen := range batch {
			if now, ok := s.nodes.seen[key]; ok && maps.Equal(now.facts, seen.facts) && maps.Equal(now.labels, seen.labels) {
				delete(s.nodes.seen, key)
			}
		}
		s.nodes.mu.Unlock()
	}
}

// Register implements pki.Registrar: it creates the node of a machine that joins.
func (s *Service) Register(ctx context.Context, uid uuid.UUID, token pki.JoinToken, request pki.EnrolRequest) (string, error) {
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
	for i := 1; i <= 1000; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		r := model.Resource{
			Kind: "Node", Metadata: model.Metadata{Name: name, Namespace: namespace, Labels: token.Labels},
			Spec: &model.NodeSpec{UID: uid.String(), Groups: token.Groups, Facts: request.Facts, AgentLabels: request.Labels},
		}
		body, err := encode(&r)
		if err != nil {
			return "", err
		}
		_, err = s.commit(ctx, Who{User: "token:" + token.ID, Why: "joined"}, []Write{{Key: KeyOf(&r), Body: body}})
		if model.ClassOf(err) == model.Conflict {
			continue // that name is taken
		}
		return name, err
	}
	return "", model.Errorf(model.Conflict, "a thousand nodes are called %s already", base).WithHint("start the agent with --name")
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
