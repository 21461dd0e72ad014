//go:build linux

package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/test/harness"
)

// streamOf reads a recorded stream: how many results each of its states has.
func streamOf(t *testing.T, path string) (h stream.Head, states map[[2]uint32]int) {
	t.Helper()
	r, file, err := stream.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	states = map[[2]uint32]int{}
	err = r.Each(func(list []stream.Signal) error {
		for i := range list {
			states[[2]uint32{list[i].Node, list[i].Check}]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Head, states
}

// A fleet is recorded while it runs and once its server has stopped, and played again, three
// times as large, against a server of the run's own: nothing is lost, and who reads the report
// is told what it was.
func TestLoadRecord(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.CLI("load", "prepare", "--data", s.Data, "--agents", "6", "--checks", "4", "--interval", "1s")
	s.Start()
	dir := t.TempDir()
	live, after, out, mine := filepath.Join(dir, "live.stream"), filepath.Join(dir, "after.stream"), filepath.Join(dir, "run.json"), filepath.Join(dir, "mine.yaml")
	listening := harness.Launch(t, s.Env(), "load", "record", "--data", s.Data, "--for", "1h", "-o", live)
	harness.Until(t, time.Minute, "it listens", func() (string, bool) { return listening.Log(), strings.Contains(listening.Log(), "listening until") })
	ran := harness.Run(t, s.Env(), "load", "run", "--server", s.Plain, "--admin", "http://"+s.Admin, "--agents", "6", "--checks", "4", "--interval", "1s",
		"--duration", "4s", "--warmup", "1s", "--max-lag", "1h", "--out", out)
	if ran.Code != 0 {
		t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	rep, err := load.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	listening.Signal(syscall.SIGINT)
	if code := listening.Wait(time.Minute); code != 0 {
		t.Fatalf("code %d\n%s", code, listening.Log())
	}
	said := harness.Run(t, nil, "load", "record", "--data", s.Data, "-o", after)
	if said.Code != 0 || !strings.Contains(said.Out, "6 nodes, 4 checks (at most 4 of a node)") || !strings.Contains(said.Out, "every 1s") {
		t.Fatalf("code %d\n%s%s", said.Code, said.Out, said.Errors)
	}
	h, states := streamOf(t, after)
	if h.Signals > rep.Balance.Sent || h.Signals < rep.Results || len(states) != 24 || h.States != 24 {
		t.Errorf("%d results recorded in %d states; %d sent, %d measured", h.Signals, len(states), rep.Balance.Sent, rep.Results)
	}
	if alive, _ := streamOf(t, live); alive.Signals != h.Signals || alive.States != h.States {
		t.Errorf("listened to %+v, read afterwards %+v", alive, h)
	}
	data, err := os.ReadFile(after)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"load", "result", "value"} {
		if bytes.Contains(data, []byte(name)) {
			t.Errorf("%q of the fleet stands in the file", name)
		}
	}

	text := fmt.Sprintf("scenario: muster.load/v1\ntitle: Again\nagents: [{name: told, recorded: {file: after.stream, times: 3}}]\nphases: [{ramp: 1s}, {steady: %s}, {drain: 30s}]\n", h.Length)
	if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if lint := harness.Run(t, nil, "load", "lint", mine); lint.Code != 0 || !strings.Contains(lint.Out, "18 agents") {
		t.Errorf("code %d\n%s%s", lint.Code, lint.Out, lint.Errors)
	}
	if show := harness.Run(t, nil, "load", "show", mine); show.Code != 0 || !strings.Contains(show.Out, "# - 18 told: recorded stream × 3: 6 nodes, 4 checks") || strings.Contains(show.Out, "checks:") {
		t.Errorf("code %d\n%s%s", show.Code, show.Out, show.Errors)
	}
	folder := filepath.Join(dir, "report")
	ran = harness.Run(t, []string{"TMPDIR=" + t.TempDir()}, "load", "run", mine, "--out", folder, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
	if ran.Code != 0 || !strings.HasPrefix(ran.Out, "Again (recorded stream × 3)\n") || !strings.Contains(ran.Out, "nothing lost, nothing twice") {
		t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	if rep, err = load.Read(filepath.Join(folder, "run.json")); err != nil {
		t.Fatal(err)
	}
	if b := rep.Balance; b.Compared != 72 || b.Sent != b.Acknowledged || b.Sent < 3*h.Signals || len(rep.Label) != 1 || rep.Label[0] != "recorded stream × 3" {
		t.Errorf("ledger %+v of three times %d results, labels %q", b, h.Signals, rep.Label)
	}
	page, err := os.ReadFile(filepath.Join(folder, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("recorded stream × 3")) || !bytes.Contains(page, []byte("recorded:")) || bytes.Contains(page, []byte("interval: 1s")) {
		t.Errorf("%v: the page does not say what was played, or not as a file does", err)
	}
	if err := os.WriteFile(after, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"was cut short":         {"lint", mine},
		"holds no journal":      {"record", "--data", dir, "-o", live},
		"is no time":            {"record", "--data", s.Data, "--since", "noon", "-o", live},
		"no result is recorded": {"record", "--data", s.Data, "--until", "2020-01-01", "-o", live},
	} {
		if ran := harness.Run(t, nil, append([]string{"load"}, args...)...); ran.Code == 0 || !strings.Contains(ran.Errors, name) {
			t.Errorf("%s: code %d\n%s", args, ran.Code, ran.Errors)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}
