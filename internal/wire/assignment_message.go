package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"

	"github.com/muster-fleet/muster/internal/model"
)

// AppendAssignment appends an Assignment frame without compression, in the form that agents store. The frame has all
// checks of one agent.
func AppendAssignment(dst []byte, a *Assignment) []byte {
	return appendMessage(dst, uint32(KindAssignment), a, codeAssignment)
}

// minPackedBytes is the least number of bytes that is worth compressing.
const minPackedBytes = 512

// AppendPackedAssignment appends an Assignment frame, compressed if compression makes the frame shorter. The frame has
// all checks of one agent. It is compressed if that is shorter.
func AppendPackedAssignment(dst []byte, a *Assignment) []byte {
	dst, start := openMessage(dst, uint32(KindAssignment))
	dst = encodeMessage(dst, a, codeAssignmentHead)
	at := len(dst)
	dst = encodeMessage(dst, a, codeAssignmentContent)
	var packed []byte
	if plain := dst[at:]; len(plain) >= minPackedBytes {
		if packed = s2.EncodeSnappy(nil, plain); len(packed)+8 < len(plain) {
			dst = dst[:at]
		} else {
			packed = nil
		}
	}
	dst = encodeMessage(dst, a, codeAssignmentTail)
	dst = appendBytes(dst, 9, packed)
	return closeMessage(dst, start)
}

// codeAssignment encodes or decodes the fields of an assignment without compression.
func codeAssignment(c *coder, a *Assignment) {
	codeAssignmentHead(c, a)
	codeAssignmentContent(c, a)
	codeAssignmentTail(c, a)
}

// codeAssignmentHead encodes or decodes the first fields of an assignment. They are its version (generation), its
// hash, and the hash of the assignment that it changes (base).
func codeAssignmentHead(c *coder, a *Assignment) {
	message(c, 1, "generation", "Generation", &a.Generation, codeGeneration)
	c.fixed(2, "hash", a.Hash[:])
	c.fixed(3, "base", a.Base[:])
}

// codeAssignmentTail encodes or decodes the last fields of an assignment, flags and signature.
func codeAssignmentTail(c *coder, a *Assignment) {
	c.flag(7, "has_properties", &a.HasProperties)
	c.bytes(8, "signature", &a.Signature, maxName)
	c.flag(12, "has_proxy_checks", &a.HasProxyChecks)
	c.flag(13, "more", &a.More)
}

// codeAssignmentContent encodes or decodes the part of an assignment that a server may compress. A server may compress
// these fields.
func codeAssignmentContent(c *coder, a *Assignment) {
	messages(c, 4, "add", "AssignedDefinition", &a.Add, maxDefinitions, codeAssignedDefinition)
	numbers(c, 5, "remove", &a.Remove, maxDefinitions)
	messages(c, 6, "properties", "Property", &a.Properties, maxProps, codeProperty)
	messages(c, 10, "proxy_nodes", "ProxyNode", &a.ProxyChecks.Nodes, maxProxies, codeProxyNode)
	messages(c, 11, "proxy_sets", "ProxySet", &a.ProxyChecks.Sets, maxDefinitions, codeProxySet)
}

// Decode decodes the body of an Assignment frame. Definition bodies, property values and the signature alias the
// input, or a buffer with its unpacked content.
func (a *Assignment) Decode(body []byte) error {
	*a = Assignment{Add: a.Add[:0], Remove: a.Remove[:0], Properties: a.Properties[:0]}
	packed := false
	return decodeMessage("Assignment", body, a, func(c *coder, a *Assignment) {
		if codeAssignment(c, a); !c.decodes(9) {
			return
		}
		if packed { // each could unpack to a frame's worth
			c.fail("packed", "more than one")
			return
		}
		packed = true
		err := decodeMessage("Assignment.packed", c.unpackField("packed"), a, func(in *coder, a *Assignment) {
			if codeAssignmentContent(in, a); in.num == 9 {
				in.fail("packed", "within packed")
			}
		})
		c.err = cmp.Or(c.err, err)
	})
}

