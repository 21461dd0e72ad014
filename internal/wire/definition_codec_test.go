package wire

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
)

// messageCodec encodes and decodes one kind of protobuf message for tests.
type messageCodec struct {
	name   string // in the .proto file
	encode func(v any) []byte
	decode func(body []byte) (any, error)
}

// frameCodec returns a test codec, which encodes and decodes one kind of message.
func frameCodec[T any, P interface {
	*T
	Decode([]byte) error
}](name string, app func([]byte, P) []byte) messageCodec {
	return messageCodec{
		name: "muster.v1." + name,
		encode: func(v any) []byte {
			_, body, err := FrameKind(app(nil, v.(P)))
			if err != nil {
				panic(err)
			}
			return body
		},
		decode: func(body []byte) (any, error) {
			v := P(new(T))
			err := v.Decode(body)
			return v, err
		},
	}
}

// batchCodec returns a test codec for Batch that also decodes the body of each signal.
func batchCodec() messageCodec {
	c := frameCodec("Batch", AppendBatch)
	whole := c.decode
	c.decode = func(body []byte) (any, error) {
		v, err := whole(body)
		for i := range v.(*Batch).Signals {
			s := &v.(*Batch).Signals[i]
			switch s.Kind {
			case SignalResult:
				r, bad := s.Result()
				x, worse := DecodeExtra(r.Extra)
				if err := errors.Join(bad, worse); err != nil {
					return v, err
				}
				r.Extra = AppendExtra(nil, &x)
				*s = ResultSignal(*s, r)
			case SignalValueBlock:
				var b ValueBlock
				if err := b.Decode(s.Body); err != nil {
					return v, err
				}
				s.Body = AppendValueBlock(nil, &b)
			case SignalReport:
				var r Report
				if err := r.Decode(s.Body); err != nil {
					return v, err
				}
				s.Body = AppendReport(nil, &r)
			case SignalInventory:
				var x Inventory
				if err := x.Decode(s.Body); err != nil {
					return v, err
				}
				s.Body = AppendInventory(nil, &x)
			}
		}
		return v, err
	}
	return c
}

// recordCodec returns a test codec for a kind of journal record.
func recordCodec(kind RecordKind, name string) messageCodec {
	return messageCodec{
		name:   "muster.journal.v1." + name,
		encode: func(v any) []byte { return AppendRecord(nil, v.(*Record))[1:] },
		decode: func(body []byte) (any, error) {
			r := &Record{}
			err := r.Decode(append([]byte{byte(kind)}, body...))
			return r, err
		},
	}
}

// codecs returns a test codec per message of the protocol.

// definitionCodec returns a test codec for the body of a compiled check.
func definitionCodec[T any](name string, code func(*coder, *T)) messageCodec {
	return messageCodec{
		name:   "muster.v1." + name,
		encode: func(v any) []byte { return encodeMessage(nil, v.(*T), code) },
		decode: func(body []byte) (any, error) {
			c := new(T)
			return c, decodeMessage(name, body, c, code)
		},
	}
}

// codecs returns a test codec for each message and journal record.
func codecs() []messageCodec {
	return []messageCodec{
		frameCodec("Hello", AppendHello), frameCodec("Welcome", AppendWelcome), frameCodec("Refuse", AppendRefuse),
		frameCodec("Assignment", AppendAssignment), frameCodec("AssignmentStatus", AppendAssignmentStatus), batchCodec(),
		frameCodec("Ack", AppendAck), frameCodec("Run", AppendRun), frameCodec("BackPressure", AppendBackPressure),
		frameCodec("Bye", AppendBye), frameCodec("Facts", AppendFacts), frameCodec("Stats", AppendStats),
		frameCodec("RunOutput", AppendRunOutput), frameCodec("RoundRobinRuns", AppendRoundRobinRuns), frameCodec("Exchange", AppendExchange),
		definitionCodec("CheckDefinition", codeCheckDefinition), definitionCodec("TemplateDefinition", codeTemplateDefinition),
		definitionCodec("DirectiveDefinition", codeDirectiveDefinition), definitionCodec("WaiverDefinition", codeWaiverDefinition),
		definitionCodec("RuleGroupDefinition", codeRuleGroupDefinition),
		{
			name:   "muster.v1.Definition",
			encode: func(v any) []byte { return AppendDefinition(nil, v.(*model.Definition)) },
			decode: func(body []byte) (any, error) {
				c, err := DecodeDefinition(0, body)
				if err == nil {
					c.Hash = [16]byte{} // protobuf writes the fields in another order
				}
				return c, err
			},
		},
		recordCodec(RecordSession, "SessionRecord"), recordCodec(RecordStarted, "StartedRecord"), recordCodec(RecordIntent, "IntentRecord"),
		recordCodec(RecordForget, "ForgetRecord"), recordCodec(RecordAction, "ActionRecord"),
		recordCodec(RecordProxyResult, "ProxyResultRecord"), recordCodec(RecordServerResult, "ServerResultRecord"),
		recordCodec(RecordVerdict, "VerdictRecord"), recordCodec(RecordSamples, "SamplesRecord"), recordCodec(RecordDiscovery, "DiscoveryRecord"), recordCodec(RecordResume, "ResumeRecord"),
	}
}

