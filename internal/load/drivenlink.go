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

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// drivenLinks gives each agent a session with a Driven. The acknowledgements of the Driven wait in due, each session
// at most once, until one of a few goroutines passes them on: the caller of Acked never waits for an agent.
type drivenLinks struct {
	system *driving
	due    chan *drivenLink
}

// newDrivenLinks returns the sessions of n agents with a Driven.
func newDrivenLinks(system *driving, n int) *drivenLinks {
	return &drivenLinks{system: system, due: make(chan *drivenLink, n)}
}

// serve passes acknowledgements on until the function that it returns is called. A nil d serves nothing.
func (d *drivenLinks) serve() (end func()) {
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

// open begins an agent's session.
func (d *drivenLinks) open(ctx context.Context, a *agent) (session, error) {
	s := &drivenLink{agent: a, links: d}
	s.wake.L = &s.mu
	s.ctx, s.cancel = context.WithCancel(ctx)
	context.AfterFunc(s.ctx, s.Close)
	node, held, err := d.system.Enter(s.ctx, a.uid, s)
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

// drivenLink is an agent's session with a Driven. As on a server, one goroutine, Read's, takes
// batches in their order, and may have to wait for room. mu is taken under the agent's.
type drivenLink struct {
	agent *agent
	links *drivenLinks
	node  model.NodeID
	bytes atomic.Uint64

	ctx    context.Context // of the session: Read's Take waits no longer
	cancel context.CancelFunc

	mu      sync.Mutex
	wake    sync.Cond
	over    bool
	why     error  // of the Driven that ended it; nil while the session lives
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
func (s *drivenLink) SendFrame(_ wire.StreamKey, last uint64, frame []byte) error {
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
func (s *drivenLink) Read() error {
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
			if err := s.links.system.Take(s.ctx, s.node, data[at:at+p.size], s, p.last); err != nil {
				s.Close()
				return err
			}
			at += p.size
		}
	}
}

// Committed implements journal.Waiter: the token is a batch's last number.
func (s *drivenLink) Committed(token uint64, _ journal.Position, err error) {
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
		s.links.due <- s
	}
}

// tell brings the agent what is acknowledged by now.
func (s *drivenLink) tell() {
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
func (s *drivenLink) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
}

func (s *drivenLink) endLocked() {
	s.over = true
	s.wake.Broadcast()
	s.cancel()
}

// Bye closes the session.
func (s *drivenLink) Bye(string) { s.Close() }

// Tick, Stats and SendFacts do nothing: a Driven gets results alone.
func (s *drivenLink) Tick(time.Time)              {}
func (s *drivenLink) Stats(*wire.Stats) error     { return nil }
func (s *drivenLink) SendFacts(*wire.Facts) error { return nil }

// MaxBatch is the protocol's.
func (s *drivenLink) MaxBatch() int { return wire.MaxFrame }

// Sent is in bytes of frames.
func (s *drivenLink) Sent() uint64 { return s.bytes.Load() }

// measuredOfDriven returns whether a figure can be measured of a Driven, which shows neither its process nor its counters.
func measuredOfDriven(figure string) bool {
	return whatever(figure) || slices.Contains([]string{"rate", "held", "saturation", "p50", "p99", "p999", "max", "beyond-p50", "beyond-p99", "settle"}, figure)
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
