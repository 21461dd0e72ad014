package intent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// tombstoneKind is the kind of the rows that say what became of machines that are nodes no
// more. Such a row is named after the node's immutable id, or, where only one machine of a
// node (or of none) is meant, keyTomb and the fingerprint of its key.
const (
	tombstoneKind = "tombstone"
	keyTomb       = "key:"
)

// Why a machine is a node no more. The codes are those of Refuse.
const (
	ReasonRetired   = "retired"   // an operator took the node out of service
	ReasonReplaced  = "replaced"  // another machine has its place
	ReasonDeclined  = "refused"   // an operator did not let it in
	ReasonForgotten = "forgotten" // an ephemeral node that was away for too long
	ReasonDeleted   = "deleted"   // the node was deleted like any resource
)

// Tombstone is what is kept of a node, or of a machine, that is gone, so that it hears why.
type Tombstone struct {
	Name      string    `json:"name"` // of the node
	Namespace string    `json:"namespace,omitempty"`
	Key       string    `json:"key,omitempty"` // fingerprint of its machine's key, if that is known
	Why       string    `json:"why"`
	Reason    string    `json:"reason,omitempty"` // in somebody's words
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until,omitzero"` // zero: for good
}

// Sentence says what became of the machine: by whom, when and why.
func (t *Tombstone) Sentence() string {
	what := map[string]string{
		ReasonRetired: "was retired", ReasonReplaced: "has another machine now: this one was replaced", ReasonDeclined: "was not let in",
		ReasonForgotten: "was forgotten, because it was away for too long", ReasonDeleted: "was deleted",
	}[t.Why]
	who := "node " + t.Name
	switch {
	case t.Name == "":
		who = "this machine"
	case t.Why == ReasonDeclined: // it never was a node
		who = "machine " + t.Name
	}
	text := fmt.Sprintf("%s %s", who, what)
	if t.By != "" && t.By != "server" {
		text += " by " + t.By
	}
	text += " at " + t.At.UTC().Format(time.RFC3339)
	if t.Reason != "" {
		text += ": " + t.Reason
	}
	return text
}

// Hint is what to type if it should be a node all the same.
func (t *Tombstone) Hint() string {
	switch t.Why {
	case ReasonReplaced:
		return "on the server, if this machine is " + t.Name + " all the same: muster node replace " + t.Name + ", if it is another: muster node token; " + pki.Paste
	case ReasonForgotten:
		return "let it join again; " + pki.JoinAnew
	}
	return "if that is a mistake, " + pki.JoinAnew
}

// Err is how a machine that asks to join hears of it.
func (t *Tombstone) Err() error {
	return model.Errorf(model.Forbidden, "%s", t.Sentence()).WithHint("%s", t.Hint())
}

// BlockKey keeps a tombstone of the machine with this key alone: whatever node it was, or
// wanted to be, others may be. By and At are filled in.
func (s *Service) BlockKey(ctx context.Context, by Actor, key string, t Tombstone) error {
	t.Key, t.By, t.At = key, by.User, s.opts.Now().UTC()
	_, err := s.commit(ctx, by, []Write{t.write(keyTomb + key)})
	return err
}

// write is the tombstone's row.
func (t Tombstone) write(name string) Write {
	body, err := json.Marshal(t)
	if err != nil {
		panic("BUG: tombstone cannot be encoded: " + err.Error())
	}
	return Write{Key: Key{Kind: tombstoneKind, Name: name}, Body: body, Expect: -1}
}

// tombs are the tombstones in memory: sessions and machines that join ask. It is guarded
// by the node index.
type tombs struct {
	by    map[string]Tombstone // by the row's name
	byKey map[string]string    // fingerprint → the row's name
}

func newTombs() tombs { return tombs{by: map[string]Tombstone{}, byKey: map[string]string{}} }

func (x *nodeIndex) tookTombstone(row Row) error {
	var t Tombstone
	if err := json.Unmarshal(row.Body, &t); err != nil {
		return fmt.Errorf("read %s: %w", row.Key, err)
	}
	if key, ok := strings.CutPrefix(row.Name, keyTomb); ok {
		t.Key = key
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tombs.by[row.Name] = t
	if t.Key != "" {
		x.tombs.byKey[t.Key] = row.Name
	}
	return nil
}

func (x *nodeIndex) removeTombstone(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t := x.tombs.by[name]; x.tombs.byKey[t.Key] == name {
		delete(x.tombs.byKey, t.Key)
	}
	delete(x.tombs.by, name)
}

// Tombstone says what became of a node that is there no more, from memory.
func (s *Service) Tombstone(uid uuid.UUID) (Tombstone, bool) { return s.tombstone(uid.String()) }

// TombstoneByKey says what became of the machine that has a key.
func (s *Service) TombstoneByKey(key string) (Tombstone, bool) {
	s.nodes.mu.RLock()
	name := s.nodes.tombs.byKey[key]
	s.nodes.mu.RUnlock()
	return s.tombstone(name)
}

func (s *Service) tombstone(name string) (Tombstone, bool) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	t, ok := s.nodes.tombs.by[name]
	return t, ok && (t.Until.IsZero() || s.opts.Now().Before(t.Until))
}

// TombstoneByName says what became of the last node of a name that is there no more.
func (s *Service) TombstoneByName(namespace, name string) (last Tombstone, ok bool) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	for _, t := range s.nodes.tombs.by {
		if t.Namespace == namespace && t.Name == name && (!ok || t.At.After(last.At)) && (t.Until.IsZero() || s.opts.Now().Before(t.Until)) {
			last, ok = t, true
		}
	}
	return last, ok
}

// RefuseKey implements pki.Registrar.
func (s *Service) RefuseKey(key string) error {
	if t, ok := s.TombstoneByKey(key); ok {
		return t.Err()
	}
	return nil
}

// UnknownNode implements pki.Registrar.
func (s *Service) UnknownNode(node uuid.UUID) bool {
	_, there := s.LookupNode(node)
	_, gone := s.Tombstone(node)
	return !there && !gone
}

// lift takes a tombstone away, if it is there.
func (x *nodeIndex) lift(name string) []Write {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if _, ok := x.tombs.by[name]; !ok {
		return nil
	}
	return []Write{{Key: Key{Kind: tombstoneKind, Name: name}, Expect: -1}}
}

// expired are the tombstones that nobody needs any more.
func (x *nodeIndex) expired(now time.Time) (writes []Write) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for name, t := range x.tombs.by {
		if !t.Until.IsZero() && !now.Before(t.Until) {
			writes = append(writes, Write{Key: Key{Kind: tombstoneKind, Name: name}, Expect: -1})
		}
	}
	return writes
}
