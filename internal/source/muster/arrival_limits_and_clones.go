package muster

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// arrivalLimits limits, for each node, how many connections are being opened and how often Hello messages
// arrive. Each Hello costs two journal entries. A fleet that reconnects at once is not slowed, because each
// machine has limits of its own.
type arrivalLimits struct {
	mu      sync.Mutex
	opening map[uuid.UUID]int
	hellos  map[model.NodeID]*core.TokenBucket
	swept   int64 // time of the last sweep, ns
}

const (
	maxOpeningConns = 4      // connections: an agent has one; those that its network lost may linger
	helloRate       = 1. / 3 // per second
	helloBurst      = 60 * time.Second
)

// countOpening counts a connection of a node while its session is being opened, and refuses too many. It counts
// connections whose session is being opened. The zero id is not limited.
func (a *arrivalLimits) countOpening(node uuid.UUID) (leave func(), ok bool) {
	if node == uuid.Nil {
		return func() {}, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opening[node] >= maxOpeningConns {
		return nil, false
	}
	if a.opening == nil {
		a.opening = map[uuid.UUID]int{}
	}
	a.opening[node]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.opening[node]--; a.opening[node] == 0 {
			delete(a.opening, node)
		}
	}, true
}

// countHello counts a Hello message of a node, and returns how long a too frequent sender must wait. A positive
// wait is the time after which the node may send the next Hello.
func (a *arrivalLimits) countHello(node model.NodeID, now int64) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hellos == nil {
		a.hellos, a.swept = map[model.NodeID]*core.TokenBucket{}, now
	}
	if now-a.swept > int64(helloBurst) { // a bucket that idled for so long is full, like a new one
		a.swept = now
		for node, b := range a.hellos {
			if now-b.LastSpend() > int64(helloBurst) {
				delete(a.hellos, node)
			}
		}
	}
	b := a.hellos[node]
	if b == nil {
		b = new(core.TokenBucket)
		a.hellos[node] = b
	}
	wait = b.Spend(1, helloRate, helloBurst, now)
	if wait > 0 {
		b.Refund(1) // a refused Hello costs nothing
	}
	return wait
}

// machineOrigin identifies a machine and its present boot by the hashes of machine id and boot id. Zero: the
// agent did not send it.
type machineOrigin struct {
	machine uint64 // first eight hexadecimal digits of the machine id, then a hash of the whole
	boot    uint64
}

// originOf returns the machine id and boot id in an agent's Hello message.
func originOf(h *wire.Hello) machineOrigin {
	o := machineOrigin{boot: hashText(h.BootID)}
	if h.MachineID != "" {
		start, err := strconv.ParseUint(h.MachineID[:min(8, len(h.MachineID))], 16, 32)
		if err != nil {
			start = hashText(h.MachineID) >> 32
		}
		o.machine = start<<32 | hashText(h.MachineID)&0xffffffff
	}
	return o
}

// hashText returns a 64-bit hash of a text. An empty text has the hash zero.
func hashText(text string) uint64 {
	if text == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// peer returns the network address of the peer and the first digits of its machine id, for logs.
func (x *session) peer() core.Peer {
	p := x.Peer()
	if machine := x.hello.origin.machine; machine != 0 {
		p.Machine = fmt.Sprintf("%08x", machine>>32)
	}
	return p
}

// takeoverWindow is the time between two take-overs of a session within which the older connection is probed. A
// take-over comes from another connection of the node. A single take-over is normal: the agent's network was cut.
const takeoverWindow = 10 * time.Minute

// refuseClone refuses a machine if a second machine with the same identity answers a probe. The second machine is
// already connected. It probes the older connection only where a clone is likely: the connections come from different
// machines or boots, or take over from each other repeatedly (two agents on one machine look the same). A machine that
// reconnects after a network failure or a crash gets in: at once, or when the connection of its earlier boot has not
// answered for Limits.Probe.
func (s *Server) refuseClone(ctx context.Context, x *session) *wire.Refuse {
	older := s.registry.Get(x.Node.ID)
	if older == nil {
		return nil
	}
	takeover := older.tookOverAt.Load()
	if older.hello.origin == x.hello.origin && (takeover == 0 || s.clock.Now()-takeover > int64(takeoverWindow)) {
		return nil
	}
	alive, ok := older.Alive(ctx, s.life.Base, s.cfg.Limits.Probe, func() { s.acks.Add(older, duePing) })
	if !ok {
		return s.newRefusal("limited", "another connection of node "+x.Node.Name+" is being admitted", 5*time.Second)
	}
	if !alive {
		return nil
	}
	c := core.Clone{Node: x.Node, Holder: older.peer(), Refused: x.peer()}
	if s.cfg.OnClone != nil {
		s.cfg.OnClone(c)
	}
	return withHint(s.newRefusal("clone", fmt.Sprintf("another machine has the identity of node %s and is connected: %s, since %s; this machine, %s, is refused",
		x.Node.Name, c.Holder, c.Holder.Since.Format(time.RFC3339), c.Refused), cloneRetry), "on the machine that is the copy: "+resetIdentity)
}

// resetIdentity is the command that gives a copied machine its own identity. The agent must be stopped first, because a
// running agent keeps its identity in memory.
const resetIdentity = "systemctl stop muster-agent; muster-agent reset-identity; then join with another token"

// cloneRetry is the time after which a machine that was refused as a clone may connect again. It is short, so that the
// machine gets in soon after the other machine with its identity was switched off.
const cloneRetry = time.Minute
