package intent

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// place is the node whose machine the bearer of a token becomes: the one that the token
// was made for, or, where the token may replace, the one that has the wanted name and was
// away for long enough. A name says little: nobody becomes a node that trusted groups hold
// by it.
func (s *Service) place(ctx context.Context, token pki.JoinToken, namespace, name string) (node NodeInfo, ok bool, err error) {
	if token.Node != uuid.Nil {
		node, ok = s.LookupNode(token.Node)
		return node, ok, nil
	}
	if !token.Replace {
		return node, false, nil
	}
	s.nodes.mu.RLock()
	node, ok = s.nodes.byUID[s.nodes.keys[Key{"Node", namespace, name}]]
	s.nodes.mu.RUnlock()
	if !ok || s.opts.Connected != nil && s.opts.Connected(node.ID) {
		return node, false, nil // who has a session is another machine of that name
	}
	trusted, err := s.trustedNode(ctx, node.ID, namespace, name)
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

// replacedFor is how long a machine that was replaced hears so: until its last certificate
// can be neither used nor renewed.
func (s *Service) replacedFor() time.Duration {
	return cmp.Or(s.opts.CertificateLife, pki.NodeLife) + pki.RenewableFor
}

// takePlace makes the machine with a key that of a node, instead of the one before: the
// node keeps its ids, events and history, and the machine before is told that it was
// replaced.
func (s *Service) takePlace(ctx context.Context, node NodeInfo, key string, token pki.JoinToken, request pki.EnrolRequest) (pki.Member, error) {
	by := Actor{User: "token:" + token.ID, Why: "replaced the machine"}
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
	r, err := s.decode(row)
	if err != nil {
		return pki.Member{}, err
	}
	spec := r.Spec.(*model.NodeSpec)
	used, err := JoinTokens{s.opts.Store}.use(ctx, token)
	if err != nil {
		return pki.Member{}, err
	}
	writes := append(s.nodes.lift(keyTomb+key), used...)
	if node.Key != "" && node.Key != key {
		old := Tombstone{Name: node.Name, Namespace: node.Namespace, Key: node.Key, Why: ReasonReplaced, Reason: token.Note, By: token.By, At: s.opts.Now().UTC()}
		old.Until = old.At.Add(s.replacedFor())
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
