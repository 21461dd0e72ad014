package muster

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// Peer is one of two machines with one identity.
type Peer struct {
	Address string    // of the network, without the port
	Machine string    // the first digits of its machine id; empty: it told none
	Since   time.Time // its session began, or it was sent away
}

func (p Peer) String() string {
	if p.Machine == "" {
		return p.Address
	}
	return p.Address + " (machine " + p.Machine + ")"
}

// Clone says that a machine came with the identity of another one that is connected,
// and was sent away.
type Clone struct {
	Node  core.Node
	Holds Peer // the one that is connected
	Came  Peer // the one that was sent away
}

// origin is which machine, and which of its lives, a connection comes from: 16 bytes
// for each session. Zero stands for what an agent does not tell.
type origin struct {
	machine uint64 // the first eight hexadecimal digits, and a hash of the whole
	boot    uint64
}

func originOf(h *wire.Hello) origin {
	o := origin{boot: hashOf(h.BootID)}
	if h.MachineID != "" {
		start, err := strconv.ParseUint(h.MachineID[:min(8, len(h.MachineID))], 16, 32)
		if err != nil {
			start = hashOf(h.MachineID) >> 32
		}
		o.machine = start<<32 | hashOf(h.MachineID)&0xffffffff
	}
	return o
}

func hashOf(text string) uint64 {
	if text == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

func (x *session) peer() Peer {
	p := Peer{Address: model.HostOf(x.conn.NetConn().RemoteAddr().String()), Since: time.Unix(0, x.about.since).Truncate(time.Second).UTC()}
	if x.origin.machine != 0 {
		p.Machine = fmt.Sprintf("%08x", x.origin.machine>>32)
	}
	return p
}

// takeoversWithin: the second time that a connection of one node displaces another
// within so long, we ask whether the older one is alive. Once is a network that was cut.
const takeoversWithin = 10 * time.Minute

// clone refuses x where another machine with its identity is connected, and answers. It
// waits only where that is likely: the connections come from different machines or boots,
// or displace each other again and again (two agents on one machine look the same). A
// machine that reconnects after its network was cut, or after a crash, is let in: at
// once, or when the connection of its earlier life has not answered for Limits.Probe.
func (s *Server) clone(ctx context.Context, x *session) *wire.Refuse {
	old := s.registry.Get(x.node.ID)
	if old == nil {
		return nil
	}
	again := old.tookOver.Load()
	if old.origin == x.origin && (again == 0 || s.clock.Now()-again > int64(takeoversWithin)) {
		return nil
	}
	alive, ok := s.answers(ctx, old)
	if !ok {
		return s.busy("limited", "another connection of node "+x.node.Name+" waits to be let in", 5*time.Second)
	}
	if !alive {
		return nil
	}
	c := Clone{Node: x.node, Holds: old.peer(), Came: x.peer()}
	if s.cfg.OnClone != nil {
		s.cfg.OnClone(c)
	}
	r := s.busy("clone", fmt.Sprintf("another machine has the identity of node %s and is connected: %s, since %s; this one, %s, is sent away",
		x.node.Name, c.Holds, c.Holds.Since.Format(time.RFC3339), c.Came), cloneRetry)
	r.Hint = "on the one of the two that is the copy: " + resetIt
	return r
}

// resetIt is typed on a copy: while the agent runs there, it holds its identity.
const resetIt = "systemctl stop muster-agent; muster-agent reset-identity; then join with a token of its own"

// cloneRetry is when a clone may ask again: should the other one be switched off, it is
// not without a server for long.
const cloneRetry = time.Minute

// probe asks one connection whether anybody is at its other end. Only the answer to this
// ping counts: what a machine sent before it died may still be on its way.
type probe struct {
	number uint64
	done   chan bool // whether it answers; has room for one
}

func (p *probe) payload() []byte {
	if p == nil {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, p.number)
}

func (p *probe) ends(alive bool) {
	select {
	case p.done <- alive:
	default:
	}
}

// answers asks old and waits, at most for Limits.Probe; ok is false where somebody else
// waits for its answer already.
func (s *Server) answers(ctx context.Context, old *session) (alive, ok bool) {
	p := &probe{number: s.probes.Add(1), done: make(chan bool, 1)}
	if !old.probe.CompareAndSwap(nil, p) {
		return false, false
	}
	defer old.probe.Store(nil)
	old.Mu.Lock()
	over := old.EndedLocked()
	old.Mu.Unlock()
	if over {
		return false, true
	}
	old.due(laneAck, duePing)
	timer := time.NewTimer(s.cfg.Limits.Probe)
	defer timer.Stop()
	select {
	case alive = <-p.done:
	case <-timer.C:
	case <-ctx.Done():
	case <-s.base.Done():
	}
	return alive, true
}

// pong is the answer to a ping: to a probe's, or to one that only keeps the way open.
func (x *session) pong(payload []byte) {
	if p := x.probe.Load(); p != nil && len(payload) == 8 && binary.BigEndian.Uint64(payload) == p.number {
		p.ends(true)
	}
}
