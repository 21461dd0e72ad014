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

// DecodeChunk is a function that decodes one chunk (a compiled check or Template) of an assignment. An error refuses
// the chunk alone.
type DecodeChunk = func(id model.ChunkID, data []byte) (*model.Chunk, error)

// Assignment is the list of checks and Templates that the node runs, after the agent has verified the server's
// signature. It is immutable.
type Assignment struct {
	Generation  wire.Generation
	Hash        [32]byte
	Chunks      []*model.Chunk // ascending by ID
	Properties  []wire.Property
	ProxyChecks wire.ProxyChecks
	Signature   []byte
	Refused     []wire.RefusedChunk // of Chunks, that this agent cannot run; ascending by Chunk
}

var (
	// ErrBaseMismatch reports a difference to another assignment than the present one.
	ErrBaseMismatch = errors.New("the assignment is a difference to an assignment that the agent does not have")
	// ErrBadSignature reports a signature that is not the server's, or not for this node.
	ErrBadSignature = errors.New("the assignment has no valid signature of the server for this node")
	// ErrStaleGeneration reports a lower generation than the present one.
	ErrStaleGeneration = errors.New("the assignment is older than the present assignment")
)

// Apply verifies the server's assignment message and returns this assignment with the changes in the message. It
// verifies the signature, which covers node, generation and hash, before anything else, and at the end computes the
// hash of all chunks and properties. A chunk that decode cannot read stays in the assignment, as received, and is
// refused alone. h may be nil. With an empty key the signature is not verified.
func (h *Assignment) Apply(a *wire.Assignment, node uuid.UUID, key ed25519.PublicKey, decode DecodeChunk) (*Assignment, error) {
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
			next.refuse(c.ID, fmt.Sprintf("this agent does not support compiled definitions (chunks) of kind %d: update the agent", c.Kind))
		}
		next.Chunks = append(next.Chunks, c)
	}
	slices.SortFunc(next.Refused, func(a, b wire.RefusedChunk) int { return cmp.Compare(a.Chunk, b.Chunk) })
	slices.SortFunc(next.Chunks, func(a, b *model.Chunk) int { return cmp.Compare(a.ID, b.ID) })
	if a.HasProperties {
		next.Properties = wire.CloneProperties(a.Properties)
	}
	if a.HasProxyChecks {
		next.ProxyChecks = a.ProxyChecks.Clone()
	}
	if wire.AssignmentHash(next.Chunks, next.Properties, &next.ProxyChecks) != a.Hash {
		return nil, fmt.Errorf("verify the assignment: %w: the signed hash differs from the hash of the received content", ErrBadSignature)
	}
	return next, nil
}

// refuse records that the agent cannot run a chunk (a compiled check or Template), with the reason. AssignmentStatus
// has room for MaxRefused.
func (h *Assignment) refuse(chunk model.ChunkID, reason string) {
	if len(h.Refused) < wire.MaxRefused {
		h.Refused = append(h.Refused, wire.RefusedChunk{Chunk: chunk, Reason: reason})
	}
}

// Message returns the whole assignment as one signed message, the content of the agent's assignment file
func (h *Assignment) Message() *wire.Assignment {
	a := &wire.Assignment{Generation: h.Generation, Hash: h.Hash, Properties: h.Properties, HasProperties: true, ProxyChecks: h.ProxyChecks, HasProxyChecks: !h.ProxyChecks.Empty(), Signature: h.Signature}
	for _, c := range h.Chunks {
		a.Add = append(a.Add, wire.AssignedChunk{ID: c.ID, Body: wire.AppendChunk(nil, c)})
	}
	return a
}
