package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
)

// codec is one message of the definition as the tests see it: bodies without
// envelope, structs as pointers.
type codec struct {
	name   string // in the .proto file
	kind   Kind   // zero: not in a frame
	draw   func(t *rapid.T) any
	encode func(v any) []byte
	decode func(body []byte) (any, error)
}

func frameCodec[T any, P interface {
	*T
	Decode([]byte) error
}](kind Kind, name string, app func([]byte, P) []byte, draw func(t *rapid.T) P) codec {
	return codec{
		name: name, kind: kind,
		draw: func(t *rapid.T) any { return draw(t) },
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

// batchCodec also decodes the bodies of signals, which decoding a batch does not.
func batchCodec() codec {
	c := frameCodec(KindBatch, "muster.v1.Batch", AppendBatch, drawBatch)
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
			}
		}
		return v, err
	}
	return c
}

func recordCodec(kind RecordKind, name string, draw func(t *rapid.T) *Record) codec {
	return codec{
		name:   name,
		draw:   func(t *rapid.T) any { r := draw(t); r.Kind = kind; return r },
		encode: func(v any) []byte { return AppendRecord(nil, v.(*Record))[1:] },
		decode: func(body []byte) (any, error) {
			r := &Record{}
			err := r.Decode(append([]byte{byte(kind)}, body...))
			return r, err
		},
	}
}

