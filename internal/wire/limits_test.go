package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"

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
