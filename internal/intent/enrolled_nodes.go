package intent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// Nodes looks up enrolled nodes in the server's memory, without database queries. It also removes ephemeral
// nodes, such as cloud machines, after a long absence.
type Nodes struct{ *repository }

// lookupUID returns an enrolled node by its uid.
func (x *nodeIndex) lookupUID(uid uuid.UUID) (NodeInfo, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	info, ok := x.byUID[uid]
	return info, ok
}

// lookupKey returns a node by the fingerprint of its machine's key.
func (x *nodeIndex) lookupKey(key string) (NodeInfo, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	uid, ok := x.byKey[key]
	return x.byUID[uid], ok
}

// LookupNode returns an enrolled node by its uid, from memory.
func (s *Nodes) LookupNode(uid uuid.UUID) (NodeInfo, bool) { return s.nodes.lookupUID(uid) }

// LookupKey returns a node by the fingerprint of its machine's key, from memory.
func (s *Nodes) LookupKey(key string) (NodeInfo, bool) { return s.nodes.lookupKey(key) }

// HasMachine reports whether a machine has enrolled as the named node. A declared node may still lack a machine.
func (s *Nodes) HasMachine(namespace, name string) bool {
	return s.nodes.hasMachine([]string{namespace}, name)
}

// RecordFirstKey records the key of a machine for a node that has no recorded key yet. The key is in memory at once,
// and soon in the database. It returns the key on record afterwards. Where another node has the key, or is about to
// get it, holder names that node and nothing is recorded: no two nodes share a key.
func (s *Nodes) RecordFirstKey(uid uuid.UUID, key string) (onRecord, holder string) {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	info, ok := s.nodes.byUID[uid]
	if !ok || info.Key != "" {
		return info.Key, ""
	}
	if other, taken := s.nodes.byKey[key]; taken {
		return "", s.nodes.byUID[other].Name
	}
	if s.nodes.claimed[key] {
		return "", "(joining now)"
	}
	info.Key = key
	s.nodes.byUID[uid], s.nodes.byKey[key], s.nodes.firstKeys[uid] = info, uid, key
	return key, ""
}

// BulkNode describes a node to create without enrolment, for load tests.
type BulkNode struct {
	UID    uuid.UUID
	Name   string
	Labels map[string]string
	Groups []string
	// Keepalive is its interval and timeout; nil: the defaults.
	Keepalive *model.Keepalive
}

// CreateNodes creates many nodes at the same time for load tests, without enrolling machines. Existing nodes stay
// unchanged.
func (s *Nodes) CreateNodes(ctx context.Context, by Actor, namespace string, nodes []BulkNode) error {
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
	for definition := range slices.Chunk(writes, 5000) {
		if _, err := s.commit(ctx, by, definition); err != nil {
			return err
		}
	}
	return nil
}

// NodeInfo has the fields of a node that agents' sessions need, such as name, key and namespace. It is kept in memory.
type NodeInfo struct {
	ID          model.NodeID
	UID         uuid.UUID
	Name        string
	Namespace   string
	NamespaceID model.NamespaceID
	Interval    time.Duration // of its keepalives; zero: the server's default
	Timeout     time.Duration
	Warning     time.Duration // silence after which its keepalive turns warning; zero: never
	Every       bool          // the node names pipelines, which evaluate each of its keepalives
	ForgetAfter time.Duration // time without a session after which the ephemeral node is removed; zero: never
	Key         string        // pki.Fingerprint of its machine's key; empty: not known yet
	Written     time.Time     // time of the last write of its row

	report uint64 // fingerprint of the facts and labels on record
}

// KeepaliveDiffers reports whether the keepalive settings differ between two versions of a node.
func (n NodeInfo) KeepaliveDiffers(o NodeInfo) bool {
	return n.Interval != o.Interval || n.Timeout != o.Timeout || n.Warning != o.Warning || n.Every != o.Every
}

