package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"

	"github.com/muster-fleet/muster/internal/model"
)

// AppendAssignment writes a whole frame without compression, as agents store it.
func AppendAssignment(dst []byte, a *Assignment) []byte {
	dst, start := openMessage(dst, uint32(KindAssignment))
	dst = appendHead(dst, a)
	dst = appendContent(dst, a)
	dst = appendTail(dst, a)
	return closeMessage(dst, start)
}

// packLeast is the least content in bytes that is compressed.
const packLeast = 512

// AppendPackedAssignment writes a whole frame as servers send it: its content is compressed where that
// makes it shorter.
func AppendPackedAssignment(dst []byte, a *Assignment) []byte {
	dst, start := openMessage(dst, uint32(KindAssignment))
	dst = appendHead(dst, a)
	at := len(dst)
	dst = appendContent(dst, a)
	var packed []byte
	if plain := dst[at:]; len(plain) >= packLeast {
		if packed = s2.EncodeSnappy(nil, plain); len(packed)+8 < len(plain) {
			dst = dst[:at]
		} else {
			packed = nil
		}
	}
	dst = appendTail(dst, a)
	dst = appendBytes(dst, 9, packed)
	return closeMessage(dst, start)
}

func appendHead(dst []byte, a *Assignment) []byte {
	if a.Generation != (Generation{}) {
		dst = appendMessage(dst, 1, &a.Generation, appendGeneration)
	}
	dst = appendFixed(dst, 2, a.Hash[:])
	return appendFixed(dst, 3, a.Base[:])
}

func appendTail(dst []byte, a *Assignment) []byte {
	dst = appendBool(dst, 7, a.HasProperties)
	dst = appendBytes(dst, 8, a.Signature)
	dst = appendBool(dst, 12, a.HasProxyChecks)
	return appendBool(dst, 13, a.More)
}

// appendContent writes the fields that may be compressed.
func appendContent(dst []byte, a *Assignment) []byte {
	dst = appendMessages(dst, 4, a.Add, appendAssignedChunk)
	dst = appendNumbers(dst, 5, a.Remove)
	dst = appendMessages(dst, 6, a.Properties, appendProperty)
	dst = appendMessages(dst, 10, a.ProxyChecks.Nodes, appendProxyNode)
	return appendMessages(dst, 11, a.ProxyChecks.Sets, appendProxySet)
}

// Decode fills a from the body of a frame. Chunk bodies, property values and the signature alias the
// input, or a buffer with its unpacked content.
func (a *Assignment) Decode(body []byte) error {
	*a = Assignment{Add: a.Add[:0], Remove: a.Remove[:0], Properties: a.Properties[:0]}
	f := fields{message: "Assignment", rest: body}
	packed := false
	for f.next() {
		switch f.num {
		case 1:
			a.Generation = nested(&f, "generation", "Generation", readGeneration)
		case 2:
			f.fixed("hash", a.Hash[:])
		case 3:
			f.fixed("base", a.Base[:])
		case 7:
			a.HasProperties = f.bool("has_properties")
		case 8:
			a.Signature = f.raw("signature", maxName)
		case 12:
			a.HasProxyChecks = f.bool("has_proxy_checks")
		case 13:
			a.More = f.bool("more")
		case 9:
			if packed { // each could unpack to a frame's worth
				f.fail("packed", "more than one")
				break
			}
			packed = true
			in := f.unpacked("packed", "Assignment.packed")
			for in.next() {
				if !a.content(&in) && in.num == 9 {
					in.fail("packed", "within packed")
				}
			}
			f.mergeError(&in)
		default:
			a.content(&f)
		}
	}
	return f.err
}

