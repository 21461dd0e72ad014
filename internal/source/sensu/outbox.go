package sensu

import (
	"time"

	"github.com/muster-fleet/muster/internal/queue"
)

// dueBits say what a session has to write, or a writer to do for it.
type dueBits uint8

const (
	duePlan dueBits = 1 << iota // its assignment changed
	duePing
	duePong // that nobody asked for
	dueClose
)

// outbox is the list of sessions that have something to write. A session stands in it at most
// once, so that what becomes due while it waits is written together.
type outbox struct {
	*queue.Queue[*session]
	done chan struct{}
}

func (o *outbox) init(r *queue.Registry, sessions int) {
	// Room for all sessions, and for those that they displaced.
	o.Queue, o.done = queue.New[*session](r, "sensu-pushes", 2*sessions, queue.Block), make(chan struct{})
}

func (s *Server) put(x *session) { _ = s.outbox.Put(s.base, x) }

// due marks what is to be done, and queues the session where it is not.
func (x *session) due(bits dueBits) {
	x.Mu.Lock()
	x.duty |= bits
	put := !x.queued
	x.queued = true
	x.Mu.Unlock()
	if put {
		x.srv.put(x)
	}
}

// dueAsks marks jobs whose time has come.
func (x *session) dueAsks(jobs []*job) {
	x.Mu.Lock()
	if x.EndedLocked() {
		x.Mu.Unlock()
		return
	}
	for _, j := range jobs {
		if !j.due {
			j.due = true
			x.asks = append(x.asks, j)
		}
	}
	put := !x.queued
	x.queued = true
	x.Mu.Unlock()
	if put {
		x.srv.put(x)
	}
}

// stuckAfter is how long a writer may be at one session before another takes its place.
const stuckAfter = 250 * time.Millisecond

// mostFrames bounds the buffer that a writer keeps.
const mostFrames = 64 << 10

// write is one writer goroutine. Who is stuck with a peer that does not read is replaced, and
// ends when it comes free: a peer delays nobody else.
func (s *Server) write() {
	frames := make([]byte, 0, 4096)
	var asks []*job
	var values []found
	stuck := time.AfterFunc(time.Hour, func() {
		if !s.stopping.Load() {
			s.metrics.stuck.Inc()
			s.writers.Go(s.write)
		}
	})
	defer stuck.Stop()
	for {
		stuck.Stop()
		var x *session
		select {
		case x = <-s.outbox.Items():
		case <-s.outbox.done:
			return
		}
		stuck.Reset(stuckAfter)
		for {
			x.Mu.Lock()
			due := x.duty
			asks = append(asks[:0], x.asks...)
			clear(x.asks)
			x.duty, x.asks = 0, x.asks[:0]
			values, x.found = append(values[:0], x.found...), nil
			for _, j := range asks {
				j.due = false
			}
			if due == 0 && len(asks) == 0 && len(values) == 0 {
				x.queued = false
				x.Mu.Unlock()
				break
			}
			x.Mu.Unlock()
			if err := x.flush(&frames, due, asks, values); err != nil {
				_ = x.conn.Close() // the reader notices, and ends the session
			}
			clear(values)
		}
		if !stuck.Stop() {
			return // another has this place
		}
	}
}

// flush does what is due. Only one writer is here for a session.
func (x *session) flush(frames *[]byte, due dueBits, asks []*job, values []found) error {
	if due&dueClose != 0 {
		_ = x.conn.WriteClose(1001, "the session ends; come back")
		return x.conn.Close()
	}
	if due&duePlan != 0 {
		x.plan()
	}
	if due&duePing != 0 {
		if err := x.conn.Ping(nil); err != nil {
			return err
		}
	}
	if due&duePong != 0 {
		if err := x.conn.Pong(); err != nil {
			return err
		}
	}
	if len(asks) == 0 && len(values) == 0 {
		return nil
	}
	made := (*frames)[:0]
	for _, j := range asks {
		if !x.seek(j) {
			made = x.ask(made, j)
		}
	}
	for i := range values {
		made = x.tell(made, &values[i])
	}
	if len(values) > 0 {
		defer clear(made) // the writer keeps nothing of them
	}
	if cap(made) <= mostFrames { // a long one is not kept for its own sake
		*frames = made
	}
	if len(made) == 0 {
		return nil
	}
	return x.conn.Send(made)
}
