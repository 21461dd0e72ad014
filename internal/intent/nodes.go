package intent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// nodeIndex answers for sessions, without SQL: after a restart every agent asks
// within seconds.
type nodeIndex struct {
	joining sync.Mutex // held while a machine that joins is written; before mu

	mu    sync.RWMutex
	joins map[string]bool // keys of machines that are written
	byUID map[uuid.UUID]NodeInfo
	keys  map[Key]uuid.UUID
	byKey map[string]uuid.UUID      // by the fingerprint of the machine's key
	seen  map[uuid.UUID]AgentReport // by agents, and not written yet; a nil member: nothing of it is taken
	told  uint64                    // how often something was noted there
	first map[uuid.UUID]string      // keys of machines that had none on record, not written yet
	paces map[uuid.UUID]pace        // of nodes that were written lately
	tombs tombs

	ephemeral map[uuid.UUID]bool
}

func newNodeIndex() nodeIndex {
	return nodeIndex{byUID: map[uuid.UUID]NodeInfo{}, keys: map[Key]uuid.UUID{}, byKey: map[string]uuid.UUID{},
		seen: map[uuid.UUID]AgentReport{}, first: map[uuid.UUID]string{}, paces: map[uuid.UUID]pace{}, tombs: newTombs(), ephemeral: map[uuid.UUID]bool{}}
}

func (x *nodeIndex) len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byUID)
}

func (x *nodeIndex) remove(key Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	uid, ok := x.keys[key]
	if !ok {
		return
	}
	x.forget(uid)
	delete(x.keys, key)
	delete(x.seen, uid)
	delete(x.first, uid)
}

// move follows a node to its new name.
func (x *nodeIndex) move(from, to Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if uid, ok := x.keys[from]; ok {
		delete(x.keys, from)
		x.keys[to] = uid
	}
}

// forget takes a node out, with mu held.
func (x *nodeIndex) forget(uid uuid.UUID) {
	if info := x.byUID[uid]; x.byKey[info.Key] == uid {
		delete(x.byKey, info.Key)
	}
	delete(x.byUID, uid)
	delete(x.ephemeral, uid)
}

func (s *Service) tookNode(row Row) error {
	r, err := s.decode(row)
	if err != nil {
		return err
	}
	spec := r.Spec.(*model.NodeSpec)
	uid, err := uuid.Parse(spec.UID)
	if err != nil {
		return nil // declared, not enrolled yet
	}
	ns, _ := s.namespaceID(row.Namespace)
	info := NodeInfo{ID: model.NodeID(row.ID), UID: uid, Name: row.Name, Namespace: row.Namespace, NamespaceID: ns, Key: spec.Key, Written: row.Updated, ForgetAfter: spec.EffectiveLifecycle().ForgetDelay(),
		said: saidBy(spec).fingerprint()}
	if spec.Keepalive != nil {
		info.Interval, info.Timeout = time.Duration(spec.Keepalive.Interval), time.Duration(spec.Keepalive.Timeout)
		info.Warning = time.Duration(spec.Keepalive.Warning)
	}
	was, known, twin, sharer := s.nodes.take(row.Key, &info)
	if sharer != (Key{}) {
		s.opts.Logger.Error("two nodes have one key: it is that of the older one; give the newer a machine: muster node replace", "newer", sharer.String(), "key", spec.Key)
	}
	if twin != (Key{}) {
		s.opts.Logger.Error("two nodes have one uid: the machine is the older one; delete the newer", "uid", spec.UID, "newer", twin.String())
	}
	if changed := s.opts.NodeChanged; changed != nil && known && (was.Name != info.Name || was.Key != info.Key && was.Key != "") {
		changed(was, info)
	}
	return nil
}

