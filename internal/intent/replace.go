package intent

import (
	"context"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// place is the node whose machine the bearer of a token becomes: the one that the token
// was made for, or, where the token may replace, the one that has the wanted name and no
// session.
func (s *Service) place(token pki.JoinToken, namespace, name string) (NodeInfo, bool) {
	if token.Node != uuid.Nil {
		return s.LookupNode(token.Node)
	}
	if !token.Replace {
		return NodeInfo{}, false
	}
	s.nodes.mu.RLock()
	node, ok := s.nodes.byUID[s.nodes.keys[Key{"Node", namespace, name}]]
	s.nodes.mu.RUnlock()
	return node, ok && (s.opts.Connected == nil || !s.opts.Connected(node.ID))
}

// takePlace makes the machine with a key that of a node, instead of the one before: the
// node keeps its ids, events and history, and the machine before is told that it was
// replaced.
func (s *Service) takePlace(ctx context.Context, node NodeInfo, key string, token pki.JoinToken, request pki.EnrolRequest) (pki.Member, error) {
	by := Who{User: "token:" + token.ID, Why: "replaced the machine"}
	s.writing.Lock() // nobody writes between what is read and what is written
	defer s.writing.Unlock()
	node, ok := s.LookupNode(node.UID)
	if !ok {
		return pki.Member{}, model.Errorf(model.NotFound, "the node whose place it was to take went meanwhile").WithHint("let the machine ask again")
	}
	at := Key{"Node", node.Namespace, node.Name}
	row, err := s.opts.Store.Get(ctx, at)
	if err != nil {
		return pki.Member{}, err
	}
	r, err := decode(row)
	if err != nil {
		return pki.Member{}, err
	}
	spec := r.Spec.(*model.NodeSpec)
	writes := s.nodes.lift(keyTomb + key)
	if node.Key != "" && node.Key != key {
		old := Tombstone{Name: node.Name, Namespace: node.Namespace, Key: node.Key, Why: Replaced, Reason: token.Note, By: token.By, At: s.opts.Now().UTC()}
		writes = append(writes, old.write(keyTomb+node.Key))
	}
	spec.Key = key
	if request.Facts != nil {
		spec.Facts = request.Facts
	}
	body, err := encode(r)
	if err != nil {
		return pki.Member{}, err
	}
	_, err = s.commitHeld(ctx, by, append(writes, Write{Key: at, Body: body, Expect: row.Revision}))
	return pki.Member{UID: node.UID, Name: node.Name, Namespace: node.Namespace}, err
}
