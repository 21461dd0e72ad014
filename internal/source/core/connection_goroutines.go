package core

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/wsconn"
)

// Goroutines starts the goroutines of a source (protocol server), and stops the goroutines in the right order.
// They are one reader per connection, and the writers that send messages to agents.
type Goroutines struct {
	// Base is the context of all goroutines. Stop ends it, so that no append to the journal and no wait goes on.
	Base     context.Context
	cancel   context.CancelFunc
	stopping atomic.Bool
	readers  sync.WaitGroup
	writers  sync.WaitGroup // replacements of stuck writers included
	stacks   stackPool
}

// NewGoroutines returns an empty group of goroutines for one source of results. It accepts goroutines until the
// source stops, and then waits for their end.
func NewGoroutines() *Goroutines {
	l := new(Goroutines)
	l.Base, l.cancel = context.WithCancel(context.Background())
	return l
}

// Go starts a goroutine that Stop ends after all session readers. The work ends when Base does.
func (l *Goroutines) Go(work func()) { l.writers.Go(work) }

// Stopping reports whether Stop was called.
func (l *Goroutines) Stopping() bool { return l.stopping.Load() }

// Stop stops first the goroutines that read from sessions, then the writers of messages to agents. The readers
// still queue messages. The message queues and their writers end after that. closeConnections closes all
// sessions' connections, so that their readers end.
func (l *Goroutines) Stop(closeConnections func(), outboxes ...interface{ Close() }) {
	l.stopping.Store(true)
	l.cancel()
	closeConnections()
	l.readers.Wait()
	l.stacks.close()
	for _, o := range outboxes {
		o.Close()
	}
	l.writers.Wait()
}

// AddReader counts a goroutine that reads a session, before the start of the goroutine. It returns false if the
// source is stopping, and then the caller must not start the goroutine.
func (l *Goroutines) AddReader() bool {
	l.readers.Add(1)
	if l.stopping.Load() {
		l.readers.Done()
		return false
	}
	return true
}

// RemoveReader undoes AddReader for a reader goroutine that does not start after all.
func (l *Goroutines) RemoveReader() { l.readers.Done() }

// Handler is the interface by which a reader goroutine hands messages and read errors to a session. It is the
// interface of the session to its reader goroutine.
type Handler interface {
	// Message reads and handles one message. If it returns a cause (a metric label), the session ends.
	Message() (cause string)
	// ReadFailed returns the cause of a failed read (a metric label). A peer that breaks the protocol is sent the
	// reason.
	ReadFailed(err error) (cause string)
	// End is called after the last message, when the session ends.
	End(cause string)
}

// Read passes each message of a connection to the session until the session ends. It is the reader goroutine of a
// session that AddReader has counted.
func (l *Goroutines) Read(conn *wsconn.Conn, x Handler) {
	defer l.readers.Done()
	var cause string
	for cause == "" {
		if err := conn.Wait(); err != nil {
			cause = x.ReadFailed(err)
		} else {
			cause = l.stacks.handleMessage(x)
		}
	}
	x.End(cause)
}

// stackPool keeps grown goroutine stacks for handling messages, so that idle sessions need only small stacks.
// Idle sessions then need little memory. A session waits nearly always, and waiting needs only the stack with
// which every goroutine starts. Handling a message needs more, and a goroutine keeps a stack that has grown. So
// messages are handled in coroutines that all sessions of a source share: the switch there and back costs a
// fraction of a microsecond and wakes no thread, unlike a channel.
type stackPool struct {
	mu   sync.Mutex
	free []*pooledStack
}

// MaxFreeStacks limits the stacks in the pool that no session uses.
const MaxFreeStacks = 64

// pooledStack is a coroutine with an already grown stack, on which sessions handle messages in turn. It handles
// messages for one session after another. handler and cause belong to the session that borrows it.
type pooledStack struct {
	handler Handler
	cause   string
	next    func() (struct{}, bool)
	stop    func()
}

// newPooledStack starts a coroutine that handles messages for sessions, one at a time.
func newPooledStack() *pooledStack {
	k := new(pooledStack)
	k.next, k.stop = iter.Pull(func(done func(struct{}) bool) {
		for {
			if k.cause = k.handler.Message(); !done(struct{}{}) {
				return
			}
		}
	})
	return k
}

// handleMessage handles a message of a session on a pooled goroutine stack. An idle session keeps only its own
// small initial stack.
func (s *stackPool) handleMessage(x Handler) (cause string) {
	s.mu.Lock()
	var k *pooledStack
	if n := len(s.free); n > 0 {
		k, s.free[n-1] = s.free[n-1], nil
		s.free = s.free[:n-1]
	}
	s.mu.Unlock()
	if k == nil {
		k = newPooledStack()
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

// close ends the waiting coroutines of the pool of stacks. The caller has ended all readers before.
func (s *stackPool) close() {
	for _, k := range s.free {
		k.stop()
	}
	s.free = nil
}

// FreeStacks returns the number of pooled goroutine stacks that no session uses now.
func (l *Goroutines) FreeStacks() int {
	l.stacks.mu.Lock()
	defer l.stacks.mu.Unlock()
	return len(l.stacks.free)
}

// ReadCause converts an error of reading from an agent to a short cause, such as too_large, for metrics.
func ReadCause(err error) string {
	var closed *wsconn.CloseError
	switch {
	case errors.Is(err, wsconn.ErrTooLarge):
		return "too_large"
	case errors.Is(err, wsconn.ErrProtocol):
		return "websocket"
	case errors.As(err, &closed):
		return "closed"
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
		return "cut" // the server closed the connection
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "eof"
	}
	return "network"
}

// maxClockStep limits one step of the clock. While the process was stopped, it could not receive, so nobody was
// silent.
const maxClockStep = 2 * time.Second

// Clock is a cached clock that counts only the time while the server could receive from agents. Run moves it
// once a second; sessions compare it with the time of their last frame.
type Clock struct{ ns atomic.Int64 }

// Start stores the first reading of the cached clock, so that Now can be called.
func (c *Clock) Start(ns int64) { c.ns.Store(ns) }

// Now returns the time of the last clock reading, which is at most a second old.
func (c *Clock) Now() int64 { return c.ns.Load() }

// Run reads the clock once a second until ctx ends, and calls the given function after each reading. The
// arguments are the wall clock and the monotonic reading.
func (c *Clock) Run(ctx context.Context, timeOfDay func() time.Time, step func(at time.Time, now int64)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := timeOfDay()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		at := timeOfDay()
		now := c.ns.Add(int64(min(max(0, at.Sub(last)), maxClockStep)))
		last = at
		step(at, now)
	}
}