func codecs() []codec {
	return []codec{
		frameCodec(KindHello, "muster.v1.Hello", AppendHello, drawHello),
		frameCodec(KindWelcome, "muster.v1.Welcome", AppendWelcome, drawWelcome),
		frameCodec(KindRefuse, "muster.v1.Refuse", AppendRefuse, func(t *rapid.T) *Refuse {
			return &Refuse{Code: text(t), Message: text(t), RetryMs: u32(t), Hint: text(t)}
		}),
		frameCodec(KindAssignment, "muster.v1.Assignment", AppendAssignment, drawAssignment),
		frameCodec(KindAssignmentStatus, "muster.v1.AssignmentStatus", AppendAssignmentStatus, func(t *rapid.T) *AssignmentStatus {
			return &AssignmentStatus{Generation: generation(t), Hash: hash32(t), Refused: list(t, func(t *rapid.T) RefusedChunk {
				return RefusedChunk{Chunk: model.ChunkID(u32(t)), Reason: text(t)}
			})}
		}),
		batchCodec(),
		frameCodec(KindAck, "muster.v1.Ack", AppendAck, func(t *rapid.T) *Ack {
			return &Ack{Last: lasts(t), Refused: list(t, func(t *rapid.T) RefusedSignal {
				return RefusedSignal{StreamKey: key(t), Number: number(t), Code: text(t), Reason: text(t)}
			})}
		}),
		frameCodec(KindRun, "muster.v1.Run", AppendRun, func(t *rapid.T) *Run {
			r := &Run{Chunk: model.ChunkID(u32(t)), ID: u64(t), TimeoutMs: u32(t), MaxOutput: u32(t), Cancel: yes(t)}
			if yes(t) {
				r.Command = &model.Command{Shell: text(t), Argv: list(t, text)}
			}
			return r
		}),
		frameCodec(KindFacts, "muster.v1.Facts", AppendFacts, func(t *rapid.T) *Facts {
			return &Facts{Labels: pairs(t), Facts: pairs(t), Groups: list(t, text)}
		}),
		frameCodec(KindStats, "muster.v1.Stats", AppendStats, func(t *rapid.T) *Stats {
			s := &Stats{}
			for _, number := range reflect.ValueOf(s).Elem().Fields() {
				number.SetUint(u64(t))
			}
			return s
		}),
		frameCodec(KindRunOutput, "muster.v1.RunOutput", AppendRunOutput, func(t *rapid.T) *RunOutput {
			return &RunOutput{ID: u64(t), Output: raw(t, 40), Done: yes(t), Status: status(t), DurationMs: u32(t), Cut: u64(t), Refused: text(t)}
		}),
		frameCodec(KindTurn, "muster.v1.Turn", AppendTurn, func(t *rapid.T) *Turn {
			return &Turn{Runs: list(t, func(t *rapid.T) TurnRun { return TurnRun{Chunk: model.ChunkID(u32(t)), Node: model.NodeID(u32(t))} })}
		}),
		frameCodec(KindExchange, "muster.v1.Exchange", AppendExchange, func(t *rapid.T) *Exchange {
			x := &Exchange{ID: u64(t)}
			switch rapid.IntRange(0, 2).Draw(t, "of") {
			case 1:
				x.SecretsRequest = &SecretsRequest{Names: list(t, text)}
			case 2:
				x.SecretsReply = &SecretsReply{Values: list(t, func(t *rapid.T) SecretValue {
					return SecretValue{Name: text(t), Value: raw(t, 40), LeaseMs: u32(t), Error: text(t)}
				})}
			}
			return x
		}),
		frameCodec(KindBackPressure, "muster.v1.BackPressure", AppendBackPressure, func(t *rapid.T) *BackPressure {
			return &BackPressure{LingerMs: u32(t), Reason: text(t), LastsMs: u32(t)}
		}),
		frameCodec(KindBye, "muster.v1.Bye", AppendBye, func(t *rapid.T) *Bye {
			return &Bye{Reason: text(t), RetryMs: u32(t)}
		}),
		{
			name: "muster.v1.CheckChunk",
			draw: func(t *rapid.T) any {
				c := *drawChunk(t).AsCheck()
				c.Chunk = model.Chunk{} // the header is not in the body
				return &c
			},
			encode: func(v any) []byte { return appendCheckChunk(nil, v.(*model.CheckChunk)) },
			decode: func(body []byte) (any, error) {
				c := new(model.CheckChunk)
				f := fields{message: "CheckChunk", rest: body}
				readCheckChunk(&f, c)
				return c, f.err
			},
		},
		{
			name:   "muster.v1.Chunk",
			draw:   func(t *rapid.T) any { return drawChunk(t) },
			encode: func(v any) []byte { return AppendChunk(nil, v.(*model.Chunk)) },
			decode: func(body []byte) (any, error) {
				c, err := DecodeChunk(0, body)
				if err == nil {
					c.Hash = [16]byte{} // drawn chunks have none
				}
				return c, err
			},
		},
		recordCodec(RecordSession, "muster.journal.v1.SessionRecord", func(t *rapid.T) *Record {
			return &Record{Node: model.NodeID(u32(t)), Session: &SessionMark{Session: u64(t), Begun: yes(t), Clean: yes(t),
				Namespace: model.NamespaceID(u32(t)), KeepaliveMs: u32(t), TimeoutMs: u32(t), Backlog: u64(t), WarningMs: u32(t), NoKeepalive: yes(t)}}
		}),
		recordCodec(RecordStarted, "muster.journal.v1.StartedRecord", func(t *rapid.T) *Record { return &Record{} }),
		recordCodec(RecordIntent, "muster.journal.v1.IntentRecord", func(t *rapid.T) *Record {
			return &Record{Intent: int64(u64(t) >> 1)}
		}),
		recordCodec(RecordForget, "muster.journal.v1.ForgetRecord", func(t *rapid.T) *Record {
			return &Record{Node: model.NodeID(u32(t)), Forget: &ForgetMark{Check: model.CheckID(u32(t)), Deleted: yes(t), Deregistered: text(t), Handlers: text(t), Reason: text(t)}}
		}),
		recordCodec(RecordAction, "muster.journal.v1.ActionRecord", func(t *rapid.T) *Record {
			return &Record{Node: model.NodeID(u32(t)), Action: &Action{Verb: text(t), Check: model.CheckID(u32(t)), By: text(t), Note: text(t), Until: u64(t), Problem: text(t)}}
		}),
		recordCodec(RecordProxyResult, "muster.journal.v1.ProxyResultRecord", func(t *rapid.T) *Record {
			return &Record{Node: model.NodeID(u32(t)), ProxyResult: &ProxyResult{StreamKey: key(t), Number: number(t), By: model.NodeID(u32(t)),
				Namespace: model.NamespaceID(u32(t)), NowMs: u64(t), Signal: raw(t, 300)}}
		}),
		recordCodec(RecordServerResult, "muster.journal.v1.ServerResultRecord", func(t *rapid.T) *Record {
			return &Record{Node: model.NodeID(u32(t)), ServerResult: &ServerResult{Chunk: model.ChunkID(u32(t)), Status: status(t), Output: raw(t, 40)}}
		}),
	}
}

