// Package queue hands items from goroutine to goroutine in bounded queues: a channel with a name, a
// capacity, an overflow policy and a depth (`muster get queues`; internal/metrics exports
// it). A Registry lists all queues of one server; buffers of another form, such as the
// journal's pending bytes, register themselves too. Kinds lists the server's queues with
// their settings (queue_kinds_and_settings.go); Slots limits concurrent work. In: items of any
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

// Policy is the rule for a new item when a queue is full, such as wait or drop.
type Policy string

const (
	// Block makes the producer wait: back-pressure.
	Block Policy = "block"
	// Drop refuses the new item and counts the loss.
	Drop Policy = "drop"
	// Rederive drops the item; the consumer rebuilds it from the journal.
	Rederive Policy = "rederive"
	// GiveUp does not queue the item and records it in the history as given up.
	GiveUp Policy = "give-up"
	// End disconnects the slow reader, which must then list everything again.
	End Policy = "end"
	// Merge keeps at most one item for each object and merges later changes of the object into it, so that the queue
	// never overflows.
	Merge Policy = "merge"
)

// Info has the state of one queue for display, such as its depth and capacity
type Info struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Depth    int64  `json:"depth"`
	Unit     string `json:"unit"` // items or bytes
	Policy   Policy `json:"policy"`
	Passed   uint64 `json:"passed"`   // number of items ever accepted
	Overflow uint64 `json:"overflow"` // number of items that found the queue full, and waited or were dropped
}

// Registry lists all queues of one server, to show their state. The zero value is ready; nil registers nothing.
type Registry struct {
	settings Settings
	mu       sync.Mutex
	queues   map[string]func() Info
}

// NewRegistry returns a Registry whose queues have the given settings.
func NewRegistry(s Settings) *Registry { return &Registry{settings: s} }

// Bounds returns the capacity and policy of a queue by its name. It prefers the operator's settings to the defaults.
// It panics for an unknown name.
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

// Register adds a queue to the registry, or replaces the queue of the same name. info returns its state.
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

// New creates a queue, and lists the queue in the registry r unless r is nil.
func New[T any](r *Registry, name string, capacity int, policy Policy) *Queue[T] {
	q := &Queue[T]{name: name, policy: policy, items: make(chan T, capacity)}
	r.Register(name, q.Info)
	return q
}

// Put adds an item to the queue, and applies the queue's policy if the queue is full. A full queue makes Put
// wait or fail, as its policy says. If the queue is full, Put waits until ctx ends (Block) or returns ErrFull.
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

// Items returns the channel from which consumers receive the items of the queue.
func (q *Queue[T]) Items() <-chan T { return q.items }

// Close closes the queue, so that no new items are accepted. Consumers can still read the remaining items. The caller
// makes sure that no Put follows.
func (q *Queue[T]) Close() { close(q.items) }

// Info returns the present state of the queue.
func (q *Queue[T]) Info() Info {
	return Info{
		Name: q.name, Capacity: int64(cap(q.items)), Depth: int64(len(q.items)), Unit: "items",
		Policy: q.policy, Passed: q.passed.Load(), Overflow: q.overflow.Load(),
	}
}

// Slots is a counting semaphore that limits concurrent work. It is listed among the queues, with a name, capacity and
// policy.
type Slots struct{ taken *Queue[struct{}] }

// NewSlots creates a semaphore with the name and capacity of a queue kind. It registers the semaphore among the
// queues. It panics for an unknown name.
func NewSlots(r *Registry, name string) *Slots {
	capacity, policy := r.Bounds(name)
	return &Slots{New[struct{}](r, name, int(capacity), policy)}
}

// Enter takes a free slot of the semaphore, or applies the queue's policy if none is free. Without a free slot,
// the queue's policy decides. If none is free, Enter waits until ctx ends (Block) or returns ErrFull. Every
// successful Enter needs one Leave.
func (s *Slots) Enter(ctx context.Context) error { return s.taken.Put(ctx, struct{}{}) }

// Leave frees a slot of the semaphore after Enter.
func (s *Slots) Leave() { <-s.taken.Items() }
