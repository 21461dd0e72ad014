package core

import (
	"context"
	"sync"
	"sync/atomic"

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
			cause = l.stacks.message(x)
		}
	}
	x.End(cause)
}