// Drawing. Lists and maps are nil or have elements, as the decoders leave them.

func text(t *rapid.T) string {
	return rapid.StringN(0, 20, 60).Draw(t, "text")
}
func u32(t *rapid.T) uint32 { return rapid.Uint32().Draw(t, "u32") }
func u64(t *rapid.T) uint64 { return rapid.Uint64().Draw(t, "u64") }
func yes(t *rapid.T) bool   { return rapid.Bool().Draw(t, "bool") }
func number(t *rapid.T) uint64 {
	return rapid.Uint64Range(0, maxNumber).Draw(t, "number")
}
func status(t *rapid.T) model.Status { return model.Status(rapid.IntRange(0, 3).Draw(t, "status")) }
func raw(t *rapid.T, most int) []byte {
	if b := rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, "bytes"); len(b) > 0 {
		return b
	}
	return nil
}
func hash32(t *rapid.T) (h [32]byte) {
	if yes(t) {
		copy(h[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
	}
	return h
}
func list[T any](t *rapid.T, draw func(*rapid.T) T) []T {
	var l []T
	for range rapid.IntRange(0, 4).Draw(t, "len") {
		l = append(l, draw(t))
	}
	return l
}
func pairs(t *rapid.T) map[string]string {
	if m := rapid.MapOfN(rapid.StringN(0, 8, 20), rapid.StringN(0, 8, 20), 0, 4).Draw(t, "pairs"); len(m) > 0 {
		return m
	}
	return nil
}
func key(t *rapid.T) StreamKey {
	return StreamKey{Stream: StreamID(u64(t)), Lane: Lane(rapid.IntRange(0, 1).Draw(t, "lane"))}
}
func lasts(t *rapid.T) []StreamLast {
	return list(t, func(t *rapid.T) StreamLast { return StreamLast{StreamKey: key(t), Last: number(t)} })
}
func duration(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "duration"))
}
func generation(t *rapid.T) Generation { return Generation{Epoch: u64(t), Revision: u64(t)} }

func drawHello(t *rapid.T) *Hello {
	h := &Hello{Protocol: u32(t), Name: text(t), MachineID: text(t), BootID: text(t), Session: u64(t), Version: text(t),
		OS: text(t), Arch: text(t), Generation: generation(t), Assignment: hash32(t), Incarnation: u64(t),
		Labels: pairs(t), Facts: pairs(t), Groups: list(t, text), Restrictions: list(t, text), ClockUnixMs: rapid.Int64().Draw(t, "clock"), Backlog: u64(t)}
	copy(h.Node[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "node"))
	h.Streams = list(t, func(t *rapid.T) StreamRange {
		return StreamRange{StreamKey: key(t), First: number(t), Last: number(t), OldestAgeMs: u64(t)}
	})
	return h
}

func drawWelcome(t *rapid.T) *Welcome {
	return &Welcome{Protocol: u32(t), Name: text(t), Node: model.NodeID(u32(t)), ServerUnixMs: rapid.Int64().Draw(t, "clock"),
		Incarnation: u64(t), Last: lasts(t), KeepaliveMs: u32(t), MaxFrame: u32(t), MaxUnacked: u32(t), MaxOutput: u32(t),
		ResultsPerSec: u32(t), Servers: list(t, text), VersionWanted: text(t), Features: u32(t)}
}

func drawProxied(t *rapid.T) ProxyChecks {
	node := func(t *rapid.T) model.NodeID { return model.NodeID(u32(t)) }
	return ProxyChecks{
		Nodes: list(t, func(t *rapid.T) ProxyNode {
			return ProxyNode{Node: node(t), Name: text(t), Properties: list(t, func(t *rapid.T) Property {
				return Property{Name: text(t), Value: raw(t, 20), Error: text(t)}
			})}
		}),
		Sets: list(t, func(t *rapid.T) ProxySet {
			return ProxySet{Chunks: list(t, func(t *rapid.T) model.ChunkID { return model.ChunkID(u32(t)) }), Nodes: list(t, node)}
		}),
	}
}

