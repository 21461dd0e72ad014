package wire

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// AppendDefinition appends the encoding of a compiled check or Template, without its id and hash. Equal definitions
// are equal bytes. The definition must be sealed.
func AppendDefinition(dst []byte, c *model.Definition) []byte {
	if c.Kind == 0 { // see OpaqueDefinition
		data, _ := c.Body().([]byte)
		return append(dst, data...)
	}
	dst = appendUint(dst, 1, uint64(c.Kind))
	dst = appendUint(dst, 2, uint64(c.Unit))
	dst = appendUint(dst, 3, uint64(c.Namespace))
	dst = appendString(dst, 4, c.Name)
	dst, in := openMessage(dst, 5)
	switch body := c.Body().(type) {
	case *model.CheckDefinition:
		dst = encodeMessage(dst, body, codeCheckDefinition)
	case *model.TemplateDefinition:
		dst = encodeMessage(dst, body, codeTemplateDefinition)
	case *model.DirectiveDefinition:
		dst = encodeMessage(dst, body, codeDirectiveDefinition)
	case *model.WaiverDefinition:
		dst = encodeMessage(dst, body, codeWaiverDefinition)
	case *model.RuleGroupDefinition:
		dst = encodeMessage(dst, body, codeRuleGroupDefinition)
	case []byte:
		dst = append(dst, body...)
	default:
		panic(fmt.Sprintf("BUG: encode definition of unit %d: no encoder for body %T of kind %d", c.Unit, body, c.Kind))
	}
	return closeMessage(dst, in)
}

// DirectiveWork returns a hash of the work of a directive on a node. The work has components, values, mode and one-shot
// time. Names, receivers of notifications and rules of reports are no part of the work.
func DirectiveWork(c *model.DirectiveDefinition) []byte {
	work := *c
	work.Definition, work.Technique, work.Blocks, work.Handlers, work.Route = model.Definition{}, "", nil, nil, ""
	work.Splay, work.Timeout, work.Grace, work.Severity = 0, 0, 0, 0
	sum := sha256.Sum256(AppendDefinition(nil, work.ToDefinition()))
	return sum[:16]
}

// OpaqueDefinition returns a definition that keeps the bytes of a compiled check in an unknown format. Another
// build has compiled it. The result has kind 0. It encodes to the same bytes, so that its hash is the same.
func OpaqueDefinition(id model.DefinitionID, data []byte) *model.Definition {
	return (&model.Definition{ID: id, Hash: DefinitionHash(data)}).SetBody(0, slices.Clone(data))
}

// DefinitionFeature returns the name by which an agent announces support for a kind of check. By this name an agent
// announces in Hello that it understands the kind.
func DefinitionFeature(kind model.DefinitionKind) string { return fmt.Sprintf("definition.%d", kind) }

// Features returns the names of optional abilities that an agent of the same build announces in Hello.
func Features() []string {
	return []string{DefinitionFeature(model.DefinitionCheck), DefinitionFeature(model.DefinitionTemplate), DefinitionFeature(model.DefinitionDirective),
		DefinitionFeature(model.DefinitionWaiver)}
}

// DefinitionHash returns the hash of an encoded check or Template, the first half of its SHA-256.
func DefinitionHash(body []byte) (h [16]byte) {
	sum := sha256.Sum256(body)
	copy(h[:], sum[:])
	return h
}

