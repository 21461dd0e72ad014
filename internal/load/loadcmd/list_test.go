package loadcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
)

// loadCommand runs muster load with arguments.
func loadCommand(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := &cobra.Command{Use: "muster"}
	root.PersistentFlags().String("server", "", "")
	root.AddCommand(NewCommand())
	root.SetArgs(append([]string{"load"}, args...))
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestList lists the shipped scenarios as JSON and as text.
func TestList(t *testing.T) {
	text, err := loadCommand(t, "", "list", "-o", "json")
	testenv.NoError(t, err)
	var list []listed
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != len(scenario.Names()) {
		t.Fatalf("%v, %d of %d scenarios", err, len(list), len(scenario.Names()))
	}
	runs := 0
	for _, l := range list {
		if l.Runs != (len(l.Waits) == 0) || l.Agents == 0 || l.Seconds == 0 || l.Results+l.Values+l.Components == 0 {
			t.Errorf("%+v", l)
		}
		if l.Runs {
			runs++
		}
		for _, form := range l.Forms {
			if s, err := scenario.Load(form); err != nil || s.Name != form {
				t.Errorf("%s: %v", form, err)
			}
		}
	}
	if runs < 10 || runs == len(list) {
		t.Errorf("%d of %d run", runs, len(list))
	}
	for columns, own := range map[int]bool{0: false, 80: true, 250: false} {
		var out bytes.Buffer
		if err := writeList(&out, columns, list); err != nil || strings.Contains(out.String(), "\n  "+list[0].Title+"\n") != own || !strings.Contains(out.String(), list[0].Title) {
			t.Errorf("%d columns: %v\n%s", columns, err, out.String())
		}
	}
	text, err = loadCommand(t, "", "list", "--quick")
	if err != nil || strings.Count(text, "-quick") != len(list) || !strings.Contains(text, "waits for fleet-of-servers") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestShowIsAFile expects that the output of show is a scenario file that shows as the same.
func TestShowIsAFile(t *testing.T) {
	text, err := loadCommand(t, "", "show", "muster-mixed", "--scale", "0.1", "--quick")
	if err != nil || !strings.HasPrefix(text, "# All pipelines that exist, together (10 % of the agents)\n") {
		t.Fatalf("%v\n%s", err, text)
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	testenv.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	again, err := loadCommand(t, "", "show", file)
	if err != nil || again != text {
		t.Errorf("%v\n%s\nagain:\n%s", err, text, again)
	}
	said, err := loadCommand(t, "", "lint", file)
	if err != nil || said != file+": 150 agents, 81 results/s, 2m24s at most\n" {
		t.Errorf("%v %q", err, said)
	}
}

// TestQuickByNameAndByFlag expects the same quick form by name and by flag.
func TestQuickByNameAndByFlag(t *testing.T) {
	for _, more := range [][]string{nil, {"--scale", "0.002"}, {"--scale", "20"}} {
		flag, err := loadCommand(t, "", append([]string{"show", "sensu-4000x8x5s", "--quick"}, more...)...)
		testenv.NoError(t, err)
		for _, args := range [][]string{{"show", "sensu-4000x8x5s-quick"}, {"show", "sensu-4000x8x5s-quick", "--quick"}} {
			if name, err := loadCommand(t, "", append(args, more...)...); err != nil || name != flag {
				t.Errorf("%q %q: %v\n%s\nand by the flag:\n%s", args, more, err, name, flag)
			}
		}
	}
}

// TestLint reads a scenario from the standard input, and expects the list of its missing capabilities.
func TestLint(t *testing.T) {
	said, err := loadCommand(t, "agents: [{name: a, count: 4, keepalive: {interval: 20s}}]\nneeds: [fleet-of-servers]\nphases: [{steady: 1m}]\nscenario: muster.load/v1\n", "lint", "-")
	if err != nil || !strings.Contains(said, "waits for fleet-of-servers") {
		t.Errorf("%v %q", err, said)
	}
}