// unpackField decompresses a field's content, after a check of its length. It checks the unpacked length before it
// unpacks.
func (f *fields) unpackField(name string) (plain []byte) {
	packed := f.raw(name, MaxFrame)
	if f.err != nil {
		return nil
	}
	size, err := s2.DecodedLen(packed)
	if err == nil && size > MaxFrame {
		f.fail(name, "unpacks to %d bytes, at most %d", size, MaxFrame)
		return nil
	}
	if err == nil {
		plain, err = s2.Decode(nil, packed)
	}
	if err != nil {
		f.fail(name, "not Snappy's block format")
	}
	return plain
}

// AssignmentHash returns the hash of an assignment, over its compiled checks, property values and proxy checks.
// definitions ascend by id and have their hashes; properties ascend by name. Server and agent compute it alike;
// docs/protocol/README.md has the layout.
func AssignmentHash(definitions []*model.Definition, properties []Property, proxied *ProxyChecks) [32]byte {
	return JoinHashes(DefinitionsHash(definitions, proxied), PropertiesHash(properties))
}

// JoinHashes computes the hash of an assignment from the hashes of its checks and of its property values. Many nodes
// share either part, so that each is hashed once.
func JoinHashes(definitions, properties [32]byte) [32]byte {
	const title = "muster.v1 assignment\n"
	var buf [len(title) + 64]byte
	copy(buf[copy(buf[:], title):], definitions[:])
	copy(buf[len(title)+32:], properties[:])
	return sha256.Sum256(buf[:])
}

// DefinitionsHash returns the hash of an assignment's compiled definitions (such as checks and Templates) and
// proxy checks.
func DefinitionsHash(definitions []*model.Definition, proxied *ProxyChecks) (sum [32]byte) {
	h := sha256.New()
	var buf [20]byte
	hashCount(h, len(definitions))
	for _, c := range definitions {
		binary.BigEndian.PutUint32(buf[:4], uint32(c.ID))
		copy(buf[4:], c.Hash[:])
		h.Write(buf[:])
	}
	if !proxied.Empty() {
		hashProxyChecks(h, proxied)
	}
	h.Sum(sum[:0])
	return sum
}

// PropertiesHash returns the hash of the node properties in an assignment.
func PropertiesHash(list []Property) (sum [32]byte) {
	h := sha256.New()
	hashProperties(h, list)
	h.Sum(sum[:0])
	return sum
}

// hashProperties adds property names, values and errors to a hash.
func hashProperties(h hash.Hash, list []Property) {
	hashCount(h, len(list))
	for i := range list {
		p := &list[i]
		for _, part := range [...][]byte{[]byte(p.Name), p.Value, []byte(p.Error)} {
			hashCount(h, len(part))
			h.Write(part)
		}
	}
}

// hashCount writes the length of a list into a hash, as 32 bits.
func hashCount(h hash.Hash, n int) {
	var buf [4]byte
	binary.BigEndian.PutUint32(buf[:], uint32(n))
	h.Write(buf[:])
}

// SignedBytes returns the bytes that the server signs to prove the origin of an assignment. They are node, generation
// (version) and hash.
func SignedBytes(node uuid.UUID, gen Generation, hash [32]byte) []byte {
	b := append([]byte("muster.v1 signed assignment\n"), node[:]...)
	b = binary.BigEndian.AppendUint64(b, gen.Epoch)
	b = binary.BigEndian.AppendUint64(b, gen.Revision)
	return append(b, hash[:]...)
}

