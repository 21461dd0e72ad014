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

// Assignment is the assignment in force on the agent. It is immutable.
type Assignment struct {
	Generation wire.Generation
	Hash       [32]byte
	Chunks     []*model.Chunk // ascending by ID
	Properties []wire.Property
	Proxied    wire.ProxyChecks
	Signature  []byte
	Refused    []wire.RefusedChunk // of Chunks, that this agent can't put in force; ascending by Chunk
}

var (
	// ErrBaseMismatch: the message is a difference to another assignment than the one held.
	ErrBaseMismatch = errors.New("assignment is a difference to another one")
	// ErrBadSignature: the signature is not the server's, or not for this node.
	ErrBadSignature = errors.New("assignment is not signed by the server for this node")
	// ErrStaleGeneration: a lower generation than the one held.
	ErrStaleGeneration = errors.New("assignment is older than the one held")
)

// Apply returns what is held after a. It believes nothing before the signature
// fits: signed are the node, the generation and the hash, and the hash is computed
// from what was received. The agent holds a chunk that it can't read or that has an unknown
// kind like any other, and refuses it alone. h may be nil (nothing held); with an empty key the
// signature is not looked at.
func (h *Assignment) Apply(a *wire.Assignment, node uuid.UUID, key ed25519.PublicKey, decode func(model.ChunkID, []byte) (*model.Chunk, error)) (*Assignment, error) {
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
		next.Properties, next.Proxied = h.Properties, h.Proxied
		next.Chunks = make([]*model.Chunk, 0, len(h.Chunks)+len(a.Add))
		for _, c := range h.Chunks {
			if !slices.Contains(a.Remove, c.ID) {
				next.Chunks = append(next.Chunks, c)
			}
		}
		for _, r := range h.Refused {
			if !slices.Contains(a.Remove, r.Chunk) {
				next.refuse(r.Chunk, r.Reason)
			}
		}
	}
	for i := range a.Add {
		c, err := decode(a.Add[i].ID, a.Add[i].Body)
		if err != nil {
			c = wire.OpaqueChunk(a.Add[i].ID, a.Add[i].Body)
			next.refuse(c.ID, err.Error())
		} else if _, encoded := c.Body().([]byte); encoded {
			next.refuse(c.ID, fmt.Sprintf("this agent does not know chunks of kind %d", c.Kind))
		}
		next.Chunks = append(next.Chunks, c)
	}
	slices.SortFunc(next.Refused, func(a, b wire.RefusedChunk) int { return cmp.Compare(a.Chunk, b.Chunk) })
	slices.SortFunc(next.Chunks, func(a, b *model.Chunk) int { return int(int64(a.ID) - int64(b.ID)) })
	if a.HasProperties {
		next.Properties = cloneProperties(a.Properties)
	}
	if a.HasProxyChecks {
		next.Proxied = a.ProxyChecks.Clone()
	}
	if wire.AssignmentHash(next.Chunks, next.Properties, &next.Proxied) != a.Hash {
		return nil, fmt.Errorf("%w: what was received has another hash", ErrBadSignature)
	}
	return next, nil
}

// refuse notes why a chunk is held and not in force; Holding has no room for more than so many.
func (h *Assignment) refuse(chunk model.ChunkID, reason string) {
	if len(h.Refused) < wire.MaxRefused {
		h.Refused = append(h.Refused, wire.RefusedChunk{Chunk: chunk, Reason: reason})
	}
}

// cloneProperties owns its memory: the message aliases a read buffer.
func cloneProperties(list []wire.Property) []wire.Property {
	if len(list) == 0 {
		return nil
	}
	own := make([]wire.Property, len(list))
	for i, p := range list {
		own[i] = wire.Property{Name: p.Name, Value: slices.Clone(p.Value), Error: p.Error}
	}
	return own
}

// Message is the whole as a message, signature included: what an agent keeps on its
// disk, and applies to a nil Assignment after a restart.
func (h *Assignment) Message() *wire.Assignment {
	a := &wire.Assignment{Generation: h.Generation, Hash: h.Hash, Properties: h.Properties, HasProperties: true, ProxyChecks: h.Proxied, HasProxyChecks: !h.Proxied.Empty(), Signature: h.Signature}
	for _, c := range h.Chunks {
		a.Add = append(a.Add, wire.AssignedChunk{ID: c.ID, Body: wire.AppendChunk(nil, c)})
	}
	return a
}
