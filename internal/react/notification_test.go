package react

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestNotificationGolden(t *testing.T) {
	for kind, transition := range map[string]event.Transition{"opened": opening("p1", 1), "closed": closing("p1", 61)} {
		p := history.Problem{Problem: *transition.Problem, Namespace: "default", Node: "web01", Check: "disk"}
		note := closingNote(&transition, &p, map[string]string{"env": "prod"})
		note.Kind = kind
		data, err := note.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := json.Indent(&got, data, "", "  "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
		file := filepath.Join("testdata", "notification-"+kind+".json")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %v\ngot %s", file, err, got.Bytes())
		}
	}
}
