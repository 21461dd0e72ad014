package react

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

func TestNotificationGolden(t *testing.T) {
	for kind, transition := range map[string]event.Transition{"opened": opening("p1", 1), "closed": closing("p1", 61)} {
		p := history.Problem{Problem: *transition.Problem, Namespace: "default", Node: "web01", SourceName: "disk"}
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
		testenv.Golden(t, file, got.Bytes())
	}
}