// DecodeDefinition decodes a compiled check or Template. The definition owns its memory. The body of a kind that this
// build does not know stays encoded, as []byte.
func DecodeDefinition(id model.DefinitionID, data []byte) (*model.Definition, error) {
	if len(data) > maxBody {
		return nil, fmt.Errorf("decode Definition: %w: %d bytes, at most %d", ErrMalformed, len(data), maxBody)
	}
	head := model.Definition{ID: id, Hash: DefinitionHash(data)}
	var body []byte
	f := fields{message: "Definition", rest: data}
	for f.next() {
		switch f.num {
		case 1:
			head.Kind = model.DefinitionKind(f.uint32("kind"))
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
		return nil, fmt.Errorf("decode Definition: %w: the definition has no kind", ErrMalformed)
	case model.DefinitionCheck:
		c := &model.CheckDefinition{Definition: head}
		if err := decodeMessage("CheckDefinition", body, c, codeCheckDefinition); err != nil {
			return nil, err
		}
		return c.ToDefinition(), nil
	case model.DefinitionTemplate:
		c := &model.TemplateDefinition{Definition: head}
		if err := decodeMessage("TemplateDefinition", body, c, codeTemplateDefinition); err != nil {
			return nil, err
		}
		return c.ToDefinition(), nil
	case model.DefinitionDirective, model.DefinitionExpectation:
		c := &model.DirectiveDefinition{Definition: head}
		if err := decodeMessage("DirectiveDefinition", slices.Clone(body), c, codeDirectiveDefinition); err != nil { // the arguments of components keep its bytes
			return nil, err
		}
		if (head.Kind == model.DefinitionExpectation) != (c.Rudder != "") {
			return nil, fmt.Errorf("decode Definition: %w: kind %d does not fit with a Rudder directive %q", ErrMalformed, head.Kind, c.Rudder)
		}
		return c.ToDefinition(), nil
	case model.DefinitionWaiver:
		c := &model.WaiverDefinition{Definition: head}
		if err := decodeMessage("WaiverDefinition", body, c, codeWaiverDefinition); err != nil {
			return nil, err
		}
		return c.ToDefinition(), nil
	case model.DefinitionRuleGroup:
		c := &model.RuleGroupDefinition{Definition: head}
		if err := decodeMessage("RuleGroupDefinition", body, c, codeRuleGroupDefinition); err != nil {
			return nil, err
		}
		return c.ToDefinition(), nil
	}
	return head.SetBody(head.Kind, slices.Clone(body)), nil
}

// Limits of hand-written decoders, besides MaxFrame and MaxSignals. Generated decoders have the limits of
// docs/protocol/muster.proto. A longer field is malformed: no peer that follows docs/protocol sends one.
const (
	maxName        = 255     // names of nodes, versions, codes
	maxText        = 4096    // sentences for people
	maxKey         = 255     // keys of labels, facts, environment
	maxValue       = 32768   // values of those
	maxPairs       = 1024    // entries of one map
	maxStreams     = 64      // streams in one Hello, Welcome or Ack
	maxDefinitions = 10000   // definitions in one Assignment, counts in one Gap
	maxProps       = 10000   // properties in one Assignment
	maxProxies     = 10000   // proxy nodes in one Assignment
	maxBody        = MaxBody // one encoded definition, a command, a property's value
	maxNumber      = 1 << 62 // numbers of signals
)

// Limits of the size of one node's assignment. The planner refuses changes that would break them.
const (
	// MaxBody is the longest encoded definition and the longest value of a property, in bytes.
	MaxBody = 256 << 10
	// MaxDefinitions is the largest number of definitions, and of properties, of one node.
	MaxDefinitions = maxDefinitions
	// MaxProxies is the largest number of proxy nodes of one node's checks.
	MaxProxies = maxProxies
	// MaxServers is the largest number of servers in one Welcome.
	MaxServers = 64
	// MaxAssignment is the largest assignment in bytes, by DefinitionSize and PropertySize. It is sent in
	// parts (docs/decisions/0013-large-bodies.md).
	MaxAssignment = 16 << 20
	// MaxPart is the largest content of one part in bytes, before compression.
	MaxPart = MaxFrame - 8192
	// assignedOverhead is the most bytes that a definition or property takes besides its content.
	assignedOverhead = 24
)

// DefinitionSize returns how many bytes a compiled check takes in an assignment. body is the size of its encoded body.
func DefinitionSize(body int) int { return body + assignedOverhead }

// PropertySize returns how many bytes a property adds to an assignment.
func PropertySize(p *Property) int {
	return len(p.Name) + len(p.Value) + len(p.Error) + assignedOverhead
}
