package intent

import (
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// claim keeps that the node of a key comes to have a uid because a file says so: the
// machine of that id is this node from then on.
func (a *application) claim(key Key, uid string) error {
	if other, ok := a.claims[uid]; ok {
		return model.Errorf(model.Conflict, "%s and %s have the same spec.uid: one machine cannot be two nodes", other, key).
			WithHint("leave spec.uid out: it is given when a machine joins")
	}
	if err := a.service.claimed(key, uid); err != nil {
		return err
	}
	if a.claims == nil {
		a.claims = map[string]Key{}
	}
	a.claims[uid] = key
	return nil
}

// claimed says why a node cannot have a uid: another has it, or its machine is a node no
// more. What came to an end in the open is not undone by a file that was written before.
func (s *Service) claimed(key Key, uid string) error {
	id, err := uuid.Parse(uid)
	if err != nil {
		return nil // not an id; Validate says so
	}
	if info, ok := s.LookupNode(id); ok && (Key{"Node", info.Namespace, info.Name}) != key {
		return model.Errorf(model.Conflict, "the spec.uid of %s is that of %s: one machine cannot be two nodes", key, Key{"Node", info.Namespace, info.Name}).
			WithHint("leave spec.uid out: it is given when a machine joins; another name for the same machine: muster node rename %s %s", info.Name, key.Name)
	}
	if t, ok := s.Tombstone(id); ok {
		return model.Errorf(model.Conflict, "the spec.uid of %s is that of a machine that may not come back: %s", key, t.Sentence()).
			WithHint("leave spec.uid out, and the node waits for a machine; to let this one back in: muster node forgive %s, then apply again", uid)
	}
	return nil
}