func drawAssignment(t *rapid.T) *Assignment {
	return &Assignment{Generation: generation(t), Hash: hash32(t), Base: hash32(t),
		Add: list(t, func(t *rapid.T) AssignedChunk {
			return AssignedChunk{ID: model.ChunkID(u32(t)), Body: AppendChunk(nil, drawChunk(t))}
		}),
		Remove:      list(t, func(t *rapid.T) model.ChunkID { return model.ChunkID(u32(t)) }),
		ProxyChecks: drawProxied(t), HasProxyChecks: yes(t),
		Properties: list(t, func(t *rapid.T) Property {
			return Property{Name: text(t), Value: raw(t, 20), Error: text(t)}
		}),
		HasProperties: yes(t), Signature: raw(t, 64), More: yes(t)}
}

func drawBatch(t *rapid.T) *Batch {
	b := &Batch{StreamKey: key(t), First: rapid.Uint64Range(1, maxNumber).Draw(t, "first"), NowMs: u64(t)}
	if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
		b.Gap = &Gap{Last: rapid.Uint64Range(b.First, maxNumber).Draw(t, "last"), Reason: text(t),
			Counts: list(t, func(t *rapid.T) GapCount {
				return GapCount{Kind: SignalKind(rapid.IntRange(0, 31).Draw(t, "kind")), Chunk: model.ChunkID(u32(t)), Count: u64(t)}
			})}
		return b
	}
	for range rapid.IntRange(1, 6).Draw(t, "signals") {
		s := Signal{Kind: SignalKeepalive, AtMs: u64(t)}
		if columns := raw(t, 40); len(columns) > 0 && yes(t) {
			s = Signal{Kind: SignalValueBlock, AtMs: u64(t), Chunk: model.ChunkID(u32(t)),
				Body: AppendValueBlock(nil, &ValueBlock{Rows: uint32(len(columns)), Columns: columns})}
		} else if rapid.IntRange(0, 4).Draw(t, "kind") > 0 {
			s = ResultSignal(Signal{AtMs: u64(t), Chunk: model.ChunkID(u32(t)), Node: model.NodeID(u32(t))}, Result{Status: status(t), DurationMs: u32(t), Output: raw(t, 300), Cut: u64(t), Extra: AppendExtra(nil, drawExtra(t))})
		}
		b.Signals = append(b.Signals, s)
	}
	return b
}

func drawExtra(t *rapid.T) *Extra {
	return &Extra{
		Hooks: list(t, func(t *rapid.T) model.HookResult {
			return model.HookResult{Name: text(t), Status: status(t), Output: text(t), Cut: u64(t), Duration: model.Duration(u32(t)) * model.Duration(time.Millisecond)}
		}),
		Values: list(t, func(t *rapid.T) model.Value {
			v := model.Value{Name: text(t), Tags: pairs(t), Value: rapid.Float64().Draw(t, "value")}
			if yes(t) {
				v.At = time.UnixMilli(rapid.Int64Range(1, 1<<48).Draw(t, "at")).UTC()
			}
			return v
		}),
		Pipelines: list(t, text),
	}
}

