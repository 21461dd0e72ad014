package muster

import (
	"iter"
	"sync"
)

// stacks are lent to sessions for the time of one message. A session waits nearly always,
// and to wait takes no more than the stack that every goroutine begins with; to handle a
// message takes more, and a goroutine's stack that has grown stays. So the message is
// handled in a coroutine that all sessions use in turn: to switch there and back costs a
// fraction of a microsecond and wakes no thread, as handing over by a channel would.
type stacks struct {
	mu   sync.Mutex
	free []*stack
}

// stacksKept bounds those that nobody uses.
const stacksKept = 64

// stack is one coroutine. x and cause belong to who has it.
type stack struct {
	x     *session
	cause string
	next  func() (struct{}, bool)
	stop  func()
}

func newStack() *stack {
	k := new(stack)
	k.next, k.stop = iter.Pull(func(done func(struct{}) bool) {
		for {
			if k.cause = k.x.message(); !done(struct{}{}) {
				return
			}
		}
	})
	return k
}

// message has x.message called on a borrowed stack.
func (s *stacks) message(x *session) (cause string) {
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
	k.x = x
	k.next()
	cause, k.x = k.cause, nil
	s.mu.Lock()
	keep := len(s.free) < stacksKept
	if keep {
		s.free = append(s.free, k)
	}
	s.mu.Unlock()
	if !keep {
		k.stop()
	}
	return cause
}

// close ends those that nobody uses; call it after the last reader.
func (s *stacks) close() {
	for _, k := range s.free {
		k.stop()
	}
	s.free = nil
}
