package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/cli"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

const disk = `apiVersion: muster/v1
kind: Check
metadata: {name: disk}
spec:
  targets: {groups: [all]}
  interval: 60s
  command: check_disk -w 20% -c 10% -p /
  alert: {failAfter: 1, handlers: [notebook]}
---
apiVersion: muster/v1
kind: Handler
metadata: {name: notebook}
spec: {command: 'cat >> /tmp/notebook'}
`

// testTerminal runs muster commands against a test server, and records commands and output as a transcript.
type testTerminal struct {
	t     *testing.T
	rig   *apitest.Server
	dir   string
	env   map[string]string
	text  bytes.Buffer
	edit  func(path string) error
	wide  int
	kinds *kind.Registry // nil: all of Muster's

	program string // the name of the program; empty: muster
}

// newTerminal returns a test terminal, which runs muster commands against a test server in an empty folder.
func newTerminal(t *testing.T, rig *apitest.Server) *testTerminal {
	return &testTerminal{t: t, rig: rig, dir: t.TempDir(), env: map[string]string{}, edit: func(string) error { return nil }}
}

// openLoggedInTerminal returns a test server, and a test terminal with the login of a user of the server.
func openLoggedInTerminal(t *testing.T) (*apitest.Server, *testTerminal) {
	rig := apitest.NewServer(t)
	x := newTerminal(t, rig)
	x.env["MUSTER_SERVER"], x.env["MUSTER_TOKEN"] = rig.URL, rig.Token
	return rig, x
}

// tokenID matches random parts of the output.
var tokenID = regexp.MustCompile(`token/[0-9a-f]{12}`)

// runCommandLine runs one command line and returns its exit code and output.
func (x *testTerminal) runCommandLine(stdin, line string) (stdout string, code int) {
	x.t.Helper()
	x.env["MUSTER_CONTEXT"] = filepath.Join(x.dir, "context.yaml")
	var out, errs bytes.Buffer
	env := &cli.Env{
		Program: x.program,
		Args:    strings.Fields(strings.NewReplacer("DIR", x.dir, "URL", x.rig.URL).Replace(line)), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
		Getenv: func(k string) string { return x.env[k] }, Kinds: x.kinds, Now: x.rig.Now, Zone: time.UTC, Width: x.wide, Edit: x.edit,
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	code = cli.Main(ctx, env)
	hide := strings.NewReplacer(x.rig.URL, "URL", x.dir, "DIR", strings.TrimPrefix(x.rig.URL, "http://"), "HOST")
	output := tokenID.ReplaceAllString(hide.Replace(out.String()+errs.String()), "token/ID")
	fmt.Fprintf(&x.text, "$ muster %s\n%s", line, output)
	if code != 0 {
		fmt.Fprintf(&x.text, "[exit code %d]\n", code)
	}
	x.text.WriteByte('\n')
	return out.String(), code
}

// runCommandLines runs several command lines in order, each without standard input.
func (x *testTerminal) runCommandLines(lines ...string) {
	x.t.Helper()
	for _, line := range lines {
		x.runCommandLine("", line)
	}
}

// expectOutput runs one command line, and compares the exit code and parts of the output.
func (x *testTerminal) expectOutput(stdin, line string, code int, want ...string) string {
	x.t.Helper()
	began := x.text.Len()
	out, got := x.runCommandLine(stdin, line)
	_, shown, _ := strings.Cut(x.text.String()[began:], "\n")
	if got != code {
		x.t.Fatalf("muster %s: code %d, want %d\n%s", line, got, code, shown)
	}
	for _, text := range want {
		if !strings.Contains(shown, text) {
			x.t.Fatalf("muster %s: %q is missing in\n%s", line, text, shown)
		}
	}
	return out
}

// assertTranscript compares the transcript with a golden file of testdata.
func (x *testTerminal) assertTranscript(name string) {
	x.t.Helper()
	testenv.Golden(x.t, filepath.Join("testdata", name), x.text.Bytes())
}

// commandOf matches a command of a transcript.
var commandOf = regexp.MustCompile(`(?m)^\$ muster (.*)$`)

// replayTranscript runs the commands in a golden file and compares all output with the file. To add a command, write
// the line "$ muster …" into the file and run go test -update. It returns the commands that ended with 0.
func (x *testTerminal) replayTranscript(name string) (succeeded []string) {
	x.t.Helper()
	kept, err := os.ReadFile(filepath.Join("testdata", name))
	testenv.NoError(x.t, err)
	done := len(commandOf.FindAll(x.text.Bytes(), -1))
	for _, command := range commandOf.FindAllStringSubmatch(string(kept), -1)[done:] {
		if _, code := x.runCommandLine("", command[1]); code == 0 {
			succeeded = append(succeeded, command[1])
		}
	}
	x.assertTranscript(name)
	return succeeded
}

// assertWidth fails the test if a line of the output is wider than the given number of columns. Lines that
// begin with the given prefix may be wider.
func (x *testTerminal) assertWidth(output string, columns int, except string) {
	x.t.Helper()
	for line := range strings.Lines(output) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > columns && (except == "" || !strings.HasPrefix(line, except)) {
			x.t.Errorf("%d columns, at most %d: %s", n, columns, line)
		}
	}
}

