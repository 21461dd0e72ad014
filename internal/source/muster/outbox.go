package muster

import (
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// lane separates what must leave at once from what may take its time.
type lane uint8

const (
	laneAck lane = iota
	lanePush
	lanes
)

// dueBits say what a session has to write.
type dueBits uint8

const (
	dueAck dueBits = 1 << iota
	duePing
	dueAssign
	dueSlow
	dueRun // runs that people asked for, turns, and answers to what the agent asked
	dueBye
	dueRefuse // write Session.refusal, then close
	dueClose  // close the connection
)

// outbox is the list of sessions that have something to write. A session stands in
// it at most once, so it is never longer than there are sessions, and what becomes
// due while it waits is written together. While a writer works for a session nobody
// else does: its messages of one lane keep their order.
type outbox struct {
	lane  lane
	mu    sync.Mutex
	ready sync.Cond
	list  []*session // a ring
	head  int
	n     int
	ended bool

	passed uint64
	seen   uint64 // passed - n when nudge last looked
}

// crowd is how many waiting sessions call for one more writer.
const crowd = 64

func newOutbox(name string, l lane, capacity int, r *queue.Registry) *outbox {
	o := &outbox{lane: l, list: make([]*session, 64)}
	o.ready.L = &o.mu
	r.Register(name, func() queue.Info {
		o.mu.Lock()
		defer o.mu.Unlock()
		return queue.Info{Name: name, Capacity: int64(capacity), Depth: int64(o.n), Unit: "items", Policy: queue.Merge, Passed: o.passed}
	})
	return o
}

// put is called with the session marked as queued, so it is not there yet.
func (o *outbox) put(x *session) {
	o.mu.Lock()
	if o.n == len(o.list) {
		grown := make([]*session, 2*o.n)
		copied := copy(grown, o.list[o.head:])
		copy(grown[copied:], o.list[:o.head])
		o.list, o.head = grown, 0
	}
	o.list[(o.head+o.n)%len(o.list)] = x
	o.n++
	o.passed++
	// One writer empties the list faster than others wake up to help it; more come
	// where many wait, or where nudge finds that nobody moves.
	call := o.n%crowd == 1
	o.mu.Unlock()
	if call {
		o.ready.Signal()
	}
}

// nudge calls another writer when nothing left the list since it last looked: those
// at work wait for peers that do not read.
func (o *outbox) nudge() {
	o.mu.Lock()
	taken := o.passed - uint64(o.n)
	stuck := o.n > 0 && taken == o.seen
	o.seen = taken
	o.mu.Unlock()
	if stuck {
		o.ready.Signal()
	}
}

// take waits for a session; nil after close.
func (o *outbox) take() *session {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.n == 0 && !o.ended {
		o.ready.Wait()
	}
	if o.n == 0 {
		return nil
	}
	x := o.list[o.head]
	o.list[o.head] = nil
	o.head = (o.head + 1) % len(o.list)
	o.n--
	return x
}

func (o *outbox) close() {
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	o.ready.Broadcast()
}

// outboxes of a session's lanes.
func (s *Server) outbox(l lane) *outbox {
	if l == laneAck {
		return s.acks
	}
	return s.pushes
}

// scratch is what a writer needs to encode without allocating.
type scratch struct {
	frame []byte // begins with wsconn.Headroom
	ack   wire.Ack
}

func (w *scratch) begin() []byte { return w.frame[:wsconn.Headroom] }

// stuckAfter is how long a writer may be at one session's messages before another takes
// its place.
const stuckAfter = 250 * time.Millisecond

// write is one writer goroutine. A peer that does not read blocks the writer that works
// for it until the write times out, and a few such peers would block all of them: who is
// stuck is replaced, and ends when it comes free. So a peer delays nobody else, and there
// are never more writers than peers that do not read and the few that work.
func (s *Server) write(o *outbox) {
	w := &scratch{frame: make([]byte, wsconn.Headroom, 4096)}
	stuck := time.AfterFunc(time.Hour, func() { s.replace(o) })
	defer stuck.Stop()
	for {
		stuck.Stop()
		x := o.take()
		if x == nil {
			return
		}
		stuck.Reset(stuckAfter)
		for {
			x.Mu.Lock()
			due := x.duty[o.lane]
			x.duty[o.lane] = 0
			if due == 0 {
				x.queued[o.lane] = false
				x.Mu.Unlock()
				break
			}
			x.Mu.Unlock()
			if err := x.flush(w, due); err != nil {
				x.conn.Close() // the reader notices, and ends the session
				x.hasBeenTold()
			}
		}
		if !stuck.Stop() {
			return // another has this place
		}
		if cap(w.frame) > 256<<10 { // one large assignment must not stay
			w.frame = make([]byte, wsconn.Headroom, 4096)
		}
	}
}

// replace adds a writer, unless the last ones are being waited for.
func (s *Server) replace(o *outbox) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		s.metrics.stuck.Inc()
		s.writers.Go(func() { s.write(o) })
	}
}
