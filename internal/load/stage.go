package load

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Stage is where a run's agents hand over what they send, in place of a connection to a server:
// one stage of a server in this process, or a Driven. Its methods are called from many goroutines.
type Stage interface {
	// Enter begins the session of a node, and says what its number is and what it runs. ctx ends
	// with the session, and an error that w hears of ends it, too.
	Enter(ctx context.Context, uid uuid.UUID, w journal.Waiter) (model.NodeID, *link.Assignment, error)
	// Take is handed a node's batches as the body of their frames, in the order of their
	// stream; the bytes are the caller's again when it returns. It may wait. w hears of the
	// token once the stage answers for the batch, from any goroutine. ctx is that of Enter.
	Take(ctx context.Context, node model.NodeID, batch []byte, w journal.Waiter, token uint64) error
}

// dock is where a run's agents meet a stage. What the stage acknowledged waits in due, each
// session once at the most, until one of a few goroutines tells it: who commits never waits
// for an agent.
type dock struct {
	stage Stage
	due   chan *staged
}

// newDock is nil for a whole server.
func newDock(c *Config) *dock {
	if c.Stage == nil {
		return nil
	}
	return &dock{stage: c.Stage, due: make(chan *staged, c.Agents)}
}

// serve tells acknowledgements until the func that it returns is called.
func (d *dock) serve() (end func()) {
	if d == nil {
		return func() {}
	}
	over := make(chan struct{})
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				select {
				case s := <-d.due:
					s.tell()
				case <-over:
					return
				}
			}
		})
	}
	return func() { close(over); all.Wait() }
}

// open begins an agent's session; a run against a stage has one for each.
func (d *dock) open(ctx context.Context, a *agent) (session, error) {
	s := &staged{agent: a, dock: d}
	s.wake.L = &s.mu
	s.ctx, s.cancel = context.WithCancel(ctx)
	context.AfterFunc(s.ctx, s.Close)
	node, held, err := d.stage.Enter(s.ctx, a.uid, s)
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.node = node
	a.mu.Lock()
	last := []wire.StreamLast{{StreamKey: wire.StreamKey{Stream: a.stream}, Last: a.ledger.settled()}} // what the sessions before brought
	a.mu.Unlock()
	a.welcome(s, &wire.Welcome{Node: node, KeepaliveMs: uint32(model.DefaultKeepalive.Milliseconds()), Last: last})
	a.assign(held)
	return s, nil
}

// staged is an agent's session with a stage. As on a server, one goroutine, Read's, takes
// batches in their order, and may have to wait for room. mu is taken under the agent's.
type staged struct {
	agent *agent
	dock  *dock
	node  model.NodeID
	bytes atomic.Uint64

	ctx    context.Context // of the session: Read's Take waits no longer
	cancel context.CancelFunc

	mu      sync.Mutex
	wake    sync.Cond
	over    bool
	why     error  // it is over: what the stage said
	data    []byte // of the batches that wait for Read
	waits   []parcel
	flights []parcel // not acknowledged, oldest first
	unacked int      // their bytes
	acked   uint64
	fresh   bool // in due
}

// parcel is a batch on its way.
type parcel struct {
	last uint64
	size int
}

// SendFrame keeps a copy for Read.
func (s *staged) SendFrame(_ wire.StreamKey, last uint64, frame []byte) error {
	_, body, err := wire.FrameKind(frame[wsconn.Headroom:])
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return link.ErrSessionEnded
	case s.unacked > 0 && s.unacked+len(body) > model.DefaultUnackedBytes:
		return link.ErrWindowFull
	}
	p := parcel{last, len(body)}
	s.unacked += p.size
	s.data, s.waits, s.flights = append(s.data, body...), append(s.waits, p), append(s.flights, p)
	s.bytes.Add(uint64(len(frame) - wsconn.Headroom))
	s.wake.Signal()
	return nil
}

// Read hands over what was sent until the session ends.
func (s *staged) Read() error {
	var data []byte
	var waits []parcel
	for {
		s.mu.Lock()
		for len(s.waits) == 0 && !s.over {
			s.wake.Wait()
		}
		if s.over {
			why := s.why
			s.mu.Unlock()
			return cmp.Or(why, errLeft)
		}
		data, s.data = s.data, data[:0]
		waits, s.waits = s.waits, waits[:0]
		s.mu.Unlock()
		at := 0
		for _, p := range waits {
			if err := s.dock.stage.Take(s.ctx, s.node, data[at:at+p.size], s, p.last); err != nil {
				s.Close()
				return err
			}
			at += p.size
		}
	}
}

// Committed implements journal.Waiter: the token is a batch's last number.
func (s *staged) Committed(token uint64, _ journal.Position, err error) {
	s.mu.Lock()
	if err != nil {
		s.why = cmp.Or(s.why, err)
		s.endLocked()
	} else {
		s.acked = max(s.acked, token)
	}
	put := err == nil && !s.fresh
	s.fresh = s.fresh || put
	s.mu.Unlock()
	if put {
		s.dock.due <- s
	}
}

// tell brings the agent what is acknowledged by now.
func (s *staged) tell() {
	s.mu.Lock()
	s.fresh = false
	last, n := s.acked, 0
	for ; n < len(s.flights) && s.flights[n].last <= last; n++ {
		s.unacked -= s.flights[n].size
	}
	s.flights = append(s.flights[:0], s.flights[n:]...)
	s.mu.Unlock()
	s.agent.ack(&wire.Ack{Last: []wire.StreamLast{{StreamKey: wire.StreamKey{Stream: s.agent.stream}, Last: last}}})
}

// Close ends the session, and Read with it.
func (s *staged) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
}

func (s *staged) endLocked() {
	s.over = true
	s.wake.Broadcast()
	s.cancel()
}

// Bye is a planned end; a stage knows no other.
func (s *staged) Bye(string) { s.Close() }

// Tick, Stats, SendFacts: a stage hears of results alone.
func (s *staged) Tick(time.Time)              {}
func (s *staged) Stats(*wire.Stats) error     { return nil }
func (s *staged) SendFacts(*wire.Facts) error { return nil }

// MaxBatch is the protocol's.
func (s *staged) MaxBatch() int { return wire.MaxFrame }

// Sent is in bytes of frames.
func (s *staged) Sent() uint64 { return s.bytes.Load() }

// ofStage says that a figure means the same of a stage alone. The others are of a server's
// process, which a stage has not, or of what it does not do.
func ofStage(figure string) bool {
	return slices.Contains([]string{"rate", "held", "saturation", "p50", "p99", "p999", "max", "beyond-p50", "beyond-p99", "settle"}, figure)
}

// leaveOut takes away the goals that have no figure where what is loaded is no whole server, and
// says so.
func (c *Config) leaveOut(measured func(figure string) bool, against string) (labels []string) {
	var left []string
	c.Goals = slices.DeleteFunc(slices.Clone(c.Goals), func(g report.Goal) bool {
		if measured(g.Name) {
			return false
		}
		left = append(left, g.Name)
		return true
	})
	if slices.Sort(left); len(left) > 0 {
		labels = []string{fmt.Sprintf("not measured against %s, and not judged: %s", against, strings.Join(slices.Compact(left), ", "))}
	}
	return labels
}

// StageLabel is what must be said of every figure of a run against a stage.
func StageLabel(stage string) string {
	return "stage: " + stage + " alone, in the loader's process: CPU is of both"
}
