package intent

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// NodeInfo is the part of a node that sessions need, kept in memory.
type NodeInfo struct {
	ID          model.NodeID
	UID         uuid.UUID
	Name        string
	Namespace   string
	NamespaceID model.NamespaceID
	Interval    time.Duration // keepalive; zero: the server's default
	Timeout     time.Duration
	Warning     time.Duration // zero: never
	ForgetAfter time.Duration // of an ephemeral node, without a session; zero: it stays
	Key         string        // pki.Fingerprint of its machine's key; empty: not known yet
	Written     time.Time     // when its row was last

	report uint64 // fingerprint of the facts and labels on record
}

// nodeIndex answers for sessions without SQL: after a restart every agent asks within seconds.
type nodeIndex struct {
	enrolling sync.Mutex // held while joining machines are written

	mu        sync.RWMutex
	byUID     map[uuid.UUID]NodeInfo
	keys      map[Key]uuid.UUID
	byKey     map[string]uuid.UUID // by the fingerprint of the machine's key
	ephemeral map[uuid.UUID]bool
	claimed   map[string]bool // keys of machines that are being written

	// Reports that wait to be written.
	reports     map[uuid.UUID]AgentReport // a nil member: that part was not accepted
	reportCount uint64                    // reports ever kept
	firstKeys   map[uuid.UUID]string      // keys of machines that had none on record
	paces       map[uuid.UUID]pace        // of nodes that were written lately
}

func newNodeIndex() nodeIndex {
	return nodeIndex{byUID: map[uuid.UUID]NodeInfo{}, keys: map[Key]uuid.UUID{}, byKey: map[string]uuid.UUID{}, ephemeral: map[uuid.UUID]bool{}, claimed: map[string]bool{},
		reports: map[uuid.UUID]AgentReport{}, firstKeys: map[uuid.UUID]string{}, paces: map[uuid.UUID]pace{}}
}

func (x *nodeIndex) len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byUID)
}

// hasMachine reports whether a machine has enrolled under the name in one of the namespaces.
func (x *nodeIndex) hasMachine(namespaces []string, name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.ContainsFunc(namespaces, func(ns string) bool { _, ok := x.keys[Key{"Node", ns, name}]; return ok })
}

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

func (x *nodeIndex) remove(key Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	uid, ok := x.keys[key]
	if !ok {
		return
	}
	x.forget(uid)
	delete(x.keys, key)
	delete(x.reports, uid)
	delete(x.firstKeys, uid)
}

// move gives a node its new name.
func (x *nodeIndex) move(from, to Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if uid, ok := x.keys[from]; ok {
		delete(x.keys, from)
		x.keys[to] = uid
	}
}

// forget removes a node. The caller holds mu.
func (x *nodeIndex) forget(uid uuid.UUID) {
	if info := x.byUID[uid]; x.byKey[info.Key] == uid {
		delete(x.byKey, info.Key)
	}
	delete(x.byUID, uid)
	delete(x.ephemeral, uid)
}

// indexNode indexes a node that has enrolled, and reports a changed name or machine to NodeChanged.
func (r *repository) indexNode(row Row) error {
	resource, err := r.decode(row)
	if err != nil {
		return err
	}
	spec := resource.Spec.(*model.NodeSpec)
	uid, err := uuid.Parse(spec.UID)
	if err != nil {
		return nil // declared, not enrolled yet
	}
	ns, _ := r.namespaces.id(row.Namespace)
	info := NodeInfo{ID: model.NodeID(row.ID), UID: uid, Name: row.Name, Namespace: row.Namespace, NamespaceID: ns, Key: spec.Key, Written: row.Updated, ForgetAfter: spec.EffectiveLifecycle().ForgetDelay(),
		report: recordedReport(spec).fingerprint()}
	if spec.Keepalive != nil {
		info.Interval, info.Timeout = time.Duration(spec.Keepalive.Interval), time.Duration(spec.Keepalive.Timeout)
		info.Warning = time.Duration(spec.Keepalive.Warning)
	}
	was, known, twin, sharer := r.nodes.put(row.Key, &info)
	if sharer != (Key{}) {
		r.opts.Logger.Error("two nodes have one key: it is that of the older one; give the newer a machine: muster node replace", "newer", sharer.String(), "key", spec.Key)
	}
	if twin != (Key{}) {
		r.opts.Logger.Error("two nodes have one uid: the machine is the older one; delete the newer", "uid", spec.UID, "newer", twin.String())
	}
	if changed := r.opts.NodeChanged; changed != nil && known && (was.Name != info.Name || was.Key != info.Key && was.Key != "") {
		changed(was, info)
	}
	return nil
}

// put replaces the entry of a node and returns the previous one. Where another row has the same uid, the older
// node keeps the machine, and twin names the newer. Where another has the same key, the older node keeps the
// key, and sharer names the newer.
func (x *nodeIndex) put(key Key, info *NodeInfo) (was NodeInfo, known bool, twin, sharer Key) {
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
		info.Key = x.firstKeys[info.UID] // recorded in memory, not yet in the row
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

// claimKey reserves a key for a machine that is being written, until releaseKeys. taken is true where a node or
// another claim has the key; member is that node. The caller holds enrolling.
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

func (n NodeInfo) member() pki.Member {
	return pki.Member{UID: n.UID, Name: n.Name, Namespace: n.Namespace}
}

// releaseKeys drops all claims of keys.
func (x *nodeIndex) releaseKeys() {
	x.mu.Lock()
	clear(x.claimed)
	x.mu.Unlock()
}

// ephemeralNodes returns the ephemeral nodes and deletes all others from away.
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
