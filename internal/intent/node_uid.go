package intent

import (
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// claimUID records that a file gives a node its uid: the machine of that uid is this node from then on.
func (a *application) claimUID(key Key, uid string) error {
	if other, ok := a.claims[uid]; ok {
		return model.Errorf(model.Conflict, "%s and %s have the same spec.uid: one machine cannot be two nodes", other, key).
			WithHint("leave spec.uid out: it is given when a machine joins")
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

// checkUID refuses a uid that another node has, or whose machine has a tombstone. A file from before does not undo
// a removal.
func (r *repository) checkUID(key Key, uid string) error {
	id, err := uuid.Parse(uid)
	if err != nil {
		return nil // not an id; Validate says so
	}
	if info, ok := r.nodes.lookup(id); ok && (Key{"Node", info.Namespace, info.Name}) != key {
		return model.Errorf(model.Conflict, "the spec.uid of %s is that of %s: one machine cannot be two nodes", key, Key{"Node", info.Namespace, info.Name}).
			WithHint("leave spec.uid out: it is given when a machine joins; another name for the same machine: muster node rename %s %s", info.Name, key.Name)
	}
	if t, ok := r.tombstones.lookup(uid); ok {
		return model.Errorf(model.Conflict, "the spec.uid of %s is that of a machine that may not come back: %s", key, t.Sentence()).
			WithHint("leave spec.uid out, and the node waits for a machine; to let this one back in: muster node forgive %s, then apply again", uid)
	}
	return nil
}
