package link

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// DecodeDefinition is a function that decodes one definition (a compiled check or Template) of an assignment. An error refuses
// the definition alone.
type DecodeDefinition = func(id model.DefinitionID, data []byte) (*model.Definition, error)

// Assignment is the list of checks and Templates for one node, with a verified signature of the server. It is
// immutable.
type Assignment struct {
	Generation  wire.Generation
	Hash        [32]byte
	Definitions []*model.Definition // ascending by ID
	Properties  []wire.Property
	ProxyChecks wire.ProxyChecks
	Signature   []byte
	Refused     []wire.RefusedDefinition // of Definitions, that this agent cannot run; ascending by Definition
}

var (
	// ErrBaseMismatch reports a difference to another assignment than the present one.
	ErrBaseMismatch = errors.New("the assignment is a difference to an assignment that the agent does not have")
	// ErrBadSignature reports a signature that is not the server's, or not for this node.
	ErrBadSignature = errors.New("the assignment has no valid signature of the server for this node")
	// ErrStaleGeneration reports a lower generation than the present one.
	ErrStaleGeneration = errors.New("the assignment is older than the present assignment")
)

// Apply verifies the server's message about the assignment (list of checks), and applies the changes in the message.
// It verifies the signature, which covers node, generation and hash, before anything else, and at the end computes the
// hash of all definitions and properties. A definition that decode cannot read stays in the assignment, as received,
// and is refused alone. h may be nil. With an empty key the signature is not verified.
func (h *Assignment) Apply(a *wire.Assignment, node uuid.UUID, key ed25519.PublicKey, decode DecodeDefinition) (*Assignment, error) {
	if len(key) > 0 && !ed25519.Verify(key, wire.SignedBytes(node, a.Generation, a.Hash), a.Signature) {
		return nil, ErrBadSignature
	}
	if h != nil && a.Generation.Less(h.Generation) {
		return nil, ErrStaleGeneration
	}
	next := &Assignment{Generation: a.Generation, Hash: a.Hash, Signature: slices.Clone(a.Signature)}
	if a.Base != ([32]byte{}) {
		if h == nil || h.Hash != a.Base {
			return nil, ErrBaseMismatch
		}
		next.Properties, next.ProxyChecks = h.Properties, h.ProxyChecks
		next.Definitions = make([]*model.Definition, 0, len(h.Definitions)+len(a.Add))
		for _, c := range h.Definitions {
			if !slices.Contains(a.Remove, c.ID) {
				next.Definitions = append(next.Definitions, c)
			}
		}
		for _, r := range h.Refused {
			if !slices.Contains(a.Remove, r.Definition) {
				next.recordRefusal(r.Definition, r.Reason)
			}
		}
	}
	for i := range a.Add {
		c, err := decode(a.Add[i].ID, a.Add[i].Body)
		if err != nil {
			c = wire.OpaqueDefinition(a.Add[i].ID, a.Add[i].Body)
			next.recordRefusal(c.ID, err.Error())
		} else if _, encoded := c.Body().([]byte); encoded {
			next.recordRefusal(c.ID, fmt.Sprintf("this agent does not support definitions of kind %d: update the agent", c.Kind))
		}
		next.Definitions = append(next.Definitions, c)
	}
	slices.SortFunc(next.Refused, func(a, b wire.RefusedDefinition) int { return cmp.Compare(a.Definition, b.Definition) })
	slices.SortFunc(next.Definitions, func(a, b *model.Definition) int { return cmp.Compare(a.ID, b.ID) })
	if a.HasProperties {
		next.Properties = wire.CloneProperties(a.Properties)
	}
	if a.HasProxyChecks {
		next.ProxyChecks = a.ProxyChecks.Clone()
	}
	if wire.AssignmentHash(next.Definitions, next.Properties, &next.ProxyChecks) != a.Hash {
		return nil, fmt.Errorf("verify the assignment: %w: the signed hash differs from the hash of the received definitions", ErrBadSignature)
	}
	return next, nil
}

// recordRefusal records the reason why the agent cannot run a definition (a compiled check or Template). AssignmentStatus has
// room for MaxRefused.
func (h *Assignment) recordRefusal(definition model.DefinitionID, reason string) {
	if len(h.Refused) < wire.MaxRefused {
		h.Refused = append(h.Refused, wire.RefusedDefinition{Definition: definition, Reason: reason})
	}
}

// Message returns the whole assignment (list of checks) as one signed message, in the agent's storage format.
func (h *Assignment) Message() *wire.Assignment {
	a := &wire.Assignment{Generation: h.Generation, Hash: h.Hash, Properties: h.Properties, HasProperties: true, ProxyChecks: h.ProxyChecks, HasProxyChecks: !h.ProxyChecks.Empty(), Signature: h.Signature}
	for _, c := range h.Definitions {
		a.Add = append(a.Add, wire.AssignedDefinition{ID: c.ID, Body: wire.AppendDefinition(nil, c)})
	}
	return a
}
