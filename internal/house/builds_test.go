package house

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSmallBuildsCarryNoServer expects no server package, database or metrics library in the agent. It expects no
// server in the command line of other platforms.
func TestSmallBuildsCarryNoServer(t *testing.T) {
	const (
		sql     = "modernc.org/sqlite github.com/jackc/pgx"
		metrics = "github.com/prometheus"
		server  = "internal/app internal/api internal/intent internal/plan internal/pipeline internal/dispatch internal/source internal/store"
	)
	for _, build := range []struct{ what, goos, tags, not string }{
		{"muster-agent", "linux", "", sql + " " + metrics + " " + server + " cel.dev google.golang.org/protobuf github.com/spf13/cobra github.com/RoaringBitmap github.com/dop251/goja"},
		{"muster-agent", "windows", "", sql + " " + metrics},
		{"muster", "darwin", "", sql + " " + metrics + " " + server + " github.com/RoaringBitmap github.com/danielgtaylor/huma"},
		{"muster", "linux", "noserver", sql + " " + metrics + " " + server},
	} {
		list := exec.Command("go", "list", "-deps", "-tags", build.tags, "./cmd/"+build.what)
		list.Dir = "../.."
		list.Env = append(os.Environ(), "GOOS="+build.goos, "CGO_ENABLED=0")
		out, err := list.CombinedOutput()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, out)
		}
		for dep := range strings.Lines(string(out)) {
			dep = strings.TrimPrefix(strings.TrimSpace(dep), module)
			for _, not := range strings.Fields(build.not) {
				if dep == not || strings.HasPrefix(dep, not+"/") && dep != "internal/api/v1" { // v1: the types of requests and answers
					t.Errorf("%s for %s (tags %q) carries %s", build.what, build.goos, build.tags, dep)
				}
			}
		}
	}
}
