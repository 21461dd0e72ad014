package intent

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// replaceableNode returns the node whose machine the bearer of a token replaces: the node that the token names, or,
// where the token allows it, the node of the wanted name after a long enough absence. A name proves little: no
// machine replaces one in a trusted group by name alone.
func (s *Enrolment) replaceableNode(ctx context.Context, token pki.JoinToken, namespace, name string) (node NodeInfo, ok bool, err error) {
	if token.Node != uuid.Nil {
		node, ok = s.nodes.lookup(token.Node)
		return node, ok, nil
	}
	if !token.Replace {
		return node, false, nil
	}
	s.nodes.mu.RLock()
	node, ok = s.nodes.byUID[s.nodes.keys[Key{"Node", namespace, name}]]
	s.nodes.mu.RUnlock()
	if !ok || s.opts.Connected != nil && s.opts.Connected(node.ID) {
		return node, false, nil // a connected node is another machine of that name
	}
	trusted, err := s.isTrustedNode(ctx, node.ID, namespace, name)
	if err != nil {
		return node, false, err
	}
	if trusted {
		return node, false, model.Errorf(model.Forbidden, "node %s is in a trusted group: no machine takes its place by its name", name).
			WithHint("if this is that machine, on the server: muster node replace %s; if it is another, give it another name: --name", name)
	}
	if s.opts.Absent == nil {
		return node, true, nil
	}
	if wait := s.opts.Absent(node); wait > 0 {
		return node, false, model.Errorf(model.Conflict, "node %s may only be away for a moment: its place can be taken by its name in %s, if it does not come back", name, max(wait.Round(time.Second), time.Second)).
			WithHint("repeat it then; at once, on the server: muster node replace %s", name)
	}
	return node, true, nil
}

// replacedTombstoneLife is the life of a replaced machine's tombstone: until its last certificate can be neither used nor renewed.
func (s *Enrolment) replacedTombstoneLife() time.Duration {
	return cmp.Or(s.opts.CertificateLife, pki.NodeLife) + pki.RenewableFor
}

// replaceMachine gives a node the machine of a key. The node keeps its ids, events and history; the former machine
// gets a tombstone.
func (s *Enrolment) replaceMachine(ctx context.Context, node NodeInfo, key string, token pki.JoinToken, request pki.EnrolRequest) (pki.Member, error) {
	by := Actor{User: "token:" + token.ID, Why: "replaced the machine"}
	s.writing.Lock() // no write comes between reading and writing
	defer s.writing.Unlock()
	node, ok := s.nodes.lookup(node.UID)
	if !ok {
		return pki.Member{}, model.Errorf(model.NotFound, "the node whose place it was to take went meanwhile").WithHint("let the machine ask again")
	}
	at := Key{"Node", node.Namespace, node.Name}
	row, err := s.opts.Store.Get(ctx, at)
	if err != nil {
		return pki.Member{}, err
	}
	r, err := s.decode(row)
	if err != nil {
		return pki.Member{}, err
	}
	spec := r.Spec.(*model.NodeSpec)
	used, err := JoinTokens{s.opts.Store}.use(ctx, token)
	if err != nil {
		return pki.Member{}, err
	}
	writes := append(s.tombstones.liftWrites(keyTombstone+key), used...)
	if node.Key != "" && node.Key != key {
		old := Tombstone{Name: node.Name, Namespace: node.Namespace, Key: node.Key, Why: ReasonReplaced, Reason: token.Note, By: token.By, At: s.opts.Now().UTC()}
		old.Until = old.At.Add(s.replacedTombstoneLife())
		writes = append(writes, old.write(keyTombstone+node.Key))
	}
	spec.Key = key
	if request.Facts != nil {
		spec.Facts = request.Facts
	}
	body, err := encode(r)
	if err != nil {
		return pki.Member{}, err
	}
	_, err = s.commitLocked(ctx, by, append(writes, Write{Key: at, Body: body, Expect: row.Revision}))
	return pki.Member{UID: node.UID, Name: node.Name, Namespace: node.Namespace}, err
}