// nodeIndex is the in-memory index of enrolled nodes by uid, name and machine key. After a restart all agents
// connect within seconds.
type nodeIndex struct {
	enrolling sync.Mutex // held while joining machines are written

	mu        sync.RWMutex
	byUID     map[uuid.UUID]NodeInfo
	keys      map[Key]uuid.UUID
	byKey     map[string]uuid.UUID // by the fingerprint of the machine's key
	ephemeral map[uuid.UUID]bool
	claimed   map[string]bool // keys of machines that are being written

	// Reports that wait to be written.
	reports     map[uuid.UUID]AgentReport  // a nil field: the facts, labels or groups were rejected
	reportCount uint64                     // reports ever kept
	firstKeys   map[uuid.UUID]string       // keys of machines that had none on record
	paces       map[uuid.UUID]reportBudget // of recently written nodes
}

// newNodeIndex returns an empty index of enrolled nodes.
func newNodeIndex() nodeIndex {
	return nodeIndex{byUID: map[uuid.UUID]NodeInfo{}, keys: map[Key]uuid.UUID{}, byKey: map[string]uuid.UUID{}, ephemeral: map[uuid.UUID]bool{}, claimed: map[string]bool{},
		reports: map[uuid.UUID]AgentReport{}, firstKeys: map[uuid.UUID]string{}, paces: map[uuid.UUID]reportBudget{}}
}

// len returns the number of enrolled nodes.
func (x *nodeIndex) len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byUID)
}

// hasMachine reports whether a machine has enrolled under a node name. It looks in the given namespaces.
func (x *nodeIndex) hasMachine(namespaces []string, name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.ContainsFunc(namespaces, func(ns string) bool { _, ok := x.keys[Key{"Node", ns, name}]; return ok })
}

// names returns the names of the enrolled nodes in some namespaces
func (x *nodeIndex) names(namespaces []string) (names []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for key := range x.keys {
		if slices.Contains(namespaces, key.Namespace) {
			names = append(names, key.Name)
		}
	}
	return names
}

// removeByName removes a node from the index by its namespace and name.
func (x *nodeIndex) removeByName(key Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	uid, ok := x.keys[key]
	if !ok {
		return
	}
	x.removeByUID(uid)
	delete(x.keys, key)
	delete(x.reports, uid)
	delete(x.firstKeys, uid)
}

// renameNode changes the name of a node in the index.
func (x *nodeIndex) renameNode(from, to Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if uid, ok := x.keys[from]; ok {
		delete(x.keys, from)
		x.keys[to] = uid
	}
}

// removeByUID removes a node from the index by its uid. The caller holds mu.
func (x *nodeIndex) removeByUID(uid uuid.UUID) {
	if info := x.byUID[uid]; x.byKey[info.Key] == uid {
		delete(x.byKey, info.Key)
	}
	delete(x.byUID, uid)
	delete(x.ephemeral, uid)
}

// indexNode stores an enrolled node in the in-memory index. It reports a changed name, machine or keepalive to
// Options.NodeChanged.
func (r *repository) indexNode(row Row, spec *model.NodeSpec) {
	uid, err := uuid.Parse(spec.UID)
	if err != nil {
		return // the node is declared and has not enrolled yet
	}
	ns, _ := r.namespaces.idByName(row.Namespace)
	info := NodeInfo{ID: model.NodeID(row.ID), UID: uid, Name: row.Name, Namespace: row.Namespace, NamespaceID: ns, Key: spec.Key, Written: row.Updated, ForgetAfter: spec.EffectiveLifecycle().ForgetDelay(),
		report: recordedReport(spec).fingerprint()}
	if spec.Keepalive != nil {
		info.Interval, info.Timeout = time.Duration(spec.Keepalive.Interval), time.Duration(spec.Keepalive.Timeout)
		info.Warning, info.Every = time.Duration(spec.Keepalive.Warning), len(spec.Keepalive.Pipelines) > 0
	}
	was, known, twin, sharer := r.nodes.putNode(row.Key, &info)
	if sharer != (Key{}) {
		r.opts.Logger.Error("two nodes have the same public key; the older node keeps the key; give the newer node a machine: muster node replace NODE", "newer", sharer.String(), "key", spec.Key)
	}
	if twin != (Key{}) {
		r.opts.Logger.Error("two nodes have the same spec.uid; the older node keeps the id; delete the newer node", "uid", spec.UID, "newer", twin.String())
	}
	if changed := r.opts.NodeChanged; changed != nil && known && (was.Name != info.Name || was.Key != info.Key && was.Key != "" || was.KeepaliveDiffers(info)) {
		changed(was, info)
	}
}