// Parts splits an assignment into messages that each fit in one frame. The last part has the signature. A small
// assignment is its only part.
func (a *Assignment) Parts() (parts []*Assignment) {
	part := a.emptyPart()
	size := 0
	room := func(n int) {
		if size += n; size > MaxPart && size > n {
			parts = append(parts, part)
			part, size = a.emptyPart(), n
		}
	}
	for i := range a.Add {
		room(DefinitionSize(len(a.Add[i].Body)))
		part.Add = append(part.Add, a.Add[i])
	}
	for i := range a.Properties {
		room(PropertySize(&a.Properties[i]))
		part.Properties = append(part.Properties, a.Properties[i])
	}
	for i := range a.ProxyChecks.Nodes {
		room(a.ProxyChecks.Nodes[i].Size())
		part.ProxyChecks.Nodes = append(part.ProxyChecks.Nodes, a.ProxyChecks.Nodes[i])
	}
	for i := range a.ProxyChecks.Sets {
		room(a.ProxyChecks.Sets[i].Size())
		part.ProxyChecks.Sets = append(part.ProxyChecks.Sets, a.ProxyChecks.Sets[i])
	}
	last := *a
	last.Add, last.Properties, last.ProxyChecks = part.Add, part.Properties, part.ProxyChecks
	return append(parts, &last)
}

// emptyPart returns a message for one part of a large assignment, before the part's checks are added. It has no
// content yet and is not marked as the last part.
func (a *Assignment) emptyPart() *Assignment {
	return &Assignment{Generation: a.Generation, Hash: a.Hash, More: true}
}

// PartialAssignment joins the received parts of a large assignment. It copies them, because they alias read buffers.
type PartialAssignment struct {
	sum  Assignment
	size int
}

// Join adds a received part of a large assignment, and returns the assignment after the last part. After the last part
// it returns the whole assignment, before that nil. Parts of another assignment, and more than MaxAssignment of one,
// replace the parts collected before.
func (p *PartialAssignment) Join(a *Assignment) *Assignment {
	if p.size > 0 && (p.sum.Hash != a.Hash || p.sum.Generation != a.Generation || p.size > MaxAssignment) {
		*p = PartialAssignment{}
	}
	if !a.More {
		if p.size > 0 {
			a.Add, a.Properties = append(p.sum.Add, a.Add...), append(p.sum.Properties, a.Properties...)
			a.ProxyChecks.Nodes = append(p.sum.ProxyChecks.Nodes, a.ProxyChecks.Nodes...)
			a.ProxyChecks.Sets = append(p.sum.ProxyChecks.Sets, a.ProxyChecks.Sets...)
			*p = PartialAssignment{}
		}
		return a
	}
	p.sum.Generation, p.sum.Hash = a.Generation, a.Hash
	for _, c := range a.Add {
		p.size += DefinitionSize(len(c.Body))
		p.sum.Add = append(p.sum.Add, AssignedDefinition{ID: c.ID, Body: slices.Clone(c.Body)})
	}
	for i := range a.Properties {
		p.size += PropertySize(&a.Properties[i])
	}
	p.sum.Properties = append(p.sum.Properties, CloneProperties(a.Properties)...)
	proxied := a.ProxyChecks.Clone()
	p.size += proxied.Size()
	p.sum.ProxyChecks.Nodes = append(p.sum.ProxyChecks.Nodes, proxied.Nodes...)
	p.sum.ProxyChecks.Sets = append(p.sum.ProxyChecks.Sets, proxied.Sets...)
	return nil
}

// ProxyChecks has the proxy nodes (nodes without an agent) in an assignment, and the checks for each. A proxy
// node is a node without an agent. The agent runs the checks for each proxy node.
type ProxyChecks struct {
	Nodes []ProxyNode // ascending by Node
	Sets  []ProxySet
}

// ProxyNode is a node without an agent in an assignment, with its properties. Its Properties replace the properties of
// the node that runs the check.
type ProxyNode struct {
	Node       model.NodeID
	Name       string
	Properties []Property // ascending by name
}

// ProxySet is a group of proxy nodes that share a list of checks. The agent runs each check for each proxy node. A
// proxy node is a node without an agent. Both ascend.
type ProxySet struct {
	Definitions []model.DefinitionID
	Nodes       []model.NodeID
}

