package muster

import (
	"crypto/ed25519"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// definitionKinds is the set of kinds of checks and other assigned tasks (definitions) that an agent can run. A
// bit below 64 stands for a kind.
type definitionKinds uint64

// definitionKindsOf returns which kinds of compiled checks an agent supports, by the features in its Hello.
func definitionKindsOf(features []string) (set definitionKinds) {
	for kind := model.DefinitionKind(1); kind < 64; kind++ {
		if slices.Contains(features, wire.DefinitionFeature(kind)) {
			set |= 1 << kind
		}
	}
	return set
}

// lacksKindOf reports whether the agent does not support the kind of a compiled check.
func (s definitionKinds) lacksKindOf(c *model.Definition) bool { return s>>c.Kind&1 == 0 }

// reduceAssignment returns a copy of a node's assignment without the parts whose kind the agent cannot run. It
// returns the assignment itself if the agent supports all. Properties and proxy nodes stay whole.
func (s definitionKinds) reduceAssignment(a *directory.Assignment) *directory.Assignment {
	if a == nil || !slices.ContainsFunc(a.Definitions, s.lacksKindOf) {
		return a
	}
	part := *a
	part.Definitions = slices.DeleteFunc(slices.Clone(a.Definitions), s.lacksKindOf)
	part.Hash = wire.AssignmentHash(part.Definitions, part.Properties, proxyChecksOf(a))
	return &part
}

// proxyChecksOf returns the proxy nodes of an assignment with their checks, or nil without proxy checks.
func proxyChecksOf(a *directory.Assignment) *wire.ProxyChecks {
	if a == nil || a.Proxied == nil {
		return nil
	}
	return &a.Proxied.ProxyChecks
}

// supportedAssignment returns the checks and other parts of a node's assignment that its agent can run. It also
// returns the number of definitions that are left out.
func (x *session) supportedAssignment() (part *directory.Assignment, leftOut int) {
	whole := x.srv.cfg.Assignments.AssignmentOf(x.Node.ID)
	if part = x.hello.kinds.reduceAssignment(whole); part != whole {
		leftOut = len(whole.Definitions) - len(part.Definitions)
	}
	return part, leftOut
}

// idleUnits returns the assigned checks and other tasks that the agent does not run. The agent does not support or has
// refused them.
func (x *session) idleUnits() (list []core.IdleUnit) {
	want := x.srv.cfg.Assignments.AssignmentOf(x.Node.ID)
	if want == nil {
		return nil
	}
	for _, c := range want.Definitions {
		if x.hello.kinds.lacksKindOf(c) {
			list = append(list, core.IdleUnit{Unit: c.Unit, Name: c.Name,
				Reason: fmt.Sprintf("the agent (version %s) does not support units of kind %d: update the agent", x.hello.version.Value(), c.Kind)})
		}
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	for _, r := range x.assignment.refused {
		if at := slices.IndexFunc(want.Definitions, func(c *model.Definition) bool { return c.ID == r.Definition }); at >= 0 {
			c := want.Definitions[at]
			list = append(list, core.IdleUnit{Unit: c.Unit, Name: c.Name, Reason: "the agent refuses the unit: " + r.Reason})
		}
	}
	return list
}

// maxRemoved limits the definitions that a difference removes. Beyond it, the assignment is sent whole. The last part
// of a message has room for so many (wire.MaxPart).
const maxRemoved = 1000

// sendAssignment sends the agent its assignment, or only the changes since the last one. It sends nothing if the hash
// is unchanged.
func (x *session) sendAssignment(w *core.WriteBuffers) error {
	want, leftOut := x.supportedAssignment()
	x.Mu.Lock()
	have := x.assignment.sent
	x.Mu.Unlock()
	if want == nil || have != nil && have.Hash == want.Hash {
		return nil
	}
	message := assignmentDifference(have, want)
	message.Signature = ed25519.Sign(x.srv.cfg.SigningKey, wire.SignedBytes(x.UID, message.Generation, message.Hash))
	// Before the write, because the answer (AssignmentStatus) may arrive before it returns.
	x.Mu.Lock()
	x.assignment.sent = want
	x.assignment.unconfirmed++
	x.Mu.Unlock()
	x.srv.metrics.leftOutUnits.Add(float64(leftOut))
	for _, part := range message.Parts() {
		w.Frame = wire.AppendPackedAssignment(w.NewFrame(), part)
		if err := x.sendMessage(w.Frame, "assignment"); err != nil {
			return err
		}
	}
	return nil
}

// assignmentDifference returns the message by which an agent changes one assignment into another assignment.
// have is nil if unknown.
func assignmentDifference(have, want *directory.Assignment) *wire.Assignment {
	m := &wire.Assignment{Generation: want.Generation, Hash: want.Hash}
	var old []*model.Definition
	var bodies []byte
	if have != nil {
		m.Base, old = have.Hash, have.Definitions
	} else { // a guess of the number of changed definitions
		bodies = make([]byte, 0, 128*len(want.Definitions))
		m.Add = make([]wire.AssignedDefinition, 0, len(want.Definitions))
	}
	for _, c := range want.Definitions { // both ascend by id, and the content of an id never changes
		for len(old) > 0 && old[0].ID < c.ID {
			m.Remove = append(m.Remove, old[0].ID)
			old = old[1:]
		}
		if len(old) > 0 && old[0].ID == c.ID {
			old = old[1:]
			continue
		}
		start := len(bodies)
		bodies = wire.AppendDefinition(bodies, c)
		m.Add = append(m.Add, wire.AssignedDefinition{ID: c.ID, Body: bodies[start:len(bodies):len(bodies)]})
	}
	for _, c := range old {
		m.Remove = append(m.Remove, c.ID)
	}
	if len(m.Remove) > maxRemoved {
		return assignmentDifference(nil, want)
	}
	if have == nil || !equalProperties(have.Properties, want.Properties) {
		m.Properties, m.HasProperties = want.Properties, true
	}
	if !proxyChecksOf(have).Equal(proxyChecksOf(want)) {
		m.HasProxyChecks = true
		if want.Proxied != nil {
			m.ProxyChecks = want.Proxied.ProxyChecks
		}
	}
	return m
}

// equalProperties reports whether two lists of node properties are equal.
func equalProperties(a, b []wire.Property) bool {
	return slices.EqualFunc(a, b, func(p, q wire.Property) bool {
		return p.Name == q.Name && p.Error == q.Error && string(p.Value) == string(q.Value)
	})
}

// maxMismatches limits how often an agent gets the whole assignment again after a wrong hash.
const maxMismatches = 3

// confirmAssignment compares the hash of the sent assignment with the hash in the agent's answer. One AssignmentStatus
// answers each Assignment, so the last one counts.
func (x *session) confirmAssignment(m *wire.AssignmentStatus) {
	x.srv.metrics.refusedUnits.Add(float64(len(m.Refused)))
	x.Mu.Lock()
	a := &x.assignment
	a.unconfirmed = max(0, a.unconfirmed-1)
	a.refused = slices.Clone(m.Refused)
	if a.unconfirmed > 0 || a.sent == nil || a.sent.Hash == m.Hash {
		if a.unconfirmed == 0 {
			a.mismatches = 0
		}
		x.Mu.Unlock()
		return
	}
	a.mismatches++
	again := a.mismatches <= maxMismatches
	if again {
		a.sent = nil
		x.srv.metrics.resent.Inc() // before the push can send it
		x.srv.pushes.AddLocked(x, dueAssign)
	}
	x.Mu.Unlock()
	if !again {
		x.srv.logHashMismatch.Do(func() {
			x.srv.cfg.Log.Warn("the hash of an agent's assignment differs from the hash of the assignment that the server sent; at most one line a minute", "node", x.Node.Name)
		})
	}
}
