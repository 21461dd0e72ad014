package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"

	"github.com/muster-fleet/muster/internal/model"
)

// AppendAssignment writes a whole frame, nothing of it compressed: what agents keep
// on their disks.
func AppendAssignment(dst []byte, a *Assignment) []byte {
	dst, start := begin(dst, uint32(KindAssignment))
	dst = appendHead(dst, a)
	dst = appendContent(dst, a)
	dst = appendTail(dst, a)
	return end(dst, start)
}

// packLeast is the content that compression is tried on, in bytes: less is not worth
// the time.
const packLeast = 512

// AppendPackedAssignment writes a whole frame, its content compressed where that makes
// it smaller: what servers send.
func AppendPackedAssignment(dst []byte, a *Assignment) []byte {
	dst, start := begin(dst, uint32(KindAssignment))
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
	return end(dst, start)
}

func appendHead(dst []byte, a *Assignment) []byte {
	dst = appendGeneration(dst, 1, a.Generation)
	dst = appendHash(dst, 2, &a.Hash)
	return appendHash(dst, 3, &a.Base)
}

func appendTail(dst []byte, a *Assignment) []byte {
	dst = appendBool(dst, 7, a.HasProps)
	dst = appendBytes(dst, 8, a.Signature)
	return appendBool(dst, 12, a.HasProxied)
}

// appendContent writes what may be compressed.
func appendContent(dst []byte, a *Assignment) []byte {
	for i := range a.Add {
		var in int
		dst, in = begin(dst, 4)
		dst = appendUint(dst, 1, uint64(a.Add[i].ID))
		dst = appendBytes(dst, 2, a.Add[i].Body)
		dst = end(dst, in)
	}
	dst = appendNumbers(dst, 5, a.Remove)
	dst = appendProperties(dst, 6, a.Properties)
	return appendProxied(dst, &a.Proxied)
}

func appendProperties(dst []byte, field uint32, list []Property) []byte {
	for i := range list {
		p := &list[i]
		var in int
		dst, in = begin(dst, field)
		dst = appendString(dst, 1, p.Name)
		dst = appendBytes(dst, 2, p.Value)
		dst = appendString(dst, 3, p.Error)
		dst = end(dst, in)
	}
	return dst
}

