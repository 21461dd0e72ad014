package wire

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// AppendChunk appends the encoding of a chunk (a compiled check or template) without its ID and Hash. Equal chunks
// are equal bytes. The chunk must be sealed.
func AppendChunk(dst []byte, c *model.Chunk) []byte {
	if c.Kind == 0 { // see OpaqueChunk
		data, _ := c.Body().([]byte)
		return append(dst, data...)
	}
	dst = appendUint(dst, 1, uint64(c.Kind))
	dst = appendUint(dst, 2, uint64(c.Unit))
	dst = appendUint(dst, 3, uint64(c.Namespace))
	dst = appendString(dst, 4, c.Name)
	dst, in := openMessage(dst, 5)
	switch body := c.Body().(type) {
	case *model.CheckChunk:
		dst = appendCheckChunk(dst, body)
	case *model.TemplateChunk:
		dst = appendTemplateChunk(dst, body)
	case *model.DirectiveChunk:
		dst = appendDirectiveChunk(dst, body)
	case []byte:
		dst = append(dst, body...)
	default:
		panic(fmt.Sprintf("BUG: encode chunk of unit %d: no encoder for body %T of kind %d", c.Unit, body, c.Kind))
	}
	return closeMessage(dst, in)
}

// OpaqueChunk wraps the bytes of a chunk that this build cannot decode as a chunk of kind 0. It encodes to the same
// bytes, so that its hash is the same.
func OpaqueChunk(id model.ChunkID, data []byte) *model.Chunk {
	return (&model.Chunk{ID: id, Hash: ChunkHash(data)}).Seal(0, slices.Clone(data))
}

// ChunkFeature returns the feature name by which an agent announces in Hello that it understands a kind of chunk
// (compiled check).
func ChunkFeature(kind model.ChunkKind) string { return fmt.Sprintf("chunk.%d", kind) }

// Features returns the features that an agent of this build lists in Hello.
func Features() []string {
	return []string{ChunkFeature(model.ChunkCheck), ChunkFeature(model.ChunkTemplate), ChunkFeature(model.ChunkDirective)}
}

// ChunkHash returns the hash of an encoded chunk: the first half of its SHA-256.
func ChunkHash(body []byte) (h [16]byte) {
	sum := sha256.Sum256(body)
	copy(h[:], sum[:])
	return h
}

// DecodeChunk decodes a chunk (a compiled check or template). The chunk owns its memory. The body of a kind that this
// build does not know stays encoded, as []byte.
func DecodeChunk(id model.ChunkID, data []byte) (*model.Chunk, error) {
	if len(data) > maxBody {
		return nil, fmt.Errorf("decode Chunk: %w: %d bytes, at most %d", ErrMalformed, len(data), maxBody)
	}
	head := model.Chunk{ID: id, Hash: ChunkHash(data)}
	var body []byte
	f := fields{message: "Chunk", rest: data}
	for f.next() {
		switch f.num {
		case 1:
			head.Kind = model.ChunkKind(f.uint32("kind"))
		case 2:
			head.Unit = model.UnitID(f.uint32("unit"))
		case 3:
			head.Namespace = model.NamespaceID(f.uint32("namespace"))
		case 4:
			head.Name = f.string("name", maxName)
		case 5:
			body = f.raw("body", maxBody)
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	switch head.Kind {
	case 0:
		return nil, fmt.Errorf("decode Chunk: %w: the chunk has no kind", ErrMalformed)
	case model.ChunkCheck:
		c := &model.CheckChunk{Chunk: head}
		in := fields{message: "CheckChunk", rest: body}
		if readCheckChunk(&in, c); in.err != nil {
			return nil, in.err
		}
		return c.Seal(), nil
	case model.ChunkTemplate:
		c := &model.TemplateChunk{Chunk: head}
		in := fields{message: "TemplateChunk", rest: body}
		if readTemplateChunk(&in, c); in.err != nil {
			return nil, in.err
		}
		return c.Seal(), nil
	case model.ChunkDirective:
		c := &model.DirectiveChunk{Chunk: head}
		in := fields{message: "DirectiveChunk", rest: body}
		if readDirectiveChunk(&in, c); in.err != nil {
			return nil, in.err
		}
		return c.Seal(), nil
	}
	return head.Seal(head.Kind, slices.Clone(body)), nil
}

// Limits of the decoders written by hand, besides MaxFrame and MaxSignals; generated ones have the
// limits of docs/protocol/muster.proto. A longer field is malformed: no peer that follows
// docs/protocol sends one.
const (
	maxName    = 255     // names of nodes, versions, codes
	maxText    = 4096    // sentences for people
	maxKey     = 255     // keys of labels, facts, environment
	maxValue   = 32768   // values of those
	maxPairs   = 1024    // entries of one map
	maxStreams = 64      // streams in one Hello, Welcome or Ack
	maxChunks  = 10000   // chunks in one Assignment, counts in one Gap
	maxProps   = 10000   // properties in one Assignment
	maxProxies = 10000   // proxy nodes in one Assignment
	maxBody    = MaxBody // one encoded chunk, a command, a property's value
	maxNumber  = 1 << 62 // numbers of signals
)

// Limits of one node's assignment. The planner refuses changes that would break them.
const (
	// MaxBody is the longest encoded chunk and the longest value of a property, in bytes.
	MaxBody = 256 << 10
	// MaxChunks is the largest number of chunks, and of properties, of one node.
	MaxChunks = maxChunks
	// MaxProxies is the largest number of proxy nodes of one node's checks.
	MaxProxies = maxProxies
	// MaxServers is the largest number of servers in one Welcome.
	MaxServers = 64
	// MaxAssignment is the largest assignment in bytes, by ChunkSize and PropertySize. It is sent in
	// parts (docs/decisions/0013-large-bodies.md).
	MaxAssignment = 16 << 20
	// MaxPart is the largest content of one part in bytes, before compression.
	MaxPart = MaxFrame - 8192
	// assignedOverhead is the most bytes that a chunk or property takes besides its content.
	assignedOverhead = 24
)

// ChunkSize returns how many bytes a chunk with a body of this size adds to an assignment.
func ChunkSize(body int) int { return body + assignedOverhead }

// PropertySize returns how many bytes a property adds to an assignment.
func PropertySize(p *Property) int {
	return len(p.Name) + len(p.Value) + len(p.Error) + assignedOverhead
}
