package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// newLargeAssignment returns a test assignment for a node with 40 checks.
func newLargeAssignment() *Assignment {
	a := &Assignment{Generation: Generation{Epoch: 1764000000, Revision: 42}, Hash: [32]byte{1}, HasProperties: true,
		Properties: []Property{{Name: "disk_warn", Value: []byte(`"15%"`)}}, Signature: bytes.Repeat([]byte{0x5c}, 64)}
	for i := range 40 {
		c := goldenDefinition()
		c.Name = fmt.Sprintf("check-%02d", i)
		a.Add = append(a.Add, AssignedDefinition{ID: model.DefinitionID(100 + i), Body: AppendDefinition(nil, c)})
	}
	return a
}

// frameBody returns the body of an encoded Assignment frame.
func frameBody(t testing.TB, frame []byte) []byte {
	t.Helper()
	kind, body, err := FrameKind(frame)
	if err != nil || kind != KindAssignment {
		t.Fatalf("kind %d, %v", kind, err)
	}
	return body
}

// TestPackedAssignmentDecodesEqual compresses and decodes random assignments, and expects no change.
func TestPackedAssignmentDecodesEqual(t *testing.T) {
	assignment := compileDefinition(t)("muster.v1.Assignment")
	rapid.Check(t, func(t *rapid.T) {
		want := new(Assignment)
		if err := want.Decode(marshal(t, randomMessage(t, assignment), false)); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 30).Draw(t, "more") {
			want.Add = append(want.Add, AssignedDefinition{ID: 7, Body: AppendDefinition(nil, goldenDefinition())})
		}
		_, packed, err := FrameKind(AppendPackedAssignment(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		var got Assignment
		if err := got.Decode(packed); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&got, want) {
			t.Fatalf("got  %+v\nwant %+v", &got, want)
		}
	})
	plain, packed := AppendAssignment(nil, newLargeAssignment()), AppendPackedAssignment(nil, newLargeAssignment())
	if len(packed) > len(plain)/4 {
		t.Errorf("40 checks: %d bytes of %d", len(packed), len(plain))
	}
}

