package load

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms lists the packages of each room, and the rooms that it may import. The packages that are not listed join the rooms, and no
// room imports them.
var rooms = map[string]struct{ packages, imports []string }{
	"plan":     {[]string{"scenario", "outputs", "plan", "simulated", "stream", "number", "sensu/about"}, nil},
	"findings": {[]string{"report"}, []string{"plan"}},
	"log":      {[]string{"observe", "usage"}, []string{"plan", "findings"}},
	"play":     {[]string{"clock", "play", "people", "alerts", "streamed", "sensu", "subject", "record"}, []string{"plan", "findings", "log"}},
	"judge":    {[]string{"judge"}, []string{"plan", "findings", "log"}},
	"render":   {[]string{"page", "live", "folder", "compare", "gate"}, []string{"plan", "findings"}},
}

// TestRoomsImportOneWay draws the imports between the rooms, and expects no arrow beside those of rooms: play and judge do not import
// each other, and neither imports render.
func TestRoomsImportOneWay(t *testing.T) {
	const ours = "github.com/muster-fleet/muster/internal/load"
	of := map[string]string{}
	for room, x := range rooms {
		for _, name := range x.packages {
			of[name] = room
		}
	}
	drawn := 0
	for name, room := range of {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(name), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("package %s has no files: %v", name, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range file.Imports {
				other, load := strings.CutPrefix(strings.Trim(x.Path.Value, `"`), ours)
				if !load {
					continue
				}
				drawn++
				other = strings.TrimPrefix(other, "/")
				if to := of[other]; to != room && !slices.Contains(rooms[room].imports, to) {
					t.Errorf("%s (room %s) imports %s (room %q): the arrow points backward", path, room, other, to)
				}
			}
		}
	}
	if drawn < 50 {
		t.Errorf("only %d imports between packages of the load tester were found", drawn)
	}
}
