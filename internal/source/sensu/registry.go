package sensu

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// registry adds to the sessions of nodes the connections that have sent nothing yet, and the state of nodes that outlives
// their sessions. Lock order: mu, then core.Registry.
type registry struct {
	core.Registry[session]

	mu           sync.Mutex
	unregistered map[*session]struct{} // connections without a node yet
	numbers      map[model.NodeID]*numbers
	sent         map[model.NodeID]*sentSecrets // to agents that have proved their identity
}

// numbers are the stream that the server makes of an agent's messages.
type numbers struct {
	stream wire.StreamID
	last   uint64
	broken atomic.Bool // a commit failed: the next session uses another stream
}

// addUnregistered adds a connection without a node.
func (r *registry) addUnregistered(x *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unregistered == nil {
		r.unregistered = map[*session]struct{}{}
	}
	r.unregistered[x] = struct{}{}
}

// hasPriority reports whether a session keeps its name against a newer one: a proven identity wins, then the later
// connection.
func (x *session) hasPriority(y *session) bool {
	if x.proven != y.proven {
		return x.proven
	}
	return x.Since > y.Since
}

// swap makes x the node's session, gives it its numbers, and returns the older session; not ok: that one stays.
func (r *registry) swap(x *session, stream wire.StreamID) (older *session, ok bool) {
	if older, ok = r.Swap(x.Node.ID, x, 0, func(older *session) bool { return older.hasPriority(x) }); !ok {
		return older, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unregistered, x)
	if x.sent != nil {
		x.sent.uid = x.UID
	}
	if r.numbers == nil {
		r.numbers = map[model.NodeID]*numbers{}
	}
	n := r.numbers[x.Node.ID]
	if n == nil || n.broken.Load() {
		n = &numbers{stream: stream}
		r.numbers[x.Node.ID] = n
	}
	x.numbers = n
	if len(r.numbers) > 2*r.Len()+1024 { // mostly of machines that left; one that returns gets another stream
		maps.DeleteFunc(r.numbers, func(id model.NodeID, _ *numbers) bool { return r.Get(id) == nil })
	}
	return older, true
}

// remove removes x; false: it is not the session of its node.
func (r *registry) remove(x *session) bool {
	r.mu.Lock()
	delete(r.unregistered, x)
	r.mu.Unlock()
	return x.Node.ID != 0 && r.Remove(x.Node.ID, x)
}

// ForEach calls fn for every connection with a lock held: fn must be short.
func (r *registry) ForEach(fn func(*session)) {
	r.Registry.ForEach(fn)
	r.mu.Lock()
	defer r.mu.Unlock()
	for x := range r.unregistered {
		fn(x)
	}
}

// sentSecretsOf returns the secrets that a node's agent got; nil: it gets none.
func (r *registry) sentSecretsOf(node model.NodeID, proven bool) *sentSecrets {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.sent[node]
	if g == nil && proven {
		if r.sent == nil {
			r.sent = map[model.NodeID]*sentSecrets{}
		}
		g = &sentSecrets{}
		r.sent[node] = g
	}
	return g
}

// forgetSentSecrets forgets the secrets of disconnected nodes that exists rejects. exists is called without the lock.
func (r *registry) forgetSentSecrets(exists func(model.NodeID, uuid.UUID) bool) {
	r.mu.Lock()
	away := map[model.NodeID]uuid.UUID{}
	for id, g := range r.sent {
		if g.uid != uuid.Nil && r.Get(id) == nil {
			away[id] = g.uid
		}
	}
	r.mu.Unlock()
	maps.DeleteFunc(away, exists)
	if len(away) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range away {
		if r.Get(id) == nil {
			delete(r.sent, id)
		}
	}
}
