package muster

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// origin identifies the machine of a connection and its boot in 16 bytes per session. Zero: the agent did not send it.
type origin struct {
	machine uint64 // first eight hexadecimal digits of the machine id, then a hash of the whole
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

func (x *session) peer() core.Peer {
	p := x.Peer()
	if machine := x.hello.origin.machine; machine != 0 {
		p.Machine = fmt.Sprintf("%08x", machine>>32)
	}
	return p
}

// takeoverWindow: a second take-over of one node's session within it starts a probe. A single one is a network that was
// cut.
const takeoverWindow = 10 * time.Minute

// refuseClone refuses x if another machine with its identity is connected and alive. It probes the older connection only
// where a clone is likely: the connections come from different machines or boots, or take over from each other repeatedly
// (two agents on one machine look the same). A machine that reconnects after a network failure or a crash gets in: at
// once, or when the connection of its earlier boot has not answered for Limits.Probe.
func (s *Server) refuseClone(ctx context.Context, x *session) *wire.Refuse {
	older := s.registry.Get(x.Node.ID)
	if older == nil {
		return nil
	}
	takeover := older.tookOver.Load()
	if older.hello.origin == x.hello.origin && (takeover == 0 || s.clock.Now()-takeover > int64(takeoverWindow)) {
		return nil
	}
	alive, ok := older.Alive(ctx, s.life.Base, s.cfg.Limits.Probe, func() { s.acks.Add(older, duePing) })
	if !ok {
		return s.refusal("limited", "another connection of node "+x.Node.Name+" is being admitted", 5*time.Second)
	}
	if !alive {
		return nil
	}
	c := core.Clone{Node: x.Node, Holder: older.peer(), Refused: x.peer()}
	if s.cfg.OnClone != nil {
		s.cfg.OnClone(c)
	}
	r := s.refusal("clone", fmt.Sprintf("another machine has the identity of node %s and is connected: %s, since %s; this machine, %s, is refused",
		x.Node.Name, c.Holder, c.Holder.Since.Format(time.RFC3339), c.Refused), cloneRetry)
	r.Hint = "on the machine that is the copy: " + resetIdentity
	return r
}

// resetIdentity is the command for a copied machine: while the agent runs there, it holds its identity.
const resetIdentity = "systemctl stop muster-agent; muster-agent reset-identity; then join with a token of its own"

// cloneRetry is short enough that a refused machine gets in soon after the other one was switched off.
const cloneRetry = time.Minute