// Empty reports whether an assignment has no checks of proxy nodes. p may be nil.
func (p *ProxyChecks) Empty() bool { return p == nil || len(p.Nodes)+len(p.Sets) == 0 }

// Equal reports whether two assignments have the same proxy nodes with the same checks.
func (p *ProxyChecks) Equal(q *ProxyChecks) bool {
	if p.Empty() || q.Empty() {
		return p.Empty() == q.Empty()
	}
	return slices.EqualFunc(p.Nodes, q.Nodes, func(a, b ProxyNode) bool {
		return a.Node == b.Node && a.Name == b.Name && slices.EqualFunc(a.Properties, b.Properties, equalProperty)
	}) && slices.EqualFunc(p.Sets, q.Sets, func(a, b ProxySet) bool {
		return slices.Equal(a.Definitions, b.Definitions) && slices.Equal(a.Nodes, b.Nodes)
	})
}

// equalProperty reports whether two properties are equal.
func equalProperty(a, b Property) bool {
	return a.Name == b.Name && a.Error == b.Error && string(a.Value) == string(b.Value)
}

// CloneProperties copies node properties, so that the copy stays valid when the read buffer is reused. It returns nil
// for an empty list.
func CloneProperties(list []Property) []Property {
	if len(list) == 0 {
		return nil
	}
	own := slices.Clone(list)
	for i := range own {
		own[i].Value = slices.Clone(own[i].Value)
	}
	return own
}

// Clone copies the proxy checks, so that the copy stays valid when the read buffer is reused.
func (p *ProxyChecks) Clone() ProxyChecks {
	own := ProxyChecks{Nodes: slices.Clone(p.Nodes), Sets: slices.Clone(p.Sets)}
	for i := range own.Nodes {
		own.Nodes[i].Properties = CloneProperties(own.Nodes[i].Properties)
	}
	for i := range own.Sets {
		own.Sets[i] = ProxySet{slices.Clone(own.Sets[i].Definitions), slices.Clone(own.Sets[i].Nodes)}
	}
	return own
}

// Size returns the maximum number of bytes that the proxy checks add to an encoded assignment.
func (p *ProxyChecks) Size() (size int) {
	if p.Empty() {
		return 0
	}
	for i := range p.Nodes {
		size += p.Nodes[i].Size()
	}
	for i := range p.Sets {
		size += p.Sets[i].Size()
	}
	return size
}

// Size returns the maximum number of bytes that the proxy node adds to an encoded assignment. It must not exceed
// MaxPart.
func (n *ProxyNode) Size() int {
	size := len(n.Name) + assignedOverhead
	for k := range n.Properties {
		size += PropertySize(&n.Properties[k])
	}
	return size
}

// Size returns the maximum number of bytes that the checks and proxy nodes of the set need.
func (s *ProxySet) Size() int { return assignedOverhead + 5*(len(s.Definitions)+len(s.Nodes)) }

// hashProxyChecks adds proxy nodes and their checks to a hash.
func hashProxyChecks(h hash.Hash, p *ProxyChecks) {
	hashCount(h, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		hashCount(h, int(n.Node))
		hashCount(h, len(n.Name))
		h.Write([]byte(n.Name))
		hashProperties(h, n.Properties)
	}
	hashCount(h, len(p.Sets))
	for i := range p.Sets {
		hashCount(h, len(p.Sets[i].Definitions))
		for _, id := range p.Sets[i].Definitions {
			hashCount(h, int(id))
		}
		hashCount(h, len(p.Sets[i].Nodes))
		for _, id := range p.Sets[i].Nodes {
			hashCount(h, int(id))
		}
	}
}

// PropertyLookup returns a function that finds a property by name in a sorted list.
func PropertyLookup(list []Property) model.PropertyValues {
	return func(name string) ([]byte, string, bool) {
		i, ok := slices.BinarySearchFunc(list, name, func(p Property, name string) int { return strings.Compare(p.Name, name) })
		if !ok {
			return nil, "", false
		}
		return list[i].Value, list[i].Error, true
	}
}