// randomText returns a random short text for a property test.
func randomText(t *rapid.T) string {
	return rapid.StringN(0, 20, 60).Draw(t, "text")
}

// randomUint32 returns a random 32-bit number for a property test.
func randomUint32(t *rapid.T) uint32 { return rapid.Uint32().Draw(t, "u32") }

// randomUint64 returns a random 64-bit number for a property test.
func randomUint64(t *rapid.T) uint64 { return rapid.Uint64().Draw(t, "u64") }

// randomBool returns a random boolean for a property test.
func randomBool(t *rapid.T) bool { return rapid.Bool().Draw(t, "bool") }

// randomBytes returns at most `most` random bytes for a property test.
func randomBytes(t *rapid.T, most int) []byte {
	return rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, "bytes")
}

// compileDefinition compiles the .proto files of docs/protocol with a protobuf compiler, as authors of other agents
// do.
func compileDefinition(t testing.TB) func(name string) protoreflect.MessageDescriptor {
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{"../../docs/protocol"}})}
	files, err := c.Compile(t.Context(), "muster.proto", "records.proto")
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) protoreflect.MessageDescriptor {
		d, err := files.AsResolver().FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatalf("%s is not in the definition: %v", name, err)
		}
		return d.(protoreflect.MessageDescriptor)
	}
}

// The codec and the protobuf library encode and decode random messages alike, by the .proto definition. What a
// protobuf library writes, in the order it likes, we decode; what we encode, it reads as the same message, without
// unknown fields, in as many bytes as it needs; and we decode it to the same value.
func TestCodecFollowsDefinition(t *testing.T) {
	find := compileDefinition(t)
	for _, c := range codecs() {
		t.Run(c.name, func(t *testing.T) {
			desc := find(c.name)
			rapid.Check(t, func(t *rapid.T) {
				want := randomMessage(t, desc)
				canonical := strings.HasSuffix(c.name, "Definition")
				theirs := marshal(t, want, canonical)
				v, err := c.decode(theirs)
				if err != nil {
					t.Fatalf("%v\n%v", err, want)
				}
				ours := c.encode(v)
				if again, err := c.decode(ours); err != nil || !reflect.DeepEqual(again, v) {
					t.Fatalf("own bytes: %v\ngot  %+v\nwant %+v", err, again, v)
				}
				got := dynamicpb.NewMessage(desc)
				if err := proto.Unmarshal(ours, got); err != nil {
					t.Fatalf("protobuf reads it not: %v", err)
				}
				rejectUnknownFields(t, got)
				switch {
				case !proto.Equal(got, want):
					t.Fatalf("got  %v\nwant %v", got, want)
				case proto.Size(got) != len(ours):
					t.Fatalf("%d bytes where protobuf needs %d", len(ours), proto.Size(got))
				case canonical && !bytes.Equal(theirs, ours):
					t.Fatalf("a definition's hash would differ:\ngot  %x\nwant %x", ours, theirs)
				}
			})
		})
	}
}

