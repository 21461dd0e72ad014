package report

import (
	"testing"
	"testing/fstest"
)

// FuzzRead reads random files, and expects an error or a report that can be shown.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":"muster.load/1","balance":{"sent":6,"acknowledged":5,"missing":1},"phases":[{"name":"step","kind":"step","missed":["p99"]}],"verdict":["lost"]}`))
	f.Add([]byte(`{"schema":"muster.load/1","balance":{},"scenario":{"agents":[{"count":3,"tls":true}]},"targeted":{"name":"sensu"},"pages":[{"name":"all","failed":"no answer"}]}`))
	f.Add([]byte(`{"schema":"muster.load/2"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rep, err := ReadFS(fstest.MapFS{"run.json": {Data: data}}, "run.json")
		if err != nil {
			return
		}
		if rep.Figures(); rep.Text() == "" || rep.Lost() != (len(rep.Wrong().Sentences()) > 0) {
			t.Errorf("%+v", rep)
		}
	})
}