// content reads the fields that may be compressed.
func (a *Assignment) content(f *fields) bool {
	switch f.num {
	case 4:
		a.Add = nestedList(f, "add", "AssignedChunk", a.Add, maxChunks, readAssignedChunk)
	case 5:
		a.Remove = numbers(f, "remove", a.Remove, maxChunks)
	case 6:
		a.Properties = nestedList(f, "properties", "Property", a.Properties, maxProps, readProperty)
	case 10:
		a.ProxyChecks.Nodes = nestedList(f, "proxy_nodes", "ProxyNode", a.ProxyChecks.Nodes, maxProxies, readProxyNode)
	case 11:
		a.ProxyChecks.Sets = nestedList(f, "proxy_sets", "ProxySet", a.ProxyChecks.Sets, maxChunks, readProxySet)
	default:
		return false
	}
	return true
}

// unpacked returns a walk over compressed fields. It checks their unpacked length before it unpacks.
func (f *fields) unpacked(name, message string) fields {
	packed := f.raw(name, MaxFrame)
	if f.err != nil {
		return fields{}
	}
	size, err := s2.DecodedLen(packed)
	if err == nil && size > MaxFrame {
		f.fail(name, "unpacks to %d bytes, at most %d", size, MaxFrame)
		return fields{}
	}
	var plain []byte
	if err == nil {
		plain, err = s2.Decode(nil, packed)
	}
	if err != nil {
		f.fail(name, "not Snappy's block format")
		return fields{}
	}
	return fields{message: message, rest: plain}
}

// AssignmentHash identifies the content of an assignment. chunks ascend by id and have their hashes;
// properties ascend by name. Server and agent compute it alike; docs/protocol/README.md has the layout.
func AssignmentHash(chunks []*model.Chunk, properties []Property, proxied *ProxyChecks) [32]byte {
	return JoinHashes(ChunksHash(chunks, proxied), PropertiesHash(properties))
}

// JoinHashes returns the hash of an assignment from the hashes of its two parts. Many nodes share either
// part, so that each is hashed once.
func JoinHashes(chunks, properties [32]byte) [32]byte {
	const title = "muster.v1 assignment\n"
	var buf [len(title) + 64]byte
	copy(buf[copy(buf[:], title):], chunks[:])
	copy(buf[len(title)+32:], properties[:])
	return sha256.Sum256(buf[:])
}

// ChunksHash returns the hash of the part that nodes with the same chunks share.
func ChunksHash(chunks []*model.Chunk, proxied *ProxyChecks) (sum [32]byte) {
	h := sha256.New()
	var buf [20]byte
	writeCount(h, len(chunks))
	for _, c := range chunks {
		binary.BigEndian.PutUint32(buf[:4], uint32(c.ID))
		copy(buf[4:], c.Hash[:])
		h.Write(buf[:])
	}
	if !proxied.Empty() {
		writeProxied(h, proxied)
	}
	h.Sum(sum[:0])
	return sum
}

// PropertiesHash returns the hash of the part that nodes with the same values share.
func PropertiesHash(list []Property) (sum [32]byte) {
	h := sha256.New()
	writeProperties(h, list)
	h.Sum(sum[:0])
	return sum
}

func writeProperties(h hash.Hash, list []Property) {
	writeCount(h, len(list))
	for i := range list {
		p := &list[i]
		for _, part := range [...][]byte{[]byte(p.Name), p.Value, []byte(p.Error)} {
			writeCount(h, len(part))
			h.Write(part)
		}
	}
}

func writeCount(h hash.Hash, n int) {
	var buf [4]byte
	binary.BigEndian.PutUint32(buf[:], uint32(n))
	h.Write(buf[:])
}

// SignedBytes returns the bytes that an assignment's signature covers: its node, its generation and the
// hash of the whole assignment.
func SignedBytes(node uuid.UUID, gen Generation, hash [32]byte) []byte {
	b := append([]byte("muster.v1 signed assignment\n"), node[:]...)
	b = binary.BigEndian.AppendUint64(b, gen.Epoch)
	b = binary.BigEndian.AppendUint64(b, gen.Revision)
	return append(b, hash[:]...)
}