// TestGoldenPackedAssignment decodes a compressed assignment that an earlier version encoded, and expects the
// original content. It compares no encoded bytes, because compressors may differ.
func TestGoldenPackedAssignment(t *testing.T) {
	path := filepath.Join("testdata", "golden", "14-assignment-packed.txt")
	if testenv.Updating() {
		frame := AppendPackedAssignment(nil, newLargeAssignment())
		m := dynamicpb.NewMessage(compileDefinition(t)("muster.v1.Frame"))
		if err := proto.Unmarshal(frame, m); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(prototext.MarshalOptions{Multiline: true}.Format(m), ":  ", ": ") + "\n"
		for line := range slices.Chunk(frame, 32) {
			text += hex.EncodeToString(line) + "\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, digits, _ := strings.Cut(string(text), "\n\n")
	frame, err := hex.DecodeString(strings.ReplaceAll(digits, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	var got Assignment
	if err := got.Decode(frameBody(t, frame)); err != nil {
		t.Fatal(err)
	}
	if want := newLargeAssignment(); !reflect.DeepEqual(&got, want) {
		t.Errorf("got  %+v\nwant %+v", &got, want)
	}
}

// Compressed content with a claimed length above the frame limit is refused before decompression.
func TestOversizedPackedContentIsRefused(t *testing.T) {
	definition := encodeMessage(nil, &Assignment{Add: []AssignedDefinition{{ID: 1, Body: make([]byte, maxBody)}}}, codeAssignmentContent)
	pack := func(plain []byte) []byte { return appendBytes(nil, 9, s2.Encode(nil, plain)) }
	huge := appendBytes(nil, 9, append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, make([]byte, 20)...)) // says 4 GiB
	for _, c := range []struct {
		name string
		body []byte
		says string
	}{
		{"more than a frame", pack(make([]byte, MaxFrame+1)), "at most 1048576"},
		{"says four gigabytes", huge, "at most 1048576"},
		{"many, each of which is small", bytes.Repeat(pack(definition), 3), "more than one"},
		{"within itself", pack(pack(definition)), "within packed"},
		{"no Snappy", appendBytes(nil, 9, []byte{200, 1, 2, 3}), "Snappy"},
		{"cut short", pack(definition)[:len(pack(definition))-1], "field 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a Assignment
			err := a.Decode(c.body)
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
	fits := pack(definition)
	if len(fits) > 100 {
		t.Fatalf("the bomb has %d bytes", len(fits))
	}
	if err := new(Assignment).Decode(fits); err != nil {
		t.Errorf("what fits is refused: %v", err)
	}
}

// TestAssignmentPartsFitFrame splits an assignment of maximum size, and expects parts that fit in frames. The content
// cannot be compressed.
func TestAssignmentPartsFitFrame(t *testing.T) {
	a := &Assignment{Generation: Generation{Epoch: 1 << 63, Revision: 1 << 63}, Hash: [32]byte{1}, Base: [32]byte{2}, HasProperties: true, Signature: make([]byte, 64)}
	for i := range 3000 {
		a.ProxyChecks.Nodes = append(a.ProxyChecks.Nodes, ProxyNode{Node: model.NodeID(i + 1), Name: strings.Repeat("n", 250), Properties: []Property{{Name: "p", Value: make([]byte, 500)}}})
	}
	a.ProxyChecks.Sets = []ProxySet{{Definitions: make([]model.DefinitionID, 9000), Nodes: make([]model.NodeID, 9000)}}
	size := a.ProxyChecks.Size()
	for i := 0; size+DefinitionSize(40) <= MaxAssignment && i < MaxDefinitions; i++ {
		a.Add = append(a.Add, AssignedDefinition{ID: 1<<32 - 1, Body: make([]byte, 40)})
		size += DefinitionSize(40)
	}
	for i := 0; size+2000 <= MaxAssignment; i++ {
		p := Property{Name: strings.Repeat("n", 250), Value: make([]byte, 700)}
		a.Properties = append(a.Properties, p)
		size += PropertySize(&p)
	}
	var joined PartialAssignment
	added, properties := 0, 0
	for _, part := range a.Parts() {
		if frame := AppendAssignment(nil, part); len(frame) > MaxFrame {
			t.Errorf("%d bytes of frame", len(frame))
		}
		added, properties = added+len(part.Add), properties+len(part.Properties)
		if whole := joined.Join(part); part.More != (whole == nil) {
			t.Fatalf("part with more %v is the last: %v", part.More, whole != nil)
		} else if whole != nil && !whole.ProxyChecks.Equal(&a.ProxyChecks) {
			t.Errorf("joined %d proxy nodes of %d", len(whole.ProxyChecks.Nodes), len(a.ProxyChecks.Nodes))
		}
	}
	if size < MaxAssignment*9/10 || added != len(a.Add) || properties != len(a.Properties) {
		t.Errorf("%d of %d definitions, %d of %d properties, %d bytes in all", added, len(a.Add), properties, len(a.Properties), size)
	}
}

// TestProtocolPageNamesTheLimits expects docs/protocol/README.md to name the limits of the decoders.
func TestProtocolPageNamesTheLimits(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| a frame | %s", formatSize(MaxFrame)),
		fmt.Sprintf("| signals in a batch | %d |", MaxSignals),
		fmt.Sprintf("| streams in a session | %d,", maxStreams),
		fmt.Sprintf("| names, codes, keys | %d bytes", maxName),
		fmt.Sprintf("| values of labels and facts | %s, %d of them |", formatSize(maxValue), maxPairs),
		fmt.Sprintf("| one definition, command, property value | %s |", formatSize(maxBody)),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/protocol/README.md does not say %q", row)
		}
	}
}

// formatSize formats a size as the protocol page does, such as 32 KiB.
func formatSize(n int) string {
	text := model.Size(n).String()
	return text[:len(text)-3] + " " + text[len(text)-3:]
}

// TestCodeLimitsEqualProtoLimits compares the size limits in the Go code with the .proto files, and expects
// equality.
func TestCodeLimitsEqualProtoLimits(t *testing.T) {
	find := compileDefinition(t)
	limit := func(message, field, option string) (value uint64) {
		f := find("muster.v1." + message).Fields().ByName(protoreflect.Name(field))
		f.Options().ProtoReflect().Range(func(x protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if string(x.Name()) == option {
				value = v.Uint()
			}
			return true
		})
		return value
	}
	for _, l := range []struct {
		message, field, option string
		want                   uint64
	}{
		{"Welcome", "servers", "max_items", MaxServers},
		{"AssignedDefinition", "body", "max", MaxFrame},
		{"Property", "value", "max", MaxBody},
		{"Property", "error", "max", maxText},
		{"ProxyNode", "properties", "max_items", maxProps},
		{"ProxySet", "definitions", "max_items", maxDefinitions},
		{"ProxySet", "nodes", "max_items", MaxProxies},
		{"CheckDefinition", "hooks", "max_items", model.MaxHooks},
		{"CheckDefinition", "assets", "max_items", model.MaxAssets},
		{"CheckDefinition", "secrets", "max_items", model.MaxCheckSecrets},
		{"CheckDefinition", "stdin", "max", MaxBody},
		{"DefinitionAsset", "builds", "max_items", model.MaxBuilds},
		{"HookResult", "output", "max", model.MaxHookOutput},
		{"Value", "tags", "max_items", model.MaxValueTags},
		{"GapCount", "kind", "max", uint64(lastSignalKind)},
		{"Gap", "last", "max", maxNumber},
		{"Ack", "refused", "max_items", MaxSignals},
		{"RunOutput", "output", "max", MaxFrame},
		{"RoundRobinRuns", "runs", "max_items", MaxRoundRobinRuns},
		{"SecretsRequest", "names", "max_items", MaxSecretNames},
		{"SecretsReply", "values", "max_items", MaxSecretNames},
		{"SecretValue", "value", "max", model.MaxSecret},
	} {
		if got := limit(l.message, l.field, l.option); got != l.want {
			t.Errorf("%s.%s: %s is %d in the definition and %d in the code", l.message, l.field, l.option, got, l.want)
		}
	}
}
