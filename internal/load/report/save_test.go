package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestSavedForPrograms expects the verdict, the objectives and the figures in run.json, as terminal and page show them.
func TestSavedForPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	rep := &Report{Schema: Schema, Valid: true, Balance: &Balance{Sent: 5, Compared: 1}, Traffic: Traffic{Rate: 4}, Goals: []Goal{{Name: "rate", Want: 3, Got: 4, Met: true}}}
	testenv.NoError(t, rep.Save(path))
	text, err := os.ReadFile(path)
	testenv.NoError(t, err)
	for _, want := range []string{`"passed":true`, `{"met":true,"what":"acknowledged","asked":"at least 3 results/s","got":"4.00 results/s","value":4,"limit":3}`, `"got":"all of 5"`, `"figures":{"rate":4}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// FuzzRead reads random files, and expects an error or a report that can be shown.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":"muster.load/1","balance":{"sent":6,"acknowledged":5,"missing":1},"phases":[{"name":"step","kind":"step","missed":["p99"]}],"verdict":["lost"]}`))
	f.Add([]byte(`{"schema":"muster.load/1","balance":{},"scenario":{"agents":[{"count":3,"tls":true}]},"targeted":{"name":"sensu"},"pages":[{"name":"all","failed":"no answer"}]}`))
	f.Add([]byte(`{"schema":"muster.load/2"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rep, err := decode("run.json", data)
		if err != nil {
			return
		}
		if rep.Figures(); rep.Text() == "" || rep.Lost() != (len(rep.Wrong().Sentences()) > 0) {
			t.Errorf("%+v", rep)
		}
	})
}
