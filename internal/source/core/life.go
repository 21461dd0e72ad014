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

// Life starts and ends the goroutines of a source: one reader per connection, and the writers of its outboxes.
type Life struct {
	// Base ends with Stop: no append and no wait outlasts it.
	Base     context.Context
	cancel   context.CancelFunc
	stopping atomic.Bool
	readers  sync.WaitGroup
	writers  sync.WaitGroup // replacements of stuck writers included
	stacks   stacks
}

// NewLife returns a Life whose goroutines may start.
func NewLife() *Life {
	l := new(Life)
	l.Base, l.cancel = context.WithCancel(context.Background())
	return l
}

// Go runs work whose end Stop awaits after the readers'. The work ends when Base does.
func (l *Life) Go(work func()) { l.writers.Go(work) }

// Stopping reports whether Stop was called.
func (l *Life) Stopping() bool { return l.stopping.Load() }

// Stop ends everything in order: readers first, because they fill the outboxes, then the outboxes and their writers.
// closeConnections closes all sessions' connections, so that their readers end.
func (l *Life) Stop(closeConnections func(), outboxes ...interface{ Close() }) {
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

// AddReader counts a reader that Read will be; false: the source stops, and there must be none.
func (l *Life) AddReader() bool {
	l.readers.Add(1)
	if l.stopping.Load() {
		l.readers.Done()
		return false
	}
	return true
}

// RemoveReader undoes AddReader where Read is not called.
func (l *Life) RemoveReader() { l.readers.Done() }

// Handler is the part of a session that its reader calls.
type Handler interface {
	// Message reads and handles one message. A cause (a metric label) ends the session.
	Message() (cause string)
	// ReadFailed returns the cause of a failed read, and tells a peer that breaks the protocol.
	ReadFailed(err error) (cause string)
	// End is called last.
	End(cause string)
}

// Read handles messages until the session ends. It is the reader goroutine of a session that AddReader has counted.
func (l *Life) Read(conn *wsconn.Conn, x Handler) {
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

// handleMessage calls x.Message on a borrowed stack.
func (s *stacks) handleMessage(x Handler) (cause string) {
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

// ReadCause names the reason why reading from a connection failed, for metrics and logs.
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
		return "cut" // by the server
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "eof"
	}
	return "network"
}

// maxStep bounds one step of the clock: while the process was stopped, it could not receive, so nobody was silent.
const maxStep = 2 * time.Second

// Clock counts listening time in nanoseconds. Run moves it once a second; sessions compare it with the time of their
// last frame.
type Clock struct{ ns atomic.Int64 }

// Start sets the first reading.
func (c *Clock) Start(ns int64) { c.ns.Store(ns) }

// Now returns the last reading.
func (c *Clock) Now() int64 { return c.ns.Load() }

// Run moves the clock once a second until ctx ends and calls step with the time of day and the new reading.
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
		now := c.ns.Add(int64(min(max(0, at.Sub(last)), maxStep)))
		last = at
		step(at, now)
	}
}
