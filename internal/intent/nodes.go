package intent

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Nodes answers for nodes with a machine, and removes ephemeral ones that stay away.
type Nodes struct{ *repository }

func (x *nodeIndex) lookup(uid uuid.UUID) (NodeInfo, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	info, ok := x.byUID[uid]
	return info, ok
}

func (x *nodeIndex) lookupKey(key string) (NodeInfo, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	uid, ok := x.byKey[key]
	return x.byUID[uid], ok
}

// LookupNode finds a node by its uid, from memory.
func (s *Nodes) LookupNode(uid uuid.UUID) (NodeInfo, bool) { return s.nodes.lookup(uid) }

// LookupKey finds a node by the fingerprint of its machine's key, from memory.
func (s *Nodes) LookupKey(key string) (NodeInfo, bool) { return s.nodes.lookupKey(key) }

// HasMachine reports whether the node of a name has a machine, and is not only declared.
func (s *Nodes) HasMachine(namespace, name string) bool {
	return s.nodes.hasMachine([]string{namespace}, name)
}

// RecordFirstKey records the key of a node that has none: in memory at once, and WriteReports writes it soon. It
// returns the key on record afterwards. Where another node has the key, or is about to get it, holder names that
// node and nothing is recorded: no two nodes share a key.
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

// BulkNode is a node created without enrolment, for load tests.
type BulkNode struct {
	UID    uuid.UUID
	Name   string
	Labels map[string]string
	Groups []string
	// Keepalive is its interval and timeout; nil: the defaults.
	Keepalive *model.Keepalive
}

// CreateNodes creates nodes in transactions of at most 5,000; existing ones stay as they are.
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
	for chunk := range slices.Chunk(writes, 5000) {
		if _, err := s.commit(ctx, by, chunk); err != nil {
			return err
		}
	}
	return nil
}