// take makes info what is known of the node, and returns what was. Where another row has
// its uid, the machine stays, or becomes, the older one; twin is the newer. Where another
// has its machine's key, the older one keeps that; sharer is the newer.
func (x *nodeIndex) take(key Key, info *NodeInfo) (was NodeInfo, known bool, twin, sharer Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.keys[key]; ok && old != info.UID {
		x.forget(old)
		delete(x.keys, key)
	}
	if other, ok := x.byUID[info.UID]; ok && other.ID != info.ID {
		if other.ID < info.ID {
			return was, false, key, sharer
		}
		twin = Key{"Node", other.Namespace, other.Name}
		x.forget(info.UID)
		delete(x.keys, twin)
	}
	if info.Key == "" {
		info.Key = x.first[info.UID] // it is on its way into the row
	}
	if other, ok := x.byUID[x.byKey[info.Key]]; ok && other.UID != info.UID {
		if other.ID < info.ID {
			sharer, info.Key = key, ""
		} else {
			sharer, other.Key = Key{"Node", other.Namespace, other.Name}, ""
			x.byUID[other.UID] = other
		}
	}
	was, known = x.byUID[info.UID]
	x.forget(info.UID)
	x.byUID[info.UID], x.keys[key] = *info, info.UID
	if info.Key != "" {
		x.byKey[info.Key] = info.UID
	}
	if info.ForgetAfter > 0 {
		x.ephemeral[info.UID] = true
	}
	return was, known, twin, sharer
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

// RecordFirstKey puts the key of its machine on record for a node that has none: in memory at
// once, and Run writes it soon. It returns the key that is on record then: none, where the
// key is another node's, or about to be, which holder names. No two nodes share a key.
func (s *Service) RecordFirstKey(uid uuid.UUID, key string) (onRecord, holder string) {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	info, ok := s.nodes.byUID[uid]
	if !ok || info.Key != "" {
		return info.Key, ""
	}
	if other, taken := s.nodes.byKey[key]; taken {
		return "", s.nodes.byUID[other].Name
	}
	if s.nodes.joins[key] {
		return "", "(joining now)"
	}
	info.Key = key
	s.nodes.byUID[uid], s.nodes.byKey[key], s.nodes.first[uid] = info, uid, key
	return key, ""
}

// claim keeps a key for a machine that is written, until disclaim, where it is no node's, nor
// kept already; member is whose it is. The caller holds joining.
func (x *nodeIndex) claim(key string) (member pki.Member, taken bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if uid, taken := x.byKey[key]; taken {
		info := x.byUID[uid]
		return pki.Member{UID: info.UID, Name: info.Name, Namespace: info.Namespace}, true
	}
	if x.joins[key] && key != "" { // a machine that asks twice at once: its first answer is written
		return pki.Member{}, true
	}
	if x.joins == nil {
		x.joins = map[string]bool{}
	}
	x.joins[key] = true
	return pki.Member{}, false
}

func (x *nodeIndex) disclaim() {
	x.mu.Lock()
	clear(x.joins)
	x.mu.Unlock()
}

// NodeOfKey implements pki.Registrar.
func (s *Service) NodeOfKey(key string) (pki.Member, bool) {
	info, ok := s.LookupKey(key)
	return pki.Member{UID: info.UID, Name: info.Name, Namespace: info.Namespace}, ok
}

// Register implements pki.Registrar: it creates the node of a machine that joins.
func (s *Service) Register(ctx context.Context, key string, token pki.JoinToken, request pki.EnrolRequest) (pki.Member, error) {
	return s.register(ctx, Actor{User: "token:" + token.ID, Why: "joined"}, key, token, request, false)
}

// Accept creates the node of a machine that waits to be let in: what it is given stands in
// token, which is none that was made. named: a person has said the name, and not only the
// machine, so that it may be one that a trusted group lists.
func (s *Service) Accept(ctx context.Context, by Actor, key string, token pki.JoinToken, request pki.EnrolRequest, named bool) (pki.Member, error) {
	return s.register(ctx, by, key, token, request, named)
}

// register makes the node; named: a person stands for the name, and not the machine alone.
func (s *Service) register(ctx context.Context, by Actor, key string, token pki.JoinToken, request pki.EnrolRequest, named bool) (pki.Member, error) {
	j := &joiner{ctx: ctx, by: by, key: key, token: token, request: request, named: named}
	if unsaidFacts(request.Facts) != "" {
		j.request.Facts = nil
	}
	if s.unsaidLabels(j.namespace(), request.Labels) != "" { // its first session says so
		j.request.Labels = nil
	}
	if unsaidGroups(j.namespace(), request.Groups) != "" {
		j.request.Groups = nil
	}
	return s.join(j)
}

// joinAlone is the whole way of one machine, in a commit of its own. The caller holds joining:
// a machine that asks twice at once is one node.
func (s *Service) joinAlone(ctx context.Context, j *joiner) (pki.Member, error) {
	key, token, request, named, namespace, base := j.key, j.token, j.request, j.named, j.namespace(), NodeName(j.request.Name)
	if member, ok := s.nodes.claim(key); ok {
		return member, nil
	}
	defer s.nodes.disclaim()
	if r := request.Returns; r != nil && !s.UnknownNode(r.UID) {
		return pki.Member{}, model.Errorf(model.Conflict, "node %s is there again, or came to an end, since its machine asked", r.UID).
			WithHint("which: muster get nodes, and muster node list --retired")
	}
	if request.Returns != nil && !named && s.trusted.holds(namespace, base) {
		return pki.Member{}, model.Errorf(model.Forbidden, "a trusted group lists the name %s, and a machine may say any name", base).
			WithHint("if it is that machine: muster node accept %s", base)
	}
	node, ok, err := s.place(ctx, token, namespace, base)
	if err != nil {
		return pki.Member{}, err
	}
	if ok {
		return s.takePlace(ctx, node, key, token, request)
	}
	if token.Node != uuid.Nil {
		return pki.Member{}, model.Errorf(model.Conflict, "the node that join token %s was made for is there no more", token.ID).
			WithHint("a token for a new node, on the server: muster node token")
	}
	if member, ok, err := s.takeDeclared(ctx, j.by, Key{"Node", namespace, base}, key, token, request, named); ok || err != nil {
		return member, err
	}
	if s.roomIn(namespace) <= 0 {
		return pki.Member{}, s.full(namespace)
	}
	uid := idFor(request)
	for i := 1; i <= 1000; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		if !named && s.trusted.holds(namespace, name) {
			continue // where a node has it, it is taken; where none has, it is no machine's to choose
		}
		if s.nodes.holds([]string{namespace}, name) {
			continue // the store is asked for names alone that no machine has
		}
		body, err := newNode(j, name, uid)
		if err != nil {
			return pki.Member{}, err
		}
		used, err := JoinTokens{s.opts.Store}.use(ctx, token)
		if err != nil {
			return pki.Member{}, err
		}
		writes := slices.Concat([]Write{{Key: Key{"Node", namespace, name}, Body: body}}, s.nodes.lift(keyTomb+key), used)
		_, err = s.commit(ctx, j.by, writes)
		if model.ClassOf(err) == model.Conflict {
			continue // that name is taken
		}
		return pki.Member{UID: uid, Name: name, Namespace: namespace}, err
	}
	return pki.Member{}, model.Errorf(model.Conflict, "a thousand nodes are called %s already", base).WithHint("start the agent with --name")
}

// idFor is the immutable id of the node that a machine becomes: the one that it had.
func idFor(request pki.EnrolRequest) uuid.UUID {
	if request.Returns != nil {
		return request.Returns.UID
	}
	return uuid.New()
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

// BulkNode is a node made without enrolment, for load tests.
type BulkNode struct {
	UID    uuid.UUID
	Name   string
	Labels map[string]string
	Groups []string
	// How often it must be heard of; nil: as other nodes.
	Keepalive *model.Keepalive
}

// CreateNodes makes many nodes in one transaction; those that exist are left alone.
func (s *Service) CreateNodes(ctx context.Context, by Actor, namespace string, nodes []BulkNode) error {
	var writes []Write
	for _, n := range nodes {
		r := model.Resource{
			Kind: "Node", Metadata: model.Metadata{Name: n.Name, Namespace: namespace, Labels: n.Labels},
			Spec: &model.NodeSpec{UID: n.UID.String(), Groups: n.Groups, Keepalive: n.Keepalive},
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
