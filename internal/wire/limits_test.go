package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/muster-fleet/muster/internal/model"
)

// docs/protocol names the limits that decoders hold a peer to.
func TestTheProtocolPageNamesTheLimits(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| a frame | %s", spaced(MaxFrame)),
		fmt.Sprintf("| signals in a batch | %d |", MaxSignals),
		fmt.Sprintf("| streams in a session | %d,", maxStreams),
		fmt.Sprintf("| names, codes, keys | %d bytes", maxName),
		fmt.Sprintf("| values of labels and facts | %s, %d of them |", spaced(maxValue), maxPairs),
		fmt.Sprintf("| one chunk, command, property value | %s |", spaced(maxBody)),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/protocol/README.md does not say %q", row)
		}
	}
}

// spaced is a size as the page writes it: 32 KiB.
func spaced(n int) string {
	text := model.Size(n).String()
	return text[:len(text)-3] + " " + text[len(text)-3:]
}

// The definition states limits as numbers; the code that keeps within them has names for the same numbers.
func TestLimitsOfDefinition(t *testing.T) {
	find := definition(t)
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
		{"AssignedChunk", "body", "max", MaxFrame},
		{"Property", "value", "max", MaxBody},
		{"Property", "error", "max", maxText},
		{"ProxyNode", "properties", "max_items", maxProps},
		{"ProxySet", "chunks", "max_items", maxChunks},
		{"ProxySet", "nodes", "max_items", MaxProxies},
		{"CheckChunk", "hooks", "max_items", model.MaxHooks},
		{"CheckChunk", "assets", "max_items", model.MaxAssets},
		{"CheckChunk", "secrets", "max_items", model.MaxCheckSecrets},
		{"CheckChunk", "stdin", "max", MaxBody},
		{"ChunkAsset", "builds", "max_items", model.MaxBuilds},
		{"HookResult", "output", "max", model.MaxHookOutput},
		{"Value", "tags", "max_items", model.MaxValueTags},
		{"GapCount", "kind", "max", uint64(lastSignalKind)},
		{"Gap", "last", "max", maxNumber},
		{"Ack", "refused", "max_items", MaxSignals},
		{"RunOutput", "output", "max", MaxFrame},
		{"Turn", "runs", "max_items", MaxTurnRuns},
		{"SecretsRequest", "names", "max_items", MaxSecretNames},
		{"SecretsReply", "values", "max_items", MaxSecretNames},
		{"SecretValue", "value", "max", model.MaxSecret},
	} {
		if got := limit(l.message, l.field, l.option); got != l.want {
			t.Errorf("%s.%s: %s is %d in the definition and %d in the code", l.message, l.field, l.option, got, l.want)
		}
	}
}