func drawChunk(t *rapid.T) *model.Chunk {
	c := &model.CheckChunk{Chunk: model.Chunk{Unit: model.CheckID(u32(t)), Namespace: model.NamespaceID(u32(t)), Name: text(t)}, Cron: text(t),
		TimeZone: text(t), Env: pairs(t), RunAs: text(t), MaxOutput: rapid.IntRange(0, math.MaxInt32).Draw(t, "max"),
		FailAfter: u32(t), RecoverAfter: u32(t), Handlers: list(t, text), Stdin: text(t), Proxy: yes(t), RoundRobin: yes(t), DiscardOutput: yes(t)}
	c.Hooks = list(t, func(t *rapid.T) model.Hook {
		return model.Hook{Name: text(t), When: list(t, text), Command: &model.Command{Shell: text(t)}, Timeout: model.Duration(duration(t))}
	})
	if yes(t) {
		c.Metrics = &model.Metrics{Format: text(t), Tags: pairs(t)}
	}
	c.Thresholds = list(t, func(t *rapid.T) model.Threshold {
		x := model.Threshold{Metric: text(t), Tags: pairs(t), Missing: rapid.SampledFrom([]string{"", "warning", "critical", "unknown"}).Draw(t, "missing")}
		for _, b := range []**model.Bounds{&x.Warning, &x.Critical, &x.Unknown} {
			if yes(t) {
				*b = &model.Bounds{}
				for _, v := range []**float64{&(*b).Min, &(*b).Max} {
					if yes(t) {
						n := rapid.SampledFrom([]float64{0, -1.5, 90}).Draw(t, "bound")
						*v = &n
					}
				}
			}
		}
		return x
	})
	c.Except = list(t, func(t *rapid.T) model.Span {
		return model.Span{Zone: text(t), Spans: list(t, func(t *rapid.T) model.WindowSpan {
			return model.WindowSpan{During: text(t), Cron: text(t), For: model.Duration(duration(t)), From: text(t), To: text(t)}
		})}
	})
	c.Secrets = list(t, func(t *rapid.T) model.ChunkSecret {
		return model.ChunkSecret{Env: text(t), Name: text(t), AgentEnv: text(t), AgentFile: text(t)}
	})
	c.Interval = duration(t)
	c.Timeout = duration(t)
	c.TTL = duration(t)
	for i := range c.Severities {
		c.Severities[i] = model.Severity(rapid.IntRange(0, int(model.Disaster)).Draw(t, "severity"))
	}
	switch {
	case yes(t):
		c.Probe = &model.Probe{Name: text(t), Args: pairs(t)}
	case yes(t):
		c.Command = &model.Command{Shell: text(t)}
	default:
		c.Command = &model.Command{Argv: list(t, text)}
	}
	return c.Seal()
}

// definition compiles the .proto files, as another agent's author would.
func definition(t testing.TB) func(name string) protoreflect.MessageDescriptor {
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

// What we encode, a protobuf library reads as the definition says, without unknown
// fields; what it writes again, in the order it likes, we decode to the same value.
func TestCodecFollowsDefinition(t *testing.T) {
	find := definition(t)
	for _, c := range codecs() {
		t.Run(c.name, func(t *testing.T) {
			desc := find(c.name)
			rapid.Check(t, func(t *rapid.T) {
				want := c.draw(t)
				body := c.encode(want)

				got, err := c.decode(body)
				if err != nil {
					t.Fatalf("own bytes: %v", err)
				}
				checkEqual(t, "own bytes", got, want)

				m := dynamicpb.NewMessage(desc)
				if err := proto.Unmarshal(body, m); err != nil {
					t.Fatalf("protobuf reads it not: %v", err)
				}
				noUnknown(t, m)
				if n := proto.Size(m); n != len(body) {
					t.Fatalf("%d bytes where protobuf needs %d", len(body), n)
				}
				canonical := c.name == "muster.v1.Chunk" || c.name == "muster.v1.CheckChunk"
				theirs, err := proto.MarshalOptions{Deterministic: canonical}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				if canonical && !bytes.Equal(theirs, body) {
					t.Fatalf("a chunk's hash would differ:\ngot  %x\nwant %x", body, theirs)
				}
				if got, err = c.decode(theirs); err != nil {
					t.Fatalf("protobuf's bytes: %v", err)
				}
				checkEqual(t, "protobuf's bytes", got, want)
			})
		})
	}
}

// Any message of the definition that keeps the limits decodes, and says the same
// after our encoder wrote it again.
func TestDefinitionIsCovered(t *testing.T) {
	find := definition(t)
	for _, c := range codecs() {
		t.Run(c.name, func(t *testing.T) {
			desc := find(c.name)
			rapid.Check(t, func(t *rapid.T) {
				want := drawMessage(t, desc)
				body, err := proto.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				v, err := c.decode(body)
				if err != nil {
					t.Fatalf("%v\n%v", err, want)
				}
				got := dynamicpb.NewMessage(desc)
				if err := proto.Unmarshal(c.encode(v), got); err != nil {
					t.Fatal(err)
				}
				if !proto.Equal(got, want) {
					t.Fatalf("got  %v\nwant %v", got, want)
				}
			})
		})
	}
}

// drawMessage sets every field of a message, with what the limits allow.
func drawMessage(t *rapid.T, desc protoreflect.MessageDescriptor) *dynamicpb.Message {
	m := dynamicpb.NewMessage(desc)
	oneof := map[string]bool{}
	gap := desc.FullName() == "muster.v1.Batch" && yes(t)
	for i := range desc.Fields().Len() {
		f := desc.Fields().Get(i)
		if o := f.ContainingOneof(); o != nil {
			last := o.Fields().Get(o.Fields().Len()-1) == f
			if oneof[string(o.Name())] || !last && yes(t) {
				continue
			}
			oneof[string(o.Name())] = true
		}
		if desc.FullName() == "muster.v1.Batch" && (f.Name() == "gap" && !gap || f.Name() == "signals" && gap) {
			continue
		}
		switch {
		case f.IsMap():
			for k, v := range pairs(t) {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(k).MapKey(), protoreflect.ValueOfString(v))
			}
		case f.IsList():
			for range rapid.IntRange(1, 3).Draw(t, "len") {
				m.Mutable(f).List().Append(drawField(t, f))
			}
		default:
			if v := drawField(t, f); f.Kind() == protoreflect.MessageKind || !isZero(v) {
				m.Set(f, v)
			}
		}
	}
	return m
}

