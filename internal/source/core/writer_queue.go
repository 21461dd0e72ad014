package core

import (
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Lane is one of a session's two send queues, for short messages (acknowledgements) or long messages
// (assignments). Acknowledgements are short, assignments are long. Two exist so that urgent short messages do
// not wait behind long ones.
type Lane uint8

const (
	Acks   Lane = iota // acknowledgements and pings
	Pushes             // assignments, requests, and the end of a session
	lanes
)

// MessageSet is a bit set of message kinds that the server must still send in a session. Each kind has one bit.
type MessageSet uint16

// Outgoing records, for each send queue of a session, which kinds of messages the server must still send.
// Window.Mu guards it.
type Outgoing struct {
	duties [lanes]MessageSet
	queued [lanes]bool // the session is in the lane's outbox, or a writer has it
}

// BlockWriters keeps writer goroutines from sending in a new session, so that its first message comes first.
// Its first message thus precedes all others.
func (o *Outgoing) BlockWriters() { o.queued = [lanes]bool{true, true} }

// Sender is a session with pending messages, which a writer goroutine sends by Flush. Only one writer per lane calls
// Flush, so messages of one lane keep their order.
type Sender interface {
	Base() *Session
	// Flush writes the messages of duties. After an error the writer closes the connection and calls FlushFailed.
	Flush(w *WriteBuffers, duties MessageSet) error
	FlushFailed()
}

// WriteBuffers holds the buffers that a writer reuses to encode messages without allocation.
type WriteBuffers struct {
	Frame []byte // begins with wsconn.Headroom
	More  any    // memory of the source, kept from one session to the next
}

// NewFrame returns an empty message frame with free space at the start for the frame header.
func (w *WriteBuffers) NewFrame() []byte { return w.Frame[:wsconn.Headroom] }

const (
	scratchBytes    = 4096
	maxScratchBytes = 256 << 10 // a longer Scratch.Frame is dropped after use
)

// WriterQueue is a queue of sessions with pending messages to agents, for the writer goroutines. A session is
// in it at most once, so the list is never longer than the number of sessions, and duties that are added
// meanwhile are written together.
type WriterQueue[S Sender] struct {
	lane       Lane
	life       *Goroutines
	countStuck func() // counts a replaced writer
	mu         sync.Mutex
	filled     sync.Cond
	ring       []S
	head       int
	n          int
	closed     bool

	passed           uint64
	takenAtLastNudge uint64 // number of sessions taken when Nudge looked last
}

// sessionsPerWriter is the number of waiting sessions that wakes one more writer.
const sessionsPerWriter = 64

// NewWriterQueue returns an empty queue of sessions, and adds the queue to the queue metrics. stuck counts
// replaced writers.
func NewWriterQueue[S Sender](life *Goroutines, lane Lane, name string, sessions int, r *queue.Registry, stuck func()) *WriterQueue[S] {
	o := &WriterQueue[S]{lane: lane, life: life, countStuck: stuck, ring: make([]S, 64)}
	o.filled.L = &o.mu
	r.Register(name, func() queue.Info {
		o.mu.Lock()
		defer o.mu.Unlock()
		return queue.Info{Name: name, Capacity: int64(sessions), Depth: int64(o.n), Unit: "items", Policy: queue.Merge, Passed: o.passed}
	})
	return o
}

// Add marks kinds of messages as due for a session, and queues the session for a writer goroutine.
func (o *WriterQueue[S]) Add(x S, duties MessageSet) {
	b := x.Base()
	b.Mu.Lock()
	defer b.Mu.Unlock()
	o.AddLocked(x, duties)
}

// AddLocked marks kinds of messages as to be sent and queues the session, for callers with its lock.
func (o *WriterQueue[S]) AddLocked(x S, duties MessageSet) {
	out := &x.Base().Outgoing
	out.duties[o.lane] |= duties
	if !out.queued[o.lane] {
		out.queued[o.lane] = true
		o.queueSession(x)
	}
}

// UnblockWriters lets writer goroutines send a new session's messages, which BlockWriters held back until now.
func (o *WriterQueue[S]) UnblockWriters(x S) {
	b := x.Base()
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Outgoing.queued[o.lane] = false
	if b.Outgoing.duties[o.lane] != 0 {
		o.AddLocked(x, 0)
	}
}

// queueSession queues a session with messages to send for the writer goroutines. The caller holds its Mu.
func (o *WriterQueue[S]) queueSession(x S) {
	o.mu.Lock()
	if o.n == len(o.ring) {
		grown := make([]S, 2*o.n)
		copied := copy(grown, o.ring[o.head:])
		copy(grown[copied:], o.ring[:o.head])
		o.ring, o.head = grown, 0
	}
	o.ring[(o.head+o.n)%len(o.ring)] = x
	o.n++
	o.passed++
	// One writer empties a short list faster than a second one wakes up. More wake where many sessions wait, or where
	// Nudge finds no progress.
	wake := o.n%sessionsPerWriter == 1
	o.mu.Unlock()
	if wake {
		o.filled.Signal()
	}
}

// AddWriterIfStuck starts another writer goroutine if no queued session was served since the last call. Peers
// that do not read may block all writers. Call it once a second.
func (o *WriterQueue[S]) AddWriterIfStuck() {
	o.mu.Lock()
	taken := o.passed - uint64(o.n)
	idle := o.n > 0 && taken == o.takenAtLastNudge
	o.takenAtLastNudge = taken
	o.mu.Unlock()
	if idle {
		o.filled.Signal()
	}
}

// takeSession waits for a session in the queue, and takes the session out for a writer goroutine. It returns
// false if the outbox is closed and empty.
func (o *WriterQueue[S]) takeSession() (x S, ok bool) {
	var none S
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.n == 0 && !o.closed {
		o.filled.Wait()
	}
	if o.n == 0 {
		return none, false
	}
	x, o.ring[o.head] = o.ring[o.head], none
	o.head = (o.head + 1) % len(o.ring)
	o.n--
	return x, true
}

// Len returns how many sessions wait for a writer goroutine.
func (o *WriterQueue[S]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// Close stops the writer goroutines after the last queued session.
func (o *WriterQueue[S]) Close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.filled.Broadcast()
}

// Start starts n goroutines that write the messages of queued sessions.
func (o *WriterQueue[S]) Start(n int) {
	for range n {
		o.life.writers.Go(o.runWriter)
	}
}

// stuckWriterTimeout is the time after which a writer that works for one session is replaced.
const stuckWriterTimeout = 250 * time.Millisecond

// runWriter writes the pending messages of queued sessions until the queue is closed. A peer that does not read
// blocks its writer until the write times out, and a few such peers would block all writers. So a stuck writer
// is replaced, and ends when its write returns: a peer delays no other, and there are never more writers than
// peers that do not read and the started ones.
func (o *WriterQueue[S]) runWriter() {
	w := &WriteBuffers{Frame: make([]byte, wsconn.Headroom, scratchBytes)}
	timer := time.AfterFunc(time.Hour, o.replaceWriter)
	timer.Stop()
	for {
		x, ok := o.takeSession()
		if !ok {
			return
		}
		timer.Reset(stuckWriterTimeout)
		b := x.Base()
		for {
			b.Mu.Lock()
			duties := b.Outgoing.duties[o.lane]
			b.Outgoing.duties[o.lane] = 0
			b.Outgoing.queued[o.lane] = duties != 0
			b.Mu.Unlock()
			if duties == 0 {
				break
			}
			if err := x.Flush(w, duties); err != nil {
				_ = b.Conn.Close() // the reader of the connection then ends the session
				x.FlushFailed()
			}
		}
		if !timer.Stop() {
			return // another writer has replaced this one
		}
		if cap(w.Frame) > maxScratchBytes {
			w.Frame = make([]byte, wsconn.Headroom, scratchBytes)
		}
	}
}

// replaceWriter starts a new writer goroutine in place of a stuck writer, unless the queue is closed.
func (o *WriterQueue[S]) replaceWriter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.countStuck()
		o.life.writers.Go(o.runWriter)
	}
}
