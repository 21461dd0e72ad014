// Package queue is the one bounded hand-off inside the process: a channel with a
// name, a capacity, an overflow policy and a depth that people can see
// (`muster get queues`; internal/metrics shows them). A Registry knows them all; what
// queues in another form (the journal's pending bytes) registers itself too. Known
// lists the server's queues with what may be set of each (known.go); Slots bounds what
// is under way at the same time (slots.go). No goroutines; one lock over the registry's
// table.
package queue

import (
	"context"
	"errors"
	"sort"
	"sync"
	"sync/atomic"
)

// Policy says what happens to an item when the queue is full.
type Policy string

const (
	// Block makes the producer wait: back-pressure.
	Block Policy = "block"
	// Drop refuses the newest item and counts it.
	Drop Policy = "drop"
	// Rederive drops, and the consumer makes the items again from the journal.
	Rederive Policy = "rederive"
	// GiveUp records what does not fit as given up, where people see it.
	GiveUp Policy = "give-up"
	// End ends the reader that fell behind: it must begin anew.
	End Policy = "end"
	// Merge never overflows: each thing stands in the queue once, and what comes for it
	// meanwhile is done with it.
	Merge Policy = "merge"
)

// Info is one queue as people see it.
type Info struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Depth    int64  `json:"depth"`
	Unit     string `json:"unit"` // items or bytes
	Policy   Policy `json:"policy"`
	Passed   uint64 `json:"passed"`   // ever accepted
	Overflow uint64 `json:"overflow"` // waited or dropped, by policy
}

// Registry lists the queues of one server. The zero value is ready, and nil takes
// what is registered nowhere.
type Registry struct {
	settings Settings
	mu       sync.Mutex
	queues   map[string]func() Info
}

// NewRegistry makes one whose queues are as the settings say.
func NewRegistry(s Settings) *Registry { return &Registry{settings: s} }

// Bounds are the capacity and the policy in force of a known queue.
func (r *Registry) Bounds(name string) (capacity int64, policy Policy) {
	k, ok := find(name)
	if !ok {
		panic("BUG: no queue is called " + name)
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

// Register adds (or replaces) a queue by name.
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

// List returns all queues by name.
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

// ErrFull is what Put returns when the policy is not Block.
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

// Put adds an item. When the queue is full it waits (Block, until ctx ends) or
// returns ErrFull.
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

// Items is where consumers receive.
func (q *Queue[T]) Items() <-chan T { return q.items }

// Close ends the queue; nobody may Put afterwards.
func (q *Queue[T]) Close() { close(q.items) }

// Info describes the queue now.
func (q *Queue[T]) Info() Info {
	return Info{
		Name: q.name, Capacity: int64(cap(q.items)), Depth: int64(len(q.items)), Unit: "items",
		Policy: q.policy, Passed: q.passed.Load(), Overflow: q.overflow.Load(),
	}
}