// writeFile writes a file into the folder in which the test's commands run.
func (x *testTerminal) writeFile(name, text string) {
	x.t.Helper()
	testenv.NoError(x.t, os.WriteFile(filepath.Join(x.dir, name), []byte(text), 0o600))
}

// TestTranscriptOfOrdinaryDay runs the commands of an operator's ordinary day, and compares their output with a golden file.
func TestTranscriptOfOrdinaryDay(t *testing.T) {
	rig := apitest.NewServer(t)
	x := newTerminal(t, rig)
	x.writeFile("disk.yaml", disk)
	x.runCommandLine("", "status")
	x.runCommandLine("wrong\n", "login URL --password-file -")
	x.runCommandLine(apitest.Password+"\n", "login URL --password-file -")
	x.runCommandLines("auth whoami", "status")
	rig.DeclareNodes("default", map[string]string{"env": "prod"}, "web01", "web02")
	rig.DeclareNodes("default", map[string]string{"env": "test"}, "db01")

	x.runCommandLines("plan -f DIR/disk.yaml", "apply -f DIR/disk.yaml -m first", "apply -f DIR/disk.yaml")
	x.runCommandLine(disk, "apply -f - -o json")
	x.runCommandLines("get checks", "get nodes -l env=prod -o wide", "get groups -A", "get handlers", "get ch/disk -o yaml",
		"get events")

	rig.RecordResult("default", "web01", "disk", model.OK, "DISK OK - 40% free | '/'=60%;80;90")
	rig.RecordResult("default", "db01", "disk", model.Warning, "DISK WARNING - 15% free")
	rig.Advance(3 * time.Minute)
	rig.RecordResult("default", "web02", "disk", model.Critical, "DISK CRITICAL - \x1b]0;owned\x07\x1b[2J3% free\nsecond line")
	rig.Advance(10 * time.Second)
	x.runCommandLines("get events", "get events --status critical,unknown -o wide", "get events --where event.severity>=4",
		"get events --limit 1", "get event web02/disk -o yaml", "describe event web02/disk", "get nodes",
		"get nodes --group all -A --limit 1", "get checks", "describe node web01", "describe check disk",
		"describe group all", "describe handler notebook", "status", "status --exit-code -o json",
		"event ack web02/disk --for 2h -m on-it", "event ack web01/disk", "get problems --open",
		"describe event web02/disk", "event unack web02/disk", "event unack web02/disk",
		"event resolve web02/disk -m cleaned", "event delete db01/disk", "status")

	x.writeFile("disk.yaml", strings.Replace(disk, "60s", "30s", 1))
	x.replayTranscript("session.golden")
}

// TestTranscriptOfErrors runs wrong commands and compares their errors and hints with a golden file
func TestTranscriptOfErrors(t *testing.T) {
	rig := apitest.NewServer(t)
	x := newTerminal(t, rig)
	testenv.NoError(t, client.SaveContext(filepath.Join(x.dir, "context.yaml"), client.Context{Server: rig.URL, Token: rig.Token}))
	rig.DeclareNodes("default", nil, "web01", "web02")
	rig.Apply("kind: Namespace\nmetadata: {name: other}\nspec: {}\n---\nkind: Check\nmetadata: {name: other, namespace: other}\nspec: {interval: 60s, command: x}\n---\n" +
		"kind: Check\nmetadata: {name: load}\nspec: {interval: 60s, command: x}\n---\nkind: Group\nmetadata: {name: web}\nspec: {nodes: [web01]}\n---\n" + disk)
	x.writeFile("wrong.yaml", "apiVersion: muster/v1\nkind: Check\nmetadata: {name: disk}\nspec:\n  intervall: 60\n  command: x\n")
	x.writeFile("twice.yaml", disk+"---\n"+disk)
	x.writeFile("cel.yaml", "kind: Group\nmetadata: {name: a}\nspec: {where: 'node.labels.env = \"prod\"'}\n---\nkind: Group\nmetadata: {name: b}\nspec: {where: '1 + 1'}\n---\nkind: Check\nmetadata: {name: c}\nspec:\n  command: \"echo \"hi\"\"\n")
	if succeeded := x.replayTranscript("errors.golden"); !slices.Equal(succeeded, []string{"audit node nope", "help exit-codes"}) {
		t.Errorf("commands that end with 0: %q", succeeded)
	}
}