// Decode fills a from the body of a frame. Chunk bodies, property values and the
// signature alias the input, or what was unpacked from it.
func (a *Assignment) Decode(body []byte) error {
	*a = Assignment{Add: a.Add[:0], Remove: a.Remove[:0], Properties: a.Properties[:0]}
	f := fields{message: "Assignment", rest: body}
	packed := false
	for f.next() {
		switch f.num {
		case 1:
			a.Generation = f.generation("generation")
		case 2:
			f.fixed("hash", a.Hash[:])
		case 3:
			f.fixed("base", a.Base[:])
		case 7:
			a.HasProps = f.bool("has_properties")
		case 8:
			a.Signature = f.raw("signature", maxName)
		case 12:
			a.HasProxied = f.bool("has_proxied")
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
			f.done(&in)
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
		if f.room("add", len(a.Add), maxChunks) {
			a.Add = append(a.Add, f.assigned())
		}
	case 5:
		a.Remove = f.removed(a.Remove)
	case 6:
		if f.room("properties", len(a.Properties), maxProps) {
			a.Properties = append(a.Properties, f.property())
		}
	case 10:
		if f.room("proxy_nodes", len(a.Proxied.Nodes), maxProxies) {
			a.Proxied.Nodes = append(a.Proxied.Nodes, f.proxyNode())
		}
	case 11:
		if f.room("proxy_checks", len(a.Proxied.Sets), maxChunks) {
			a.Proxied.Sets = append(a.Proxied.Sets, f.proxySet())
		}
	default:
		return false
	}
	return true
}

// unpacked returns a walk over compressed fields. What they say they unpack to is
// looked at before a byte is unpacked.
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

func (f *fields) assigned() (c AssignedChunk) {
	in := f.nested("add", "AssignedChunk")
	for in.next() {
		switch in.num {
		case 1:
			c.ID = model.ChunkID(in.uint32("id"))
		case 2:
			c.Body = in.raw("body", maxBody)
		}
	}
	f.done(&in)
	return c
}

// removed takes both forms of a repeated number, packed or one by one.
func (f *fields) removed(list []model.ChunkID) []model.ChunkID {
	return numbers(f, "remove", list, maxChunks)
}

func numbers[T ~uint32](f *fields, name string, list []T, most int) []T {
	if f.typ == typeVarint {
		if f.room(name, len(list), most) {
			list = append(list, T(f.uint32(name)))
		}
		return list
	}
	data := f.raw(name, MaxFrame)
	for i := 0; i < len(data) && f.room(name, len(list), most); {
		var v uint64
		if v, i = uvarint(data, i); i < 0 || v > 1<<32-1 {
			f.fail(name, "not a number of 32 bits")
			break
		}
		list = append(list, T(v))
	}
	return list
}

// appendNumbers writes them packed, as protobuf calls it.
func appendNumbers[T ~uint32](dst []byte, field uint32, list []T) []byte {
	if len(list) == 0 {
		return dst
	}
	dst, in := begin(dst, field)
	for _, n := range list {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return end(dst, in)
}

func (f *fields) property() (p Property) {
	in := f.nested("properties", "Property")
	for in.next() {
		switch in.num {
		case 1:
			p.Name = in.string("name", maxName)
		case 2:
			p.Value = in.raw("value", maxBody)
		case 3:
			p.Error = in.string("error", maxText)
		}
	}
	f.done(&in)
	return p
}

// AppendHolding writes a whole frame.
func AppendHolding(dst []byte, h *Holding) []byte {
	dst, start := begin(dst, uint32(KindHolding))
	dst = appendGeneration(dst, 1, h.Generation)
	dst = appendHash(dst, 2, &h.Hash)
	return end(dst, start)
}

// Decode fills h from the body of a frame.
func (h *Holding) Decode(body []byte) error {
	*h = Holding{}
	f := fields{message: "Holding", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			h.Generation = f.generation("generation")
		case 2:
			f.fixed("hash", h.Hash[:])
		}
	}
	return f.err
}

// AssignmentHash names what a node holds. chunks ascend by id and carry their
// hashes; properties ascend by name. Server and agent compute it alike:
// docs/protocol/README.md has the layout.
func AssignmentHash(chunks []*model.Chunk, properties []Property, proxied *Proxied) [32]byte {
	return JoinHashes(ChunksHash(chunks, proxied), PropertiesHash(properties))
}

// JoinHashes makes the hash of an assignment of those of its two parts. Nodes share
// either part with others, so that each is hashed once.
func JoinHashes(chunks, properties [32]byte) [32]byte {
	const title = "muster.v1 assignment\n"
	var buf [len(title) + 64]byte
	copy(buf[copy(buf[:], title):], chunks[:])
	copy(buf[len(title)+32:], properties[:])
	return sha256.Sum256(buf[:])
}

// ChunksHash is of the part of an assignment that nodes with the same chunks share.
func ChunksHash(chunks []*model.Chunk, proxied *Proxied) (sum [32]byte) {
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

// PropertiesHash is of the part of an assignment that nodes with the same values share.
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

// SignedBytes is what the signature of an assignment covers: for whom, which
// generation, and the hash of what is then held.
func SignedBytes(node uuid.UUID, gen Generation, hash [32]byte) []byte {
	b := append([]byte("muster.v1 signed assignment\n"), node[:]...)
	b = binary.BigEndian.AppendUint64(b, gen.Epoch)
	b = binary.BigEndian.AppendUint64(b, gen.Revision)
	return append(b, hash[:]...)
}
