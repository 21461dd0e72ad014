package loadcmd

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestRefused expects an error about each impossible command line, and that nothing is played.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tiny.yaml": "scenario: muster.load/v1\nagents: [{name: web, count: 1, checks: [{name: app, interval: 1s}]}]\nphases: [{steady: 1m}]\n",
		"flaw.yaml": "scenario: muster.load/v1\nagents: [{name: a, cuont: 5}]\n", "other.json": `{"schema": "other/1"}`, "empty/none": "",
	} {
		testenv.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		testenv.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	testenv.NoError(t, l.Close())
	words := strings.NewReplacer("DIR", dir, "TINY", filepath.Join(dir, "tiny.yaml"), "BACKEND", "ws://127.0.0.1:1", "NOBODY", l.Addr().String(),
		"RATE", filepath.Join(results, "rate-16k.json"), "RUN", "run --out "+filepath.Join(dir, "out"), "NONE", "--server-binary "+filepath.Join(dir, "none"),
		"CHECK", "check --out "+filepath.Join(dir, "out")+" --baseline "+dir)
	const ofMuster = "is for runs with --server of Muster, and this is another"
	for _, c := range []struct {
		line  string
		class model.Class
		says  string
	}{
		{"run", model.Invalid, "a scenario is missing"},
		{"run --agents 5", model.Internal, "unknown flag: --agents"},
		{"RUN TINY --data DIR NONE", model.Invalid, ofMuster},
		{"RUN TINY --server-plain 127.0.0.1:1 NONE", model.Invalid, ofMuster},
		{"RUN TINY --identities DIR NONE", model.Invalid, ofMuster},
		{"RUN TINY --target sensu --server BACKEND --data DIR", model.Invalid, ofMuster},
		{"RUN TINY --server-pid 1 NONE", model.Invalid, "is for runs with --server, and this is another"},
		{"RUN TINY --admin http://127.0.0.1:1 NONE", model.Invalid, "is for runs with --server of Muster or --sensu-bridge, and this"},
		{"RUN TINY --target sensu --admin x", model.Invalid, "is for runs with --server of Muster or --sensu-bridge, and this"},
		{"RUN TINY --target sensu --server BACKEND --admin x", model.Invalid, "is for runs with --server of Muster or --sensu-bridge, and"},
		{"RUN TINY --target sensu --server BACKEND --sources 7", model.Invalid, "is for runs against Muster, and this is another"},
		{"RUN TINY --server 127.0.0.1:1 --server-flag=-x", model.Invalid, "is for runs without --server, and this is another"},
		{"RUN TINY --server 127.0.0.1:1 --server-binary x", model.Invalid, "is for runs without --server, and this is another"},
		{"RUN TINY --target sensu --server-flag x", model.Invalid, "is for runs without --server, and this is another"},
		{"RUN TINY --listen-join 127.0.0.1:0 NONE", model.Invalid, "is for runs with --loaders, and this is another"},
		{"RUN TINY --sensu-api http://127.0.0.1:1 NONE", model.Invalid, "is for runs with --target sensu, and this is another"},
		{"RUN TINY --server 127.0.0.1:1 --data DIR", model.Invalid, "--admin is missing: without it the ledger is not compared"},
		{"RUN sensu-4000x8x5s --target nagios", model.Invalid, "want one of muster, sensu"},
		{"RUN sensu-36000x38x10s-fleet", model.Unsupported, "fleet-of-servers"},
		{"RUN sensu-36000x38x10s-fleet --target sensu", model.Invalid, "a backend that runs"},
		{"RUN sensu-36000x38x10s-fleet --target sensu --sensu-bridge", model.Unsupported, "fleet-of-servers"},
		{"RUN sensu-4000x8x5s --target sensu", model.Invalid, "a backend that runs"},
		{"RUN sensu-4000x8x5s --target sensu --server 127.0.0.1:8443", model.Invalid, "a backend that runs"},
		{"RUN muster-bad-day --target sensu --server BACKEND", model.Unsupported, "target sensu has no"},
		{"RUN sensu-4000x8x5s --target sensu --server wss://NOBODY --sensu-ca none.pem", model.Invalid, "--sensu-ca"},
		{"RUN sensu-4000x8x5s --target sensu --server wss://NOBODY --sensu-ca TINY", model.Invalid, "holds no certificate"},
		{"RUN sensu-4000x8x5s --target sensu --server wss://NOBODY,ws://NOBODY", model.Invalid, "in one run"},
		{"RUN sensu-4000x8x5s --scale 0.01 --target sensu --server ws://NOBODY --sensu-api http://NOBODY", model.Unavailable, "/auth"},
		{"run --goal p99=60kB", model.Invalid, "60kB is no limit in ms: write 60ms"},
		{"run --goal p98=60ms", model.Invalid, "there is no figure \"p98\"\n  did you mean p99? want NAME=LIMIT, such as --goal p99=800ms"},
		{"run --goal p99", model.Invalid, "the limit is missing\n  p99 is in ms: such as --goal p99=60ms"},
		{"run --goal rate=-1", model.Invalid, "above 0\n  rate is in results/s: such as --goal rate=60"},
		{"run --goal allocs=x", model.Invalid, "--goal allocs=60"},
		{"run --goal server-cpu=x", model.Invalid, "--goal server-cpu=60us"},
		{"run --goal nonsense=1", model.Invalid, "\n  want NAME=LIMIT"},
		{"CHECK muster-churn", model.NotFound, "there is no baseline of muster-churn-quick in"},
		{"CHECK muster-chrun", model.NotFound, "is no scenario of the release check"},
		{"CHECK --runs 0", model.Invalid, "--runs 0"},
		{"CHECK muster-churn muster-churn", model.Invalid, "muster-churn-quick is there twice"},
		{"CHECK muster-churn --server x:1", model.Invalid, "has a server of its own: leave --server out\n  muster load run muster-churn "},
		{"CHECK --server x:1", model.Invalid, "has a server of its own: leave --server out\n  muster load run "},
		{"compare --interleave muster-churn --server x:1", model.Invalid, "has a server of its own: leave --server out\n  muster load run "},
		{"size muster-sizing --server x:1", model.Invalid, "has a server of its own: leave --server out\n  muster load run "},
		{"compare RATE", model.Invalid, "needs two runs or more, the base first, and has 1"},
		{"compare RATE missing", model.NotFound, "there is no missing"},
		{"compare RATE DIR/empty", model.NotFound, "there is no run in " + dir},
		{"compare RATE DIR/other.json", model.Invalid, "is not a report of muster.load/1"},
		{"compare RATE RATE --gate counts", model.Invalid, `--gate "counts": want count, relative, absolute`},
		{"report DIR/empty", model.NotFound, "there is no " + filepath.Join(dir, "empty", "run.json")},
		{"report DIR/nothing.json", model.NotFound, "there is no"},
		{"report DIR/other.json", model.Invalid, "not a report"},
		{"lint missing.yaml", model.NotFound, "missing.yaml"},
		{"lint DIR/flaw.yaml", model.Invalid, ":2:20: agents[0].cuont: unknown field; did you mean count?"},
		{"show DIR", model.Invalid, "is a folder, and a scenario is a file"},
		{"show missing.yaml", model.NotFound, "missing.yaml"},
		{"show glaber-400000-value", model.NotFound, "glaber-400000-values"},
		{"show muster-storm --scale 0", model.Invalid, "--scale 0"},
		{"list -o xml", model.Invalid, `--output: "xml" is none of table, json, yaml`},
		{"new --checks 2000", model.Invalid, "want 1 to"},
		{"record --data DIR", model.Invalid, "there is no file to write"},
		{"record --data DIR --out TINY", model.Guarded, "exists already"},
		{"record --data DIR --out DIR/no/folder", model.Invalid, "write the stream"},
	} {
		_, err := loadCommand(t, "", strings.Fields(words.Replace(c.line))...)
		if err == nil || model.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.says) {
			t.Errorf("muster load %s: %v\nwant %q", c.line, err, c.says)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
		t.Error("something was played")
	}
}
