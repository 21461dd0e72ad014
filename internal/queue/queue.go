// Package queue is the bounded hand-off between goroutines: a channel with a name, a
// capacity, an overflow policy and a depth (`muster get queues`; internal/metrics exports
// it). A Registry lists all queues of one server; buffers of another form, such as the
// journal's pending bytes, register themselves too. Kinds lists the server's queues with
// their settings (kinds.go); Slots limits concurrent work. In: items of any
// number of producers. Out: the same items, each to one consumer. No goroutines; one lock
// over the registry's table. Start reading at Queue.Put.
package queue

import (
	"context"
	"errors"
	"sort"
	"sync"
	"sync/atomic"
)

// Policy decides about an item that finds the queue full.
type Policy string

const (
	// Block makes the producer wait: back-pressure.
	Block Policy = "block"
	// Drop refuses the newest item and counts it.
	Drop Policy = "drop"
	// Rederive drops the item; the consumer rebuilds it from the journal.
	Rederive Policy = "rederive"
	// GiveUp records the item as given up, in the history.
	GiveUp Policy = "give-up"
	// End ends the slow reader: it must list again.
	End Policy = "end"
	// Merge has no overflow: each object has at most one entry, and later changes of the
	// object join it.
	Merge Policy = "merge"
)

// Info is the state of one queue for display.
type Info struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Depth    int64  `json:"depth"`
	Unit     string `json:"unit"` // items or bytes
	Policy   Policy `json:"policy"`
	Passed   uint64 `json:"passed"`   // ever accepted
	Overflow uint64 `json:"overflow"` // items that waited or were dropped, by policy
}

// Registry lists the queues of one server. The zero value is ready; nil registers
// nothing.
type Registry struct {
	settings Settings
	mu       sync.Mutex
	queues   map[string]func() Info
}

// NewRegistry returns a Registry whose queues have the given settings.
func NewRegistry(s Settings) *Registry { return &Registry{settings: s} }

// Bounds returns the capacity and the policy of the queue kind of that name. An unknown
// name panics.
func (r *Registry) Bounds(name string) (capacity int64, policy Policy) {
	k, ok := findKind(name)
	if !ok {
		panic("BUG: unknown queue " + name)
	}
	capacity, policy = k.Capacity, k.Policies[0]
	if r == nil {
		return capacity, policy
	}
	set := r.settings[name]
	if set.capacity > 0 {
		capacity = set.capacity
	}
	if set.policy != "" {
		policy = set.policy
	}
	return capacity, policy
}

// Register adds or replaces a queue by name.
func (r *Registry) Register(name string, info func() Info) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues == nil {
		r.queues = map[string]func() Info{}
	}
	r.queues[name] = info
}

// List returns all queues, sorted by name.
func (r *Registry) List() []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Info, 0, len(r.queues))
	for _, info := range r.queues {
		list = append(list, info())
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// ErrFull means that a queue is full and its policy is not Block.
var ErrFull = errors.New("queue is full")

// Queue is a bounded queue of T for any number of producers and consumers.
type Queue[T any] struct {
	name     string
	policy   Policy
	items    chan T
	passed   atomic.Uint64
	overflow atomic.Uint64
}

// New makes a queue and registers it; r may be nil.
func New[T any](r *Registry, name string, capacity int, policy Policy) *Queue[T] {
	q := &Queue[T]{name: name, policy: policy, items: make(chan T, capacity)}
	r.Register(name, q.Info)
	return q
}

// Put adds an item. If the queue is full, Put waits until ctx ends (Block) or returns
// ErrFull.
func (q *Queue[T]) Put(ctx context.Context, item T) error {
	select {
	case q.items <- item:
		q.passed.Add(1)
		return nil
	default:
	}
	q.overflow.Add(1)
	if q.policy != Block {
		return ErrFull
	}
	select {
	case q.items <- item:
		q.passed.Add(1)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Items returns the channel that consumers receive from.
func (q *Queue[T]) Items() <-chan T { return q.items }

// Close ends the queue. The caller makes sure that no Put follows.
func (q *Queue[T]) Close() { close(q.items) }

// Info describes the queue now.
func (q *Queue[T]) Info() Info {
	return Info{
		Name: q.name, Capacity: int64(cap(q.items)), Depth: int64(len(q.items)), Unit: "items",
		Policy: q.policy, Passed: q.passed.Load(), Overflow: q.overflow.Load(),
	}
}

// Slots is a counting semaphore with the name, capacity and policy of a queue.
type Slots struct{ taken *Queue[struct{}] }

// NewSlots returns slots of the queue kind of that name, and registers them. An unknown name panics.
func NewSlots(r *Registry, name string) *Slots {
	capacity, policy := r.Bounds(name)
	return &Slots{New[struct{}](r, name, int(capacity), policy)}
}

// Enter takes a slot. If none is free, Enter waits until ctx ends (Block) or returns
// ErrFull. Every successful Enter needs one Leave.
func (s *Slots) Enter(ctx context.Context) error { return s.taken.Put(ctx, struct{}{}) }

// Leave returns a slot.
func (s *Slots) Leave() { <-s.taken.Items() }