func isZero(v protoreflect.Value) bool {
	b, isBytes := v.Interface().([]byte)
	return isBytes && len(b) == 0 || !isBytes && reflect.ValueOf(v.Interface()).IsZero()
}

func drawField(t *rapid.T, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		if f.Message().FullName() == "muster.v1.Generation" { // absent and empty are one to us
			g := dynamicpb.NewMessage(f.Message())
			g.Set(f.Message().Fields().ByName("epoch"), protoreflect.ValueOfUint64(u64(t)|1))
			return protoreflect.ValueOfMessage(g)
		}
		return protoreflect.ValueOfMessage(drawMessage(t, f.Message()))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(0, f.Enum().Values().Len()-1).Draw(t, "enum")))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(yes(t))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text(t))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "double"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(u64(t) >> 1))
	case protoreflect.Uint32Kind:
		v := u32(t)
		switch f.FullName() {
		case "muster.journal.v1.ServerResultRecord.status":
			v %= 4
		case "muster.journal.v1.ProxyResultRecord.lane":
			v %= 2
		case "muster.v1.CheckChunk.max_output":
			v >>= 1
		case "muster.v1.GapCount.kind":
			v %= 32
		case "muster.v1.ValueBlock.rows":
			v = 1
		case "muster.v1.Chunk.kind":
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
			return protoreflect.ValueOfUint64(number(t))
		}
		return protoreflect.ValueOfUint64(u64(t))
	case protoreflect.BytesKind:
		switch f.FullName() {
		case "muster.v1.Hello.node":
			return protoreflect.ValueOfBytes(append(rapid.SliceOfN(rapid.Byte(), 15, 15).Draw(t, "node"), 1)) // absent and zero are one to us
		case "muster.v1.Hello.assignment", "muster.v1.Assignment.hash", "muster.v1.Assignment.base", "muster.v1.AssignmentStatus.hash":
			b := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash")
			b[0] |= 1 // absent and zero are one to us
			return protoreflect.ValueOfBytes(b)
		case "muster.v1.AssetBuild.sha512":
			return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 64, 64).Draw(t, "sha512"))
		case "muster.v1.Assignment.packed": // has a test of its own
			return protoreflect.ValueOfBytes(nil)
		case "muster.v1.CheckChunk.severities":
			return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.ByteRange(0, byte(model.Disaster)), 4, 4).Draw(t, "severities"))
		}
		if f.FullName() == "muster.v1.ValueBlock.columns" {
			return protoreflect.ValueOfBytes(append(raw(t, 40), 1))
		}
		return protoreflect.ValueOfBytes(raw(t, 40))
	}
	panic(fmt.Sprintf("BUG: no way to draw %s", f.FullName()))
}

func noUnknown(t *rapid.T, m protoreflect.Message) {
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s: fields that the definition does not have: %x", m.Descriptor().FullName(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() != protoreflect.MessageKind || f.IsMap() {
			return true
		}
		if f.IsList() {
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		} else {
			noUnknown(t, v.Message())
		}
		return true
	})
}

func checkEqual(t interface{ Fatalf(string, ...any) }, what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\ngot  %+v\nwant %+v", what, got, want)
	}
}
