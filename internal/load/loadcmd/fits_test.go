package loadcmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestRunNeedsAScenario expects an error for run without a scenario, and for flags in place of one.
func TestRunNeedsAScenario(t *testing.T) {
	for says, args := range map[string][]string{"a scenario is missing": {"run"}, "unknown flag: --agents": {"run", "--agents", "5"}} {
		if _, err := loadCommand(t, "", args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", args, err, says)
		}
	}
}

// TestNewWritesAScenario expects a valid scenario from muster load new, and errors for impossible values.
func TestNewWritesAScenario(t *testing.T) {
	text, err := loadCommand(t, "", "new", "--agents", "7", "--checks", "3", "--interval", "2s", "--tls", "--status-changes", "0")
	if err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Parse("mine.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if sc.Nodes("") != 7 || sc.States() != 21 || sc.Rate() != 10.5 || !sc.Agents[0].TLS || sc.Measured() != 65*time.Second {
		t.Errorf("%d nodes, %d states, %g results/s, %s:\n%s", sc.Nodes(""), sc.States(), sc.Rate(), sc.Measured(), text)
	}
	if _, err := loadCommand(t, "", "new", "--checks", "2000"); model.ClassOf(err) != model.Invalid {
		t.Errorf("2000 checks: %v", err)
	}
}

// TestFlagsThatAreForOtherRuns expects an error for a flag without effect, before the run makes anything.
func TestFlagsThatAreForOtherRuns(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "tiny.yaml"), filepath.Join(dir, "out")
	text := "scenario: muster.load/v1\nagents: [{name: web, count: 1, checks: [{name: app, interval: 1s}]}]\nphases: [{steady: 1m}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody := []string{"--server-binary", filepath.Join(dir, "no-such-program")}
	for says, cases := range map[string][][]string{
		"is for runs with --server of Muster, and this is another": {append([]string{file, "--data", dir}, nobody...), append([]string{file, "--server-plain", "127.0.0.1:1"}, nobody...), append([]string{file, "--identities", dir}, nobody...),
			{file, "--target", "sensu", "--server", "ws://127.0.0.1:1", "--data", dir}},
		"is for runs with --server, and this is another": {append([]string{file, "--server-pid", "1"}, nobody...)},
		"is for runs with --server of Muster or --sensu-bridge, and this is another": {append([]string{file, "--admin", "http://127.0.0.1:1"}, nobody...), {file, "--target", "sensu", "--admin", "x"},
			{file, "--target", "sensu", "--server", "ws://127.0.0.1:1", "--admin", "x"}},
		"is for runs against Muster, and this is another":           {{file, "--target", "sensu", "--server", "ws://127.0.0.1:1", "--sources", "7"}},
		"is for runs without --server, and this is another":         {{file, "--server", "127.0.0.1:1", "--server-flag=-x"}, {file, "--server", "127.0.0.1:1", "--server-binary", "x"}, {file, "--target", "sensu", "--server-flag", "x"}},
		"is for runs with --loaders, and this is another":           {append([]string{file, "--listen-join", "127.0.0.1:0"}, nobody...)},
		"is for runs with --target sensu, and this is another":      {append([]string{file, "--sensu-api", "http://127.0.0.1:1"}, nobody...)},
		"--admin is missing: without it the ledger is not compared": {{file, "--server", "127.0.0.1:1", "--data", dir}},
	} {
		for _, args := range cases {
			_, err := loadCommand(t, "", append([]string{"run", "--out", out}, args...)...)
			if model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: %v\nwant %q", args, err, says)
			}
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("something was played")
	}
}

// TestFlagsThatFit expects that needed flags are accepted.
func TestFlagsThatFit(t *testing.T) {
	for args, target := range map[string]string{
		"--quick --scale=2 --server-binary=x --server-flag=x --loaders=2 --listen-join=x --goal=rate=1 --out=x --title=x --seed=1 --max-lag=1s --sources=1": "",
		"--quick --server=x:1 --server-plain=x --identities=x --data=x --uncompared --admin=x --server-pid=1 --loaders=2":                                   "",
		"--server=ws://x --server-pid=1 --sensu-api=x --sensu-user=x --sensu-agent-user=x --sensu-json --sensu-ca=x --sensu-bridge --admin=x --max-lag=1s":  "sensu",
	} {
		o := &options{}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.flagsOf(f)
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := o.fits(f, &scenario.Scenario{Target: target}); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestServersOfTheirOwn expects an error for --server with commands that start servers of their own.
func TestServersOfTheirOwn(t *testing.T) {
	for _, args := range [][]string{{"check", "muster-churn"}, {"check"}, {"compare", "--interleave", "muster-churn"}, {"size", "muster-sizing"}} {
		root := &cobra.Command{Use: "muster"}
		root.PersistentFlags().String("server", "", "")
		root.AddCommand(NewCommand())
		root.SetArgs(append(append([]string{"load"}, args...), "--server", "127.0.0.1:8443"))
		err := root.ExecuteContext(t.Context())
		var said *model.Error
		if !errors.As(err, &said) || said.Class != model.Invalid || !strings.HasSuffix(said.Message, "has a server of its own: leave --server out") || !strings.HasPrefix(said.Hint, "muster load run ") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestServerThatNobodyIsLoggedInTo expects an error about the server of --server, without the hint of the API's client.
func TestServerThatNobodyIsLoggedInTo(t *testing.T) {
	inner := model.Errorf(model.Unavailable, "cannot reach it").WithHint("name another with --server")
	err := otherServer("10.0.0.7:8444", "the login is to https://a:8443", inner)
	if text := err.Error(); model.ClassOf(err) != model.Unavailable || !strings.HasPrefix(text, "--server 10.0.0.7:8444: the login is to https://a:8443: cannot reach it\n  muster login ") || strings.Contains(text, "another") {
		t.Errorf("%s", text)
	}
}