// TestGetRoundTrip applies the output of get -o yaml and -o json, and expects no change on the server
func TestGetRoundTrip(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", map[string]string{"on": "yes", "n": "1"}, "web01")
	rig.Apply(disk)
	rig.Apply(`
{kind: Property, metadata: {name: limits, annotations: {note: "two\nlines: and \"quotes\"\t#"}}, spec: {value: {a: [1, 2.5, "007", null, true, "true", "~"], b: ""}}}
---
{kind: Check, metadata: {name: script}, spec: {targets: {nodes: [web01]}, cron: "*/5 * * * *", timeout: 10s, command: "echo one\necho two\n"}}
`)
	for _, kind := range []string{"checks", "handlers", "properties", "groups", "nodes", "namespaces"} {
		for _, format := range []string{"yaml", "json"} {
			text := x.expectOutput("", "get "+kind+" -o "+format, 0)
			out := x.expectOutput(text, "apply -f -", 0, "unchanged")
			if strings.Contains(out, "updated") || strings.Contains(out, "created") {
				t.Errorf("%s as %s cannot be applied again:\n%s", kind, format, out)
			}
		}
	}
}

// TestEditRefusesConcurrentChange edits a resource and expects an error if the resource changed in the meantime.
func TestEditRefusesConcurrentChange(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // holds the refused text
	rig, x := openLoggedInTerminal(t)
	rig.Apply(disk)
	replace := func(old, new string) func(string) error {
		return func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(new), 1), 0o600)
		}
	}
	x.expectOutput("", "edit check disk", 0, "no change\n")
	x.edit = replace("1m", "2m")
	x.expectOutput("", "edit check disk -m slower", 0, "updated")
	x.edit = func(path string) error {
		rig.Apply(strings.Replace(disk, "60s", "90s", 1)) // a concurrent change
		return replace("2m", "3m")(path)
	}
	x.expectOutput("", "edit check disk", model.Stale.Exit(), "your text is saved in")
}

// TestOutputIsCutAndCleanedForTheTerminal expects check outputs cut to the width of the terminal, without escape
// sequences.
func TestOutputIsCutAndCleanedForTheTerminal(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	rig.Apply(disk)
	rig.RecordResult("default", "web01", "disk", model.Critical, "\x1b[31mred\x1b[0m "+strings.Repeat("long ", 50))
	for _, line := range []string{"get events", "get events -o wide", "get events -o yaml", "describe event web01/disk", "status"} {
		if out, _ := x.runCommandLine("", line); strings.ContainsRune(out, 0x1b) {
			t.Errorf("%s prints an escape sequence: %q", line, out)
		}
	}
	x.wide = 60
	out, _ := x.runCommandLine("", "get events")
	x.assertWidth(out, 60, "")
	if !strings.Contains(out, "…") {
		t.Errorf("nothing was cut: %s", out)
	}
}