// putNode stores a node in the index, and returns its previous entry. If another row has the same uid, the older node
// keeps the machine, and twin names the newer node. If another row has the same key, the older node keeps the key, and
// sharer names the newer node.
func (x *nodeIndex) putNode(key Key, info *NodeInfo) (was NodeInfo, known bool, twin, sharer Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.keys[key]; ok && old != info.UID {
		x.removeByUID(old)
		delete(x.keys, key)
	}
	if other, ok := x.byUID[info.UID]; ok && other.ID != info.ID {
		if other.ID < info.ID {
			return was, false, key, sharer
		}
		twin = Key{"Node", other.Namespace, other.Name}
		x.removeByUID(info.UID)
		delete(x.keys, twin)
	}
	info.Key = cmp.Or(info.Key, x.firstKeys[info.UID]) // the first key is in memory and not yet in the row
	if other, ok := x.byUID[x.byKey[info.Key]]; ok && other.UID != info.UID {
		if other.ID < info.ID {
			sharer, info.Key = key, ""
		} else {
			sharer, other.Key = Key{"Node", other.Namespace, other.Name}, ""
			x.byUID[other.UID] = other
		}
	}
	was, known = x.byUID[info.UID]
	x.removeByUID(info.UID)
	x.byUID[info.UID], x.keys[key] = *info, info.UID
	if info.Key != "" {
		x.byKey[info.Key] = info.UID
	}
	if info.ForgetAfter > 0 {
		x.ephemeral[info.UID] = true
	}
	return was, known, twin, sharer
}

// claimKey reserves a machine's key during its enrolment, so that no other enrolment uses the key until
// releaseKeys. taken is true where a node or another claim has the key; member is that node. The caller holds
// enrolling.
func (x *nodeIndex) claimKey(key string) (member pki.Member, taken bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if uid, taken := x.byKey[key]; taken {
		return x.byUID[uid].member(), true
	}
	if x.claimed[key] && key != "" { // a machine that asks twice at once: its first request is being written
		return pki.Member{}, true
	}
	x.claimed[key] = true
	return pki.Member{}, false
}

// member converts a node to pki.Member, which package pki uses for nodes
func (n NodeInfo) member() pki.Member {
	return pki.Member{UID: n.UID, Name: n.Name, Namespace: n.Namespace}
}

// releaseKeys releases all reserved machine keys.
func (x *nodeIndex) releaseKeys() {
	x.mu.Lock()
	clear(x.claimed)
	x.mu.Unlock()
}

// ephemeralNodes returns the nodes that the server may remove after a long absence (lifecycle ephemeral). It
// deletes nodes that are no longer ephemeral from the map away, which has the absence of each node by uid.
func (x *nodeIndex) ephemeralNodes(away map[uuid.UUID]time.Duration) []NodeInfo {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for uid := range away {
		if !x.ephemeral[uid] {
			delete(away, uid)
		}
	}
	list := make([]NodeInfo, 0, len(x.ephemeral))
	for uid := range x.ephemeral {
		list = append(list, x.byUID[uid])
	}
	return list
}

// recordDeclaredUID checks the uid that a file declares for a node, and adds the uid to the apply. The machine
// with this uid belongs to the node.
func (a *pendingApply) recordDeclaredUID(key Key, uid string) error {
	if other, ok := a.claims[uid]; ok {
		return model.Errorf(model.Conflict, "%s and %s have the same spec.uid: one machine cannot be two nodes", other, key).
			WithHint("omit spec.uid, which enrolment sets")
	}
	if err := a.repo.checkUID(key, uid); err != nil {
		return err
	}
	if a.claims == nil {
		a.claims = map[string]Key{}
	}
	a.claims[uid] = key
	return nil
}

