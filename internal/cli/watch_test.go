package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/cli"
	"github.com/muster-fleet/muster/internal/model"
)

// startWatch runs a watch command until the test ends, and returns a channel of its lines.
func (x *testTerminal) startWatch(line string) <-chan string {
	x.t.Helper()
	x.env["MUSTER_CONTEXT"] = filepath.Join(x.dir, "context.yaml")
	out, in := io.Pipe()
	env := &cli.Env{Args: strings.Fields(line), Stdin: strings.NewReader(""), Stdout: in, Stderr: io.Discard, Getenv: func(k string) string { return x.env[k] }, Now: x.rig.Now, Zone: time.UTC}
	ctx, cancel := context.WithCancel(context.Background())
	ended, lines := make(chan struct{}), make(chan string, 100)
	go func() {
		defer close(ended)
		cli.Main(ctx, env)
		_ = in.Close()
	}()
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	x.t.Cleanup(func() { cancel(); _ = out.Close(); <-ended })
	return lines
}

// awaitLine waits for an output line that contains a text and returns the line. Until then it calls act, which may
// change something, again and again.
func awaitLine(t *testing.T, lines <-chan string, text string, act func()) string {
	t.Helper()
	deadline, again := time.After(20*time.Second), time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatal("the watch ended")
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-again.C:
			act()
		case <-deadline:
			t.Fatalf("no line with %q", text)
		}
	}
}

// TestWatchesPrintChanges watches events, problems and nodes, and expects first the full list, then one line
// per change. Programs must get only the changes.
func TestWatchesPrintChanges(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01", "web02")
	rig.Apply(disk)
	rig.RecordResult("default", "web02", "disk", model.OK, "DISK OK")
	status := model.OK
	alternate := func() {
		rig.Advance(time.Second)
		if status++; status > model.Critical {
			status = model.OK
		}
		rig.RecordResult("default", "web01", "disk", status, "DISK "+status.String())
	}
	for kind, want := range map[string][3]string{
		"events":   {"CRITICAL  web01/disk", `"statusName":"CRITICAL"`, "event/web01/disk"},
		"problems": {"closed", `"closed":`, "problem/"},
		"nodes":    {"CRITICAL  web01", `"critical":1`, "node/web01"},
	} {
		lines := x.startWatch("get " + kind + " -w")
		awaitLine(t, lines, "Ctrl-C ends the watch", func() {})
		awaitLine(t, lines, want[0], alternate)
		changes := x.startWatch("get " + kind + " -w -o json")
		var object map[string]any
		line := awaitLine(t, changes, want[1], alternate)
		if err := json.Unmarshal([]byte(line), &object); err != nil || strings.Contains(line, "web02") {
			t.Errorf("%s: %v: %s", kind, err, line)
		}
		names := x.startWatch("get " + kind + " -w -o name")
		if line := awaitLine(t, names, "", alternate); !strings.HasPrefix(line, want[2]) || strings.Contains(line, "{") {
			t.Errorf("%s: with -o name the watch prints %q, want %s", kind, line, want[2])
		}
	}
	x.expectOutput("", "get checks -w", 2, "only events, problems and nodes can be watched")
	x.expectOutput("", "get node web01 -w", 2, "-w watches a list")
	x.expectOutput("", "get problems -w --where row.open", 2, "--where does not apply to a watch of problems")
}

// TestSilenceNamesAllMissingFlags runs muster silence without nodes, reason and end, and expects one error about all
// three. One missing part alone must also be an error.
func TestSilenceNamesAllMissingFlags(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	x.expectOutput("", "silence --status critical", 2, "the silence lacks the nodes or checks, the reason, the end", "--check", "-m TEXT", "--until 18:00")
	x.expectOutput("", "silence web01 --for 1h", 2, "the silence lacks the reason")
	x.expectOutput("", "silence web01 -m x", 2, "the silence lacks the end")
	x.expectOutput("", "silence --for 1h -m x", 2, "the silence lacks the nodes or checks")
	x.expectOutput("", "silence -l , --for 1h -m x", 2, "-l is empty")
}

// TestSilenceRefusesUnknownNames expects an error for a silence of unknown nodes or checks, unless --future is set.
func TestSilenceRefusesUnknownNames(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	rig.Apply(disk)
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"silence -m x --for 1h wbe01", "did you mean web01?", 3},
		{"silence -m x --for 1h web01/dsk", "did you mean disk?", 3},
		{"silence -m x --for 1h --check nope", "a check that does not exist yet: --future", 3},
		{"silence -m x --for 1h -A --check nope", "check/shared/nope does not exist", 3},
		{"silence -m x --for 1h web02/nope --future", "the silence matches no node", 0},
		{"silence -m x --for 1h web01/keepalive", "on 1 node", 0},
		{"silence -m x --for 1h -A --check disk", "on 1 node", 0},
		{"silence -m x --for 1h -l env=a=b", "expected LABEL=VALUE", 2},
		{"silence -m x --for 1h -l env==prod --dry-run", "on 0 nodes", 0},
		{"describe event web01/disk", "event web01/disk has no result yet: the check runs on this node, its first result is due within 1m", 3},
	} {
		x.expectOutput("", c.line, c.code, c.want)
	}
}

// TestTokensEndByDefault expects new API tokens to expire after a year, unless a reason for no expiry is given.
func TestTokensEndByDefault(t *testing.T) {
	_, x := openLoggedInTerminal(t)
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"auth token create -m dashboard -o yaml", `expires: "2027-11-20T12:00:00Z"`, 0},
		{"auth token create --expires 90d -o yaml", `expires: "2027-02-18T12:00:00Z"`, 0},
		{"auth token create --expires 0", "a token that never expires needs a reason", 2},
		{"report availability --node web01", "the node is an argument: muster report availability NODE", 2},
		{"auth token create --never-expires", "--never-expires needs a value: reason why the token has no end", 2},
		{"auth token create --never-expires=", "a token that never expires needs a reason", 2},
		{"auth token create --never-expires probe -m x -o yaml", `note: "never expires: probe; x"`, 0},
		{"auth token create --never-expires probe --expires 1d", "exclude each other", 2},
	} {
		out := x.expectOutput("", c.line, c.code, c.want)
		if strings.Contains(c.line, "-o yaml") && strings.Contains(c.line, "never") == strings.Contains(out, "expires: \"") {
			t.Errorf("%s:\n%s", c.line, out)
		}
	}
}
