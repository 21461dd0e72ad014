package core

import (
	"iter"
	"sync"
)

// stacks lends a stack to a session for the time of one message. A session waits nearly always, and waiting needs only
// the stack with which every goroutine starts. Handling a message needs more, and a goroutine keeps a stack that has
// grown. So messages are handled in coroutines that all sessions of a source share: the switch there and back costs a
// fraction of a microsecond and wakes no thread, unlike a channel.
type stacks struct {
	mu   sync.Mutex
	free []*stack
}

// MaxFreeStacks bounds the stacks that no session uses.
const MaxFreeStacks = 64

// stack is one coroutine. handler and cause belong to the session that borrows it.
type stack struct {
	handler Handler
	cause   string
	next    func() (struct{}, bool)
	stop    func()
}

func newStack() *stack {
	k := new(stack)
	k.next, k.stop = iter.Pull(func(done func(struct{}) bool) {
		for {
			if k.cause = k.handler.Message(); !done(struct{}{}) {
				return
			}
		}
	})
	return k
}

// message calls x.Message on a borrowed stack.
func (s *stacks) message(x Handler) (cause string) {
	s.mu.Lock()
	var k *stack
	if n := len(s.free); n > 0 {
		k, s.free[n-1] = s.free[n-1], nil
		s.free = s.free[:n-1]
	}
	s.mu.Unlock()
	if k == nil {
		k = newStack()
	}
	k.handler = x
	k.next()
	cause, k.handler = k.cause, nil
	s.mu.Lock()
	keep := len(s.free) < MaxFreeStacks
	if keep {
		s.free = append(s.free, k)
	}
	s.mu.Unlock()
	if !keep {
		k.stop()
	}
	return cause
}

// close ends the free coroutines, after the last reader.
func (s *stacks) close() {
	for _, k := range s.free {
		k.stop()
	}
	s.free = nil
}

// FreeStacks returns the number of stacks that no session uses.
func (l *Life) FreeStacks() int {
	l.stacks.mu.Lock()
	defer l.stacks.mu.Unlock()
	return len(l.stacks.free)
}