// marshal encodes a message by the protobuf library.
func marshal(t *rapid.T, m proto.Message, deterministic bool) []byte {
	body, err := proto.MarshalOptions{Deterministic: deterministic}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// requiredFields has the fields that tests always set. Without such a field a message is refused or encoded otherwise.
var requiredFields = map[protoreflect.FullName]bool{
	"muster.v1.Batch.first": true, "muster.v1.Batch.gap": true, "muster.v1.Batch.signals": true, "muster.v1.Gap.last": true, "muster.v1.Definition.kind": true, "muster.v1.Definition.body": true,
	"muster.v1.ValueBlock.rows": true, "muster.v1.ValueBlock.columns": true, "muster.v1.CheckDefinition.severities": true,
}

// randomMessage returns a message with random values in all fields or in a random selection of fields.
func randomMessage(t *rapid.T, desc protoreflect.MessageDescriptor) *dynamicpb.Message {
	m := dynamicpb.NewMessage(desc)
	oneof := map[string]bool{}
	all, gap := randomBool(t), desc.FullName() == "muster.v1.Batch" && randomBool(t)
	for i := range desc.Fields().Len() {
		f := desc.Fields().Get(i)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			last := o.Fields().Get(o.Fields().Len()-1) == f
			if oneof[string(o.Name())] || !last && randomBool(t) {
				continue
			}
			oneof[string(o.Name())] = true
		} else if !all && !requiredFields[f.FullName()] && randomBool(t) {
			continue
		}
		if desc.FullName() == "muster.v1.Batch" && (f.Name() == "gap" && !gap || f.Name() == "signals" && gap) {
			continue
		}
		switch {
		case f.IsMap():
			for k, v := range rapid.MapOfN(rapid.StringN(0, 8, 20), rapid.StringN(0, 8, 20), 1, 4).Draw(t, "pairs") {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(k).MapKey(), protoreflect.ValueOfString(v))
			}
		case f.IsList():
			for range rapid.IntRange(1, 3).Draw(t, "len") {
				m.Mutable(f).List().Append(randomField(t, f))
			}
		default:
			if v := randomField(t, f); f.HasPresence() || !isZero(v) {
				m.Set(f, v)
			}
		}
	}
	if f := desc.Fields(); desc.FullName() == "muster.v1.Definition" && randomBool(t) { // of a known kind
		check := desc.ParentFile().Messages().ByName("CheckDefinition")
		m.Set(f.ByName("kind"), protoreflect.ValueOfUint32(uint32(model.DefinitionCheck)))
		m.Set(f.ByName("body"), protoreflect.ValueOfBytes(marshal(t, randomMessage(t, check), true)))
	}
	return m
}

// isZero reports whether a protobuf value is the default value of its type.
func isZero(v protoreflect.Value) bool {
	b, isBytes := v.Interface().([]byte)
	return isBytes && len(b) == 0 || !isBytes && reflect.ValueOf(v.Interface()).IsZero()
}

