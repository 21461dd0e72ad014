package intent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// tombstoneKind is the kind of database rows about removed nodes and refused machines. The name of such a row is the
// uid of the node; for a tombstone of one machine, keyTombstone and the fingerprint of the machine's key.
const (
	tombstoneKind = "tombstone"
	keyTombstone  = "key:"
)

// Reasons of a tombstone, the record of a removed node or refused machine. Refuse messages carry the reasons as codes.
const (
	ReasonRetired   = "retired"   // an operator took the node out of service
	ReasonReplaced  = "replaced"  // another machine took over the node
	ReasonDeclined  = "refused"   // an operator refused the machine that asked to join
	ReasonForgotten = "forgotten" // an ephemeral node that was away for too long
	ReasonDeleted   = "deleted"   // the node was deleted like any resource
)

// Tombstone records why a node was removed or a machine refused, so that the machine cannot join again. The
// server tells the machine the reason.
type Tombstone struct {
	Name      string    `json:"name"` // name of the node
	Namespace string    `json:"namespace,omitempty"`
	Key       string    `json:"key,omitempty"` // fingerprint of its machine's key, if that is known
	Cause     string    `json:"cause"`
	Reason    string    `json:"reason,omitempty"` // as the operator wrote it
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until,omitzero"` // zero: for good
}

// Sentence says in one sentence why a machine was removed or refused. It names the person, the time and the reason.
func (t *Tombstone) Sentence() string {
	what := map[string]string{
		ReasonRetired: "was retired", ReasonReplaced: "belongs to another machine now: this one was replaced", ReasonDeclined: "was refused",
		ReasonForgotten: "was deleted because its agent was disconnected for too long", ReasonDeleted: "was deleted",
	}[t.Cause]
	who := "node " + t.Name
	switch {
	case t.Name == "":
		who = "this machine"
	case t.Cause == ReasonDeclined: // the machine never was a node
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

// Hint returns the advice for an operator whose machine is refused. The advice names the command that lets the machine
// join again.
func (t *Tombstone) Hint() string {
	switch t.Cause {
	case ReasonReplaced:
		return "on the server, if this machine is " + t.Name + " anyway: muster node replace " + t.Name + ", if it is another: muster node token; " + pki.HintRunJoinLine
	case ReasonForgotten:
		return "join it again; " + pki.HintJoinAgain
	}
	return "to undo that, " + pki.HintJoinAgain
}

// Err returns the error for a refused machine. The machine was retired, replaced or refused before.
func (t *Tombstone) Err() error {
	return model.Errorf(model.Forbidden, "%s", t.Sentence()).WithHint("%s", t.Hint())
}

// write returns the database write that stores the tombstone under the given name of its row. A tombstone is
// the record of a removed node or refused machine.
func (t Tombstone) write(name string) Write {
	body, err := json.Marshal(t)
	if err != nil {
		panic("BUG: tombstone cannot be encoded: " + err.Error())
	}
	return Write{Key: Key{Kind: tombstoneKind, Name: name}, Body: body, Expect: -1}
}

// Tombstones finds and deletes tombstones, the records of removed nodes and refused machines.
type Tombstones struct{ *repository }

// tombstoneIndex has all tombstones in memory. A tombstone is the record of a removed node or refused machine.
type tombstoneIndex struct {
	now func() time.Time

	mu    sync.RWMutex
	byRow map[string]Tombstone // by the row's name
	byKey map[string]string    // the row's name, by the fingerprint of the key
}

// newTombstoneIndex returns an empty index of tombstones. now is the clock for their expiry.
func newTombstoneIndex(now func() time.Time) tombstoneIndex {
	return tombstoneIndex{now: now, byRow: map[string]Tombstone{}, byKey: map[string]string{}}
}

// putRow adds the tombstone of a database row to the index
func (x *tombstoneIndex) putRow(row Row) error {
	var t Tombstone
	if err := json.Unmarshal(row.Body, &t); err != nil {
		return fmt.Errorf("decode the stored record %s: %w", row.Key, err)
	}
	if key, ok := strings.CutPrefix(row.Name, keyTombstone); ok {
		t.Key = key
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byRow[row.Name] = t
	if t.Key != "" {
		x.byKey[t.Key] = row.Name
	}
	return nil
}

// removeRow removes the tombstone of a database row from the index
func (x *tombstoneIndex) removeRow(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t := x.byRow[name]; x.byKey[t.Key] == name {
		delete(x.byKey, t.Key)
	}
	delete(x.byRow, name)
}

// isActive reports whether a tombstone has not expired. A tombstone is the record of a removed node or refused
// machine.
func (t *Tombstone) isActive(now time.Time) bool { return t.Until.IsZero() || now.Before(t.Until) }

// lookupRow returns an unexpired tombstone by the name under which the database stores the tombstone.
func (x *tombstoneIndex) lookupRow(name string) (Tombstone, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t, ok := x.byRow[name]
	return t, ok && t.isActive(x.now())
}

// lookupKey returns a tombstone by the fingerprint of the machine's key, unless the tombstone has expired
func (x *tombstoneIndex) lookupKey(key string) (Tombstone, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t, ok := x.byRow[x.byKey[key]]
	return t, ok && t.isActive(x.now())
}

// deletionWrites returns the database write that deletes a tombstone, found by its name in the database. It
// returns nil if the row does not exist.
func (x *tombstoneIndex) deletionWrites(name string) []Write {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if _, ok := x.byRow[name]; !ok {
		return nil
	}
	return []Write{{Key: Key{Kind: tombstoneKind, Name: name}, Expect: -1}}
}

// expiredWrites returns the database writes that delete expired tombstones. A tombstone is the record of a removed
// node.
func (x *tombstoneIndex) expiredWrites() (writes []Write) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for name, t := range x.byRow {
		if !t.isActive(x.now()) {
			writes = append(writes, Write{Key: Key{Kind: tombstoneKind, Name: name}, Expect: -1})
		}
	}
	return writes
}

// list returns the matching tombstones that have not expired, the newest first. match selects the tombstones.
func (x *tombstoneIndex) list(match func(*Tombstone) bool) (list []TombstoneEntry) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for id, t := range x.byRow {
		if t.isActive(x.now()) && match(&t) {
			list = append(list, TombstoneEntry{id, t})
		}
	}
	slices.SortFunc(list, func(a, b TombstoneEntry) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID)) })
	return list
}