// checkUID returns an error if a node's uid already belongs to another node or a removed machine. So an old
// file cannot undo a removal.
func (r *repository) checkUID(key Key, uid string) error {
	id, err := uuid.Parse(uid)
	if err != nil {
		return nil // Validate reports the malformed uid
	}
	if info, ok := r.nodes.lookupUID(id); ok && (Key{"Node", info.Namespace, info.Name}) != key {
		return model.Errorf(model.Conflict, "%s has the spec.uid of %s: one machine cannot be two nodes", key, Key{"Node", info.Namespace, info.Name}).
			WithHint("omit spec.uid, which enrolment sets; to rename the machine's node: muster node rename %s %s", info.Name, key.Name)
	}
	if t, ok := r.tombstones.lookupRow(uid); ok {
		return model.Errorf(model.Conflict, "the spec.uid of %s belongs to a machine that may not enrol again: %s", key, t.Sentence()).
			WithHint("omit spec.uid, then any machine can enrol as the node; to accept this machine again: muster node unblock %s, then apply again", uid)
	}
	return nil
}

// ExternalAgent is a machine with the agent of another monitoring system, such as Sensu. The machine has no key here; its
// id or name in that system identifies it.
type ExternalAgent struct {
	System      string // name of the other monitoring system: sensu
	ID          string // of the machine in that system; empty: its name identifies it
	Namespace   string
	Name        string // name of the machine in that system; NodeName makes a valid node name of it
	AgentReport AgentReport
	Lifecycle   *model.Lifecycle // of a new node; nil: permanent
}

// UID computes the node id of another monitoring system's agent. The id depends on the system, the namespace and the
// agent's id or name.
func (m *ExternalAgent) UID() uuid.UUID {
	space := uuid.MustParse("5d1c9a0e-6f3b-4c55-9a59-0d6f1c2b7e44") // UUID namespace for uids of external agents
	return uuid.NewSHA1(space, []byte(m.System+"\x00"+m.Namespace+"\x00"+cmp.Or(m.ID, m.Name)))
}

// IsExternalAgent reports whether a node id belongs to an agent of another system, such as Sensu. Such ids are
// computed; ids of Muster's agents are random.
func IsExternalAgent(uid uuid.UUID) bool { return uid.Version() == 5 }

// RegisterExternal finds or creates the node for an agent of another monitoring system, such as Sensu. At the agent's
// first connection it creates the node. Its labels and groups bring the node into no trusted group. After the node was
// forgotten, the agent gets a new node, because an external agent has no identity to reset.
func (s *Enrolment) RegisterExternal(ctx context.Context, by Actor, m *ExternalAgent) (NodeInfo, error) {
	uid := m.UID()
	if info, ok := s.nodes.lookupUID(uid); ok {
		return info, nil
	}
	t, gone := s.tombstones.lookupRow(uid.String())
	if gone && t.Cause != ReasonForgotten {
		return NodeInfo{}, model.Errorf(model.Forbidden, "%s", t.Sentence()).WithHint("%s", t.Hint())
	}
	if _, ok := s.namespaces.idByName(m.Namespace); !ok {
		return NodeInfo{}, missingNamespaceError(m.Namespace)
	}
	if gone {
		if err := (&Tombstones{s.repository}).DeleteTombstone(ctx, by, uid.String()); err != nil && model.ClassOf(err) != model.NotFound {
			return NodeInfo{}, err
		}
	}
	_, err := s.Accept(ctx, by, "", pki.JoinToken{Namespace: m.Namespace, Lifecycle: m.Lifecycle}, pki.EnrolRequest{
		Name: m.Name, Namespace: m.Namespace, Facts: m.AgentReport.Facts, Labels: m.AgentReport.Labels, Groups: m.AgentReport.Groups, Entity: m.AgentReport.Entity,
		Returns: &pki.LostNode{UID: uid, Namespace: m.Namespace},
	}, false)
	info, ok := s.nodes.lookupUID(uid)
	if err == nil && !ok {
		err = model.Errorf(model.Unavailable, "node %s was deleted right after its creation", m.Name)
	}
	if ok { // the agent opened two connections at once, and the other one created the node
		return info, nil
	}
	return info, err
}
