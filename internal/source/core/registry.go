package core

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Registry finds the session of a node: at most one. S is the session of a source.
type Registry[S any] struct {
	mu       sync.RWMutex
	sessions map[model.NodeID]*S
}

// Swap makes x the node's session and returns the older one, which the caller ends. It is refused, with ok false, if
// keep (may be nil) prefers the older one, or if limit (0: none) sessions of other nodes exist.
func (r *Registry[S]) Swap(node model.NodeID, x *S, limit int, keep func(old *S) bool) (old *S, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions == nil {
		r.sessions = make(map[model.NodeID]*S)
	}
	switch old = r.sessions[node]; {
	case old == nil && limit > 0 && len(r.sessions) >= limit:
		return nil, false
	case old != nil && keep != nil && keep(old):
		return old, false
	}
	r.sessions[node] = x
	return old, true
}

// Remove removes x; false: another session has its place.
func (r *Registry[S]) Remove(node model.NodeID, x *S) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[node] != x {
		return false
	}
	delete(r.sessions, node)
	return true
}

// Get returns the session of a node; nil: there is none.
func (r *Registry[S]) Get(node model.NodeID) *S {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.sessions[node]
}

// Len returns the number of sessions.
func (r *Registry[S]) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.sessions)
}

// ForEach calls fn for every session with the lock held: fn must be short and must not call the registry.
func (r *Registry[S]) ForEach(fn func(*S)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, x := range r.sessions {
		fn(x)
	}
}
