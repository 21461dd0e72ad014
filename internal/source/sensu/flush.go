package sensu

import (
	"github.com/muster-fleet/muster/internal/source/core"
)

// Duties of a session's writer.
const (
	duePlan core.Duties = 1 << iota // make jobs of the changed assignment
	dueRequests
	duePing
	duePong // unsolicited
	dueClose
)

// requestRuns marks jobs whose time has come.
func (x *session) requestRuns(list []*job) {
	x.Mu.Lock()
	put := false
	if !x.EndedLocked() {
		for _, j := range list {
			if !j.due {
				j.due = true
				x.jobs.due = append(x.jobs.due, j)
			}
		}
		put = x.srv.outbox.AddLocked(x, dueRequests)
	}
	x.Mu.Unlock()
	if put {
		x.srv.outbox.Put(x)
	}
}

// maxKeptFrames bounds the buffer for requests that a writer keeps, in bytes.
const maxKeptFrames = 64 << 10

// writerScratch is the memory that a writer reuses.
type writerScratch struct {
	frames   []byte
	jobs     []*job
	resolved []resolvedJob
}

// Flush implements core.Sender.
func (x *session) Flush(w *core.Scratch, due core.Duties) error {
	if due&dueClose != 0 {
		_ = x.Conn.WriteClose(1001, "the session ends; connect again")
		return x.Conn.Close()
	}
	if due&duePlan != 0 {
		x.plan()
	}
	if due&duePing != 0 {
		if err := x.Conn.Ping(x.Payload()); err != nil {
			return err
		}
	}
	if due&duePong != 0 {
		if err := x.Conn.Pong(); err != nil {
			return err
		}
	}
	if due&dueRequests != 0 {
		return x.sendRequests(w)
	}
	return nil
}

// FlushFailed implements core.Sender.
func (x *session) FlushFailed() {}

// sendRequests sends all due requests in one write.
func (x *session) sendRequests(w *core.Scratch) error {
	m, ok := w.More.(*writerScratch)
	if !ok {
		m = &writerScratch{frames: make([]byte, 0, 4096)}
		w.More = m
	}
	x.Mu.Lock()
	m.jobs = append(m.jobs[:0], x.jobs.due...)
	m.resolved = append(m.resolved[:0], x.resolved...)
	clear(x.jobs.due)
	x.jobs.due, x.resolved = x.jobs.due[:0], nil
	for _, j := range m.jobs {
		j.due = false
	}
	x.Mu.Unlock()
	frames := m.frames[:0]
	for _, j := range m.jobs {
		if !j.resolveSecrets() {
			frames = j.requestOrFail(frames)
		}
	}
	for i := range m.resolved {
		frames = m.resolved[i].request(frames)
	}
	if len(m.resolved) > 0 {
		defer clear(frames) // the writer keeps no secret
		clear(m.resolved)
	}
	if cap(frames) <= maxKeptFrames {
		m.frames = frames
	}
	if len(frames) == 0 {
		return nil
	}
	return x.Conn.Send(frames)
}