// randomField returns a random value for a field of the .proto definition.
func randomField(t *rapid.T, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		if f.Message().FullName() == "muster.v1.Generation" { // absent and empty are one to us
			g := dynamicpb.NewMessage(f.Message())
			g.Set(f.Message().Fields().ByName("epoch"), protoreflect.ValueOfUint64(randomUint64(t)|1))
			return protoreflect.ValueOfMessage(g)
		}
		return protoreflect.ValueOfMessage(randomMessage(t, f.Message()))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(0, f.Enum().Values().Len()-1).Draw(t, "enum")))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(randomBool(t))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(randomText(t))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "double"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(randomUint64(t) >> 1))
	case protoreflect.Uint32Kind:
		v := randomUint32(t)
		switch f.FullName() {
		case "muster.journal.v1.ServerResultRecord.status":
			v %= 4
		case "muster.v1.DefinitionTrigger.severity", "muster.v1.DirectiveDefinition.severity", "muster.v1.Block.reporting", "muster.journal.v1.VerdictRecord.severity":
			v %= 6
		case "muster.v1.Report.components", "muster.v1.ReportException.position", "muster.v1.Block.first", "muster.v1.Block.count", "muster.v1.Block.focus_first", "muster.v1.Block.focus_count":
			v %= 10000
		case "muster.journal.v1.ProxyResultRecord.lane":
			v %= 2
		case "muster.v1.CheckDefinition.max_output":
			v >>= 1
		case "muster.v1.InventoryEntry.section":
			v %= 256
		case "muster.v1.GapCount.kind":
			v %= 32
		case "muster.v1.ValueBlock.rows":
			v = 1
		case "muster.v1.Definition.kind":
			v |= 1 << 8 // one that is not known: its body stays as it is
		}
		return protoreflect.ValueOfUint32(v)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		switch f.FullName() {
		case "muster.v1.Value.at_unix_ms":
			return protoreflect.ValueOfUint64(rapid.Uint64Range(0, 1<<48).Draw(t, "at"))
		case "muster.v1.Batch.first":
			return protoreflect.ValueOfUint64(rapid.Uint64Range(1, 1<<40).Draw(t, "first"))
		case "muster.v1.Gap.last":
			return protoreflect.ValueOfUint64(rapid.Uint64Range(1<<40, maxNumber).Draw(t, "last"))
		case "muster.v1.StreamRange.first", "muster.v1.StreamRange.last", "muster.v1.StreamLast.last", "muster.v1.RefusedSignal.number",
			"muster.journal.v1.ProxyResultRecord.number":
			return protoreflect.ValueOfUint64(rapid.Uint64Range(0, maxNumber).Draw(t, "number"))
		}
		return protoreflect.ValueOfUint64(randomUint64(t))
	case protoreflect.BytesKind:
		switch f.FullName() {
		case "muster.v1.Hello.node":
			return protoreflect.ValueOfBytes(append(rapid.SliceOfN(rapid.Byte(), 15, 15).Draw(t, "node"), 1)) // absent and zero are one to us
		case "muster.v1.Hello.assignment", "muster.v1.Assignment.hash", "muster.v1.Assignment.base", "muster.v1.AssignmentStatus.hash",
			"muster.v1.SignedRun.previous", "muster.v1.SignedRun.assignment":
			b := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash")
			b[0] |= 1 // absent and zero are one to us
			return protoreflect.ValueOfBytes(b)
		case "muster.v1.AssetBuild.sha512":
			return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 64, 64).Draw(t, "sha512"))
		case "muster.v1.SignedRun.signature":
			return protoreflect.ValueOfBytes(append(rapid.SliceOfN(rapid.Byte(), 63, 63).Draw(t, "signature"), 1))
		case "muster.v1.Assignment.packed": // has a test of its own
			return protoreflect.ValueOfBytes(nil)
		case "muster.v1.ValueBlock.columns", "muster.v1.Definition.body": // not empty
			return protoreflect.ValueOfBytes(append(randomBytes(t, 40), 1))
		case "muster.v1.CheckDefinition.severities":
			return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.ByteRange(0, byte(model.Disaster)), 4, 4).Draw(t, "severities"))
		}
		return protoreflect.ValueOfBytes(randomBytes(t, 40))
	}
	panic(fmt.Sprintf("BUG: no way to draw %s", f.FullName()))
}

// rejectUnknownFields fails the test if a message has fields that the .proto file does not define.
func rejectUnknownFields(t *rapid.T, m protoreflect.Message) {
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s: fields that the definition does not have: %x", m.Descriptor().FullName(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() != protoreflect.MessageKind || f.IsMap() {
			return true
		}
		if f.IsList() {
			for i := range v.List().Len() {
				rejectUnknownFields(t, v.List().Get(i).Message())
			}
		} else {
			rejectUnknownFields(t, v.Message())
		}
		return true
	})
}

// TestDecodedDefinitionOwnsItsMemory decodes a check, overwrites the input bytes, and expects the decoded check
// unchanged. The next frame of a connection overwrites the input like this.
func TestDecodedDefinitionOwnsItsMemory(t *testing.T) {
	for _, c := range golden() {
		if c.message != "Definition" {
			continue
		}
		data := bytes.Clone(c.bytes)
		definition, err := DecodeDefinition(1, data)
		if err != nil {
			t.Fatal(err)
		}
		for i := range data {
			data[i] = 'r'
		}
		if again := AppendDefinition(nil, definition); !bytes.Equal(again, c.bytes) {
			t.Errorf("%s: %q, want %q", c.name, again, c.bytes)
		}
	}
}