// TestCompletion expects shell completion of kinds, names, events and flag values.
func TestCompletion(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01", "web02", "db01")
	rig.Apply(disk)
	rig.Apply("kind: Namespace\nmetadata: {name: team-a}\nspec: {}\n---\nkind: Group\nmetadata: {name: web}\nspec: {nodes: [web01]}\n")
	rig.RecordResult("default", "web01", "disk", model.Critical, "full")
	lists := "events problems history queues agents items compliance texts rules inventory"
	kinds := "namespaces properties nodes groups handlers secrets windows routes silences assets checks templates techniques directives policies waivers rulegroups"
	for _, c := range []struct{ line, want string }{
		{"get no", lists + " " + kinds},
		{"get nodes w", "web01 web02"}, {"get nodes d", "db01"}, {"edit check d", "disk"}, {"delete handler n", "notebook"},
		{"get event we", "web01/ web02/"}, {"get event web01/", "web01/disk"}, {"event resolve web01/d", "web01/disk"}, {"describe event db01/", ""},
		{"get events --node we", "web01 web02"}, {"get events --check d", "disk"}, {"get nodes --group w", "web"}, {"get events -n t", "team-a"},
		{"explain n", kinds}, {"get check/d", lists + " " + kinds},
		{"get events --status c", "ok warning critical unknown"}, {"get events -o w", "table wide json yaml jsonpath=TEMPLATE name"},
		{"run disk --on w", "web01 web02 where:"}, {"run disk --on db01,w", "db01,web01 db01,web02 db01,where:"}, {"run disk --on group:w", "group:web"},
		{"explain check.al", "check.alert"}, {"explain check.alert.fail", "check.alert.failAfter"}, {"apply -f D", "yaml yml json"}, {"lint D", "yaml yml json"},
	} {
		out, code := x.runCommandLine("", "__complete "+c.line)
		var words []string
		for line := range strings.Lines(out) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); word != "" && !strings.HasPrefix(word, ":") {
				words = append(words, word)
			}
		}
		if got := strings.Join(words, " "); code != 0 || got != c.want {
			t.Errorf("%q: code %d, %q, want %q", c.line, code, got, c.want)
		}
	}
	x.env["MUSTER_SERVER"] = "https://127.0.0.1:1"
	if out, code := x.runCommandLine("", "__complete get nodes w"); code != 0 || strings.TrimSpace(out) != ":4" {
		t.Errorf("without a server: code %d, %q", code, out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, code := x.runCommandLine("", "completion "+shell); code != 0 || !strings.Contains(out, "__complete") {
			t.Errorf("%s: code %d, %d bytes", shell, code, len(out))
		}
	}
}

// TestApplyCheck applies a check for all web servers and expects the number of affected nodes in the output.
func TestApplyCheck(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", map[string]string{"role": "web"}, numberedNames("web%03d", 214)...)
	rig.DeclareNodes("default", nil, numberedNames("other%03d", 900)...)
	rig.Apply("kind: Group\nmetadata: {name: web}\nspec: {where: 'node.labels.role == \"web\"'}\n")
	x.writeFile("disk.yaml", `apiVersion: muster/v1
kind: Check
metadata: {name: disk}
spec:
  targets: {groups: [web]}
  interval: 60s
  command: check_disk -w {{ .props.disk_warn | default "20%" }} -c 10% -p /
  alert: {failAfter: 3}
`)
	x.expectOutput("", "apply -f DIR/disk.yaml", 0, "check/disk created   runs on 214 nodes; first results within 60 s; timeout 60 s by default\n")
	awaitPlanner(t, rig)
	x.expectOutput("", "get checks", 0, "disk  214 ")
	x.expectOutput("", "get nodes --group web", 0, "164 more;")
}

// TestTablesFitTheTerminalWidth prints every table at 80, 120 and 200 columns, and expects no line beyond the width.
// No name may be truncated.
func TestTablesFitTheTerminalWidth(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", map[string]string{"env": "prod"}, "web01.fra.example.org", "db01")
	rig.Apply(disk)
	rig.Apply("kind: Check\nmetadata: {name: a-check-with-a-name}\nspec: {targets: {where: 'node.labels.env == \"prod\" && node.name.startsWith(\"web\")'}, interval: 60s, command: \"" + strings.Repeat("long ", 40) + "\"}\n")
	rig.RecordResult("default", "web01.fra.example.org", "disk", model.Critical, strings.Repeat("wörter ", 40)+"| '/'=60%;80;90")
	for _, columns := range []int{80, 120, 200} {
		x.wide = columns
		for line, want := range map[string]string{
			"get events -A": "web01.fra.example.org", "get nodes": "web01.fra.example.org", "get checks": "a-check-with-a-name",
			"get groups -A": "every node", "get queues": "rederive", "status": "CRITICAL", "describe node web01.fra.example.org": "CRITICAL",
		} {
			out, code := x.runCommandLine("", line)
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%s at %d columns: %q is not in\n%s", line, columns, want, out)
			}
			x.assertWidth(out, columns, "changed")
		}
	}
	x.expectOutput("", "get events -o wide", 0, "'/'=60%;80;90")
}