// Tombstone returns the tombstone of a removed node by its uid, from memory.
func (s *Tombstones) Tombstone(uid uuid.UUID) (Tombstone, bool) {
	return s.tombstones.lookupRow(uid.String())
}

// TombstoneByKey returns the tombstone of a machine by the fingerprint of its key, from memory.
func (s *Tombstones) TombstoneByKey(key string) (Tombstone, bool) { return s.tombstones.lookupKey(key) }

// TombstoneByName returns the latest tombstone of a node name, from memory.
func (s *Tombstones) TombstoneByName(namespace, name string) (Tombstone, bool) {
	list := s.tombstones.list(func(t *Tombstone) bool { return t.Namespace == namespace && t.Name == name })
	if len(list) == 0 {
		return Tombstone{}, false
	}
	return list[0].Tombstone, true
}

// BlockKey forbids the machine with a given key to join, by storing a tombstone. So the machine can no longer join. It
// sets By and At.
func (s *Tombstones) BlockKey(ctx context.Context, by Actor, key string, t Tombstone) error {
	t.Key, t.By, t.At = key, by.User, s.opts.Now().UTC()
	_, err := s.commit(ctx, by, []Write{t.write(keyTombstone + key)})
	return err
}

// TombstoneEntry is a tombstone, together with the name under which the database stores the tombstone. A
// tombstone is the record of a removed node or refused machine.
type TombstoneEntry struct {
	ID string
	Tombstone
}

// ListTombstones returns all tombstones that have not expired, the newest first
func (s *Tombstones) ListTombstones() []TombstoneEntry {
	return s.tombstones.list(func(*Tombstone) bool { return true })
}

// DeleteTombstone deletes the tombstone of a refused machine. Then the machine may ask to join again.
func (s *Tombstones) DeleteTombstone(ctx context.Context, by Actor, id string) error {
	writes := s.tombstones.deletionWrites(id)
	if writes == nil {
		return ErrNoTombstone(id)
	}
	_, err := s.commit(ctx, by, writes)
	return err
}

// ErrNoTombstone returns the error about a missing record of a removed node (tombstone)
func ErrNoTombstone(id string) error {
	return model.Errorf(model.NotFound, "tombstone %s does not exist", id).WithHint("list tombstones: muster node list --retired")
}

// reservedNames has the node names that a machine cannot take by merely joining under the name. Trusted groups and
// checks with secrets list these names. A joining machine cannot take a reserved name that no node has (after a
// deletion): the name alone would bring the machine into the group.
type reservedNames struct {
	mu     sync.Mutex
	listed map[Key][]Key // node names by the listing group or check; an empty namespace means any
	count  map[Key]int
}

// newReservedNames returns an empty set of node names reserved for trusted groups.
func newReservedNames() reservedNames {
	return reservedNames{listed: map[Key][]Key{}, count: map[Key]int{}}
}

// nodeKeys returns the database keys of the nodes that a resource lists by name.
func nodeKeys(namespace string, refs []string) (names []Key) {
	for _, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		if ns == model.SharedNamespaceName {
			ns = ""
		}
		names = append(names, Key{"Node", ns, name})
	}
	return names
}

// reserveNames replaces the node names that machines cannot take, because one group or check lists the names.
// nil releases all its names.
func (t *reservedNames) reserveNames(group Key, names []Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range t.listed[group] {
		if t.count[name]--; t.count[name] == 0 {
			delete(t.count, name)
		}
	}
	delete(t.listed, group)
	if len(names) == 0 {
		return
	}
	t.listed[group] = names
	for _, name := range names {
		t.count[name]++
	}
}

// contains reports whether a node name is reserved. A trusted group or a check with secrets lists a reserved name.
func (t *reservedNames) contains(namespace, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count[Key{"Node", namespace, name}]+t.count[Key{"Node", "", name}] > 0
}

// isTrustedNode reports whether a node belongs to a trusted group. The group contains the node by its name or by its
// properties. After an error no machine may become the node.
func (s *Enrolment) isTrustedNode(ctx context.Context, node model.NodeID, namespace, name string) (bool, error) {
	if s.reserved.contains(namespace, name) {
		return true, nil
	}
	if s.opts.Trusted == nil {
		return false, nil
	}
	group, err := s.opts.Trusted(ctx, node)
	return group != "", err
}
