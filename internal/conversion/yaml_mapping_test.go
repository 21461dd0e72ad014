package conversion

import (
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReadMappings reads a JSON file, and expects a list of the fields that the importer ignored. The file has more
// values than the API takes.
func TestReadMappings(t *testing.T) {
	list, err := ReadMappings(File{Name: "x", Data: []byte(`{"name": "\ud83d\ude00", "parts": [{"id": 1}, 2], "empty": [], "none": null, "flag": false, "many": [0` + strings.Repeat(",0", 150_000) + "]}")})
	testenv.NoError(t, err)
	m := list[0]
	if name, parts := m.TextOf("name"), m.List("parts"); name != "😀" || len(parts) != 1 || parts[0].TextOf("id") != "1" || m.HasField("none") || m.Place() != "x:1" {
		t.Errorf("%q %+v %s", name, parts, m.Place())
	}
	if got := m.UnreadFields(); !slices.Equal(got, []string{"flag", "many"}) {
		t.Errorf("unread: %q", got)
	}
}
