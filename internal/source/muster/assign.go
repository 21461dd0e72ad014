package muster

import (
	"crypto/ed25519"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// maxRemoved is how many definitions a difference takes back; where it would be more,
// the whole is sent instead. The last part has room for so many (wire.MaxPart).
const maxRemoved = 1000

// sendAssignment brings the agent from what it holds to what it should hold: the
// whole at first, a difference afterwards, nothing where the hash is the same.
func (x *session) sendAssignment(w *scratch) error {
	want, left := x.assignment()
	x.Mu.Lock()
	have := x.pushed
	x.Mu.Unlock()
	if want == nil || have != nil && have.Hash == want.Hash {
		return nil
	}
	message := difference(have, want)
	message.Signature = ed25519.Sign(x.srv.cfg.SigningKey, wire.SignedBytes(x.uid, message.Generation, message.Hash))
	// Before it is written: the answer (Holding) may be here before Write returns.
	x.Mu.Lock()
	x.pushed = want
	x.unconfirmed++
	x.Mu.Unlock()
	x.srv.metrics.leftUnits.Add(float64(left))
	for _, part := range message.Parts() {
		w.frame = wire.AppendPackedAssignment(w.begin(), part)
		if err := x.send(w.frame, "assignment"); err != nil {
			return err
		}
	}
	return nil
}

// difference is the message that leads from have (nil: unknown) to want.
func difference(have, want *directory.Assignment) *wire.Assignment {
	m := &wire.Assignment{Generation: want.Generation, Hash: want.Hash}
	var old []*model.Chunk
	if have != nil {
		m.Base, old = have.Hash, have.Chunks
	}
	var bodies []byte
	if have == nil { // a guess that spares growing
		bodies = make([]byte, 0, 128*len(want.Chunks))
		m.Add = make([]wire.AssignedChunk, 0, len(want.Chunks))
	}
	for _, c := range want.Chunks { // both ascend by id, and an id never changes its content
		for len(old) > 0 && old[0].ID < c.ID {
			m.Remove = append(m.Remove, old[0].ID)
			old = old[1:]
		}
		if len(old) > 0 && old[0].ID == c.ID {
			old = old[1:]
			continue
		}
		start := len(bodies)
		bodies = wire.AppendChunk(bodies, c)
		m.Add = append(m.Add, wire.AssignedChunk{ID: c.ID, Body: bodies[start:len(bodies):len(bodies)]})
	}
	for _, c := range old {
		m.Remove = append(m.Remove, c.ID)
	}
	if len(m.Remove) > maxRemoved {
		return difference(nil, want)
	}
	if have == nil || !sameProperties(have.Properties, want.Properties) {
		m.Properties, m.HasProperties = want.Properties, true
	}
	if before := toldOf(have); !before.Equal(toldOf(want)) {
		m.HasProxyChecks = true
		if want.Proxied != nil {
			m.ProxyChecks = want.Proxied.ProxyChecks
		}
	}
	return m
}

// toldOf is whom an agent is told that its proxy checks speak of.
func toldOf(a *directory.Assignment) *wire.ProxyChecks {
	if a == nil || a.Proxied == nil {
		return nil
	}
	return &a.Proxied.ProxyChecks
}

func sameProperties(a, b []wire.Property) bool {
	return slices.EqualFunc(a, b, func(p, q wire.Property) bool {
		return p.Name == q.Name && p.Error == q.Error && string(p.Value) == string(q.Value)
	})
}

// maxStrays is how often an agent that holds something else is sent the whole.
const maxStrays = 3

// holds compares what the agent says it holds with what we sent. Every Assignment
// is answered by one Holding, so the one that counts is the last.
func (x *session) holds(h *wire.AssignmentStatus) {
	x.Mu.Lock()
	x.unconfirmed = max(0, x.unconfirmed-1)
	x.refusedChunks = slices.Clone(h.Refused)
	x.srv.metrics.refusedUnits.Add(float64(len(h.Refused)))
	if x.unconfirmed > 0 || x.pushed == nil || x.pushed.Hash == h.Hash {
		if x.unconfirmed == 0 {
			x.strays = 0
		}
		x.Mu.Unlock()
		return
	}
	x.strays++
	strays := x.strays
	put := false
	if strays <= maxStrays {
		x.pushed = nil
		put = x.dueLocked(lanePush, dueAssign)
	}
	x.Mu.Unlock()
	if strays > maxStrays {
		x.srv.cfg.Log.Warn("agent does not hold its assignment", "node", x.node.Name)
		return
	}
	x.srv.metrics.resent.Inc()
	if put {
		x.srv.pushes.put(x)
	}
}
