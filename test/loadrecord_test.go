//go:build linux

package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/test/harness"
)

// readStream reads a recorded stream: what each of its states said, a word for each result.
func readStream(t *testing.T, path string) (h stream.Head, states map[[2]uint32][]string) {
	t.Helper()
	r, file, err := stream.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	states = map[[2]uint32][]string{}
	err = r.Each(func(list []stream.Signal) error {
		for i := range list {
			of := [2]uint32{list[i].Node, list[i].Check}
			states[of] = append(states[of], fmt.Sprintf("%s/%d ", list[i].Status, list[i].Output))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Head, states
}

// isRotation says whether one sequence is the other, begun somewhere within.
func isRotation(x, y []string) bool {
	return len(x) == len(y) && strings.Contains(strings.Join(append(slices.Clone(y), y...), ""), strings.Join(x, ""))
}

// A fleet is recorded while it runs and once its server has stopped, and played again, three
// times as large: nothing is lost, who reads the report is told what it was, and the journal that
// this leaves holds what the first one held, three times.
func TestLoadRecord(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("two runs of some seconds")
	}
	dir := t.TempDir()
	live, after, mine, source := filepath.Join(dir, "live.stream"), filepath.Join(dir, "after.stream"), filepath.Join(dir, "mine.yaml"), filepath.Join(dir, "source.yaml")
	text := `{scenario: muster.load/v1, agents: [{name: shop, count: 6, checks: [
  {name: http, count: 2, interval: 1s, output: {like: http}, changes: 0.6}, {name: disk, count: 2, interval: 1s, output: {like: disk}, flapping: 0.5}]}],
  phases: [{ramp: 1s}, {steady: 5s}, {drain: 30s}]}`
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := harness.NewServer(t)
	s.CLI("load", "prepare", source, "--data", s.Data)
	s.Start()
	play := func(s *harness.Server, file, out string) (harness.Result, *report.Report) {
		t.Helper()
		ran := harness.Run(t, nil, "load", "run", file, "--out", out, "--max-lag", "1h", "--server", s.Listen, "--server-plain", s.Plain, "--data", s.Data, "--admin", "http://"+s.Admin)
		if ran.Code != 0 || !strings.Contains(ran.Out, "nothing lost, nothing twice") {
			t.Fatalf("code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
		}
		rep, err := report.Read(filepath.Join(out, "run.json"))
		if err != nil {
			t.Fatal(err)
		}
		return ran, rep
	}
	listening := harness.Launch(t, s.Env(), "load", "record", "--data", s.Data, "--for", "1h", "-o", live)
	harness.Until(t, time.Minute, "it listens", func() (string, bool) { return listening.Log(), strings.Contains(listening.Log(), "listening until") })
	_, rep := play(s, source, filepath.Join(dir, "first"))
	s.Stop()
	listening.Signal(syscall.SIGINT)
	if code := listening.Wait(time.Minute); code != 0 {
		t.Fatalf("code %d\n%s", code, listening.Log())
	}
	said := harness.Run(t, nil, "load", "record", "--data", s.Data, "-o", after)
	if said.Code != 0 || !strings.Contains(said.Out, "6 nodes, 4 checks (at most 4 of a node)") || !strings.Contains(said.Out, "every 1s, outputs of ") {
		t.Fatalf("code %d\n%s%s", said.Code, said.Out, said.Errors)
	}
	h, states := readStream(t, after)
	if h.Signals > rep.Balance.Sent || h.Signals < rep.Results || len(states) != 24 || h.States != 24 {
		t.Errorf("%d results recorded in %d states; %d sent, %d measured", h.Signals, len(states), rep.Balance.Sent, rep.Results)
	}
	if alive, _ := readStream(t, live); alive.Signals != h.Signals || alive.States != h.States {
		t.Errorf("listened to %+v, read afterwards %+v", alive, h)
	}
	data, err := os.ReadFile(after)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop", "http", "DISK", "free space"} {
		if bytes.Contains(data, []byte(name)) {
			t.Errorf("%q of the fleet stands in the file", name)
		}
	}

	text = fmt.Sprintf("scenario: muster.load/v1\ntitle: Again\nagents: [{name: told, recorded: {file: after.stream, times: 3}}]\nphases: [{ramp: 1s}, {steady: %s}, {drain: 30s}]\n", h.Length)
	if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if lint := harness.Run(t, nil, "load", "lint", mine); lint.Code != 0 || !strings.Contains(lint.Out, "18 agents") {
		t.Errorf("code %d\n%s%s", lint.Code, lint.Out, lint.Errors)
	}
	if show := harness.Run(t, nil, "load", "show", mine); show.Code != 0 || !strings.Contains(show.Out, "# - 18 told: recorded stream × 3: 6 nodes, 4 checks") || strings.Contains(show.Out, "checks:") {
		t.Errorf("code %d\n%s%s", show.Code, show.Out, show.Errors)
	}
	again := harness.NewServer(t)
	again.CLI("load", "prepare", mine, "--data", again.Data)
	again.Start()
	folder, third := filepath.Join(dir, "report"), filepath.Join(dir, "third.stream")
	ran, rep := play(again, mine, folder)
	if !strings.HasPrefix(ran.Out, "Again (recorded stream × 3)\n") {
		t.Error(ran.Out)
	}
	again.Stop()
	if said := harness.Run(t, nil, "load", "record", "--data", again.Data, "-o", third); said.Code != 0 {
		t.Fatalf("code %d\n%s%s", said.Code, said.Out, said.Errors)
	}
	amplified, played := readStream(t, third)
	if amplified.Signals != 3*h.Signals || amplified.Nodes != 18 || len(played) != 72 {
		t.Errorf("%+v is not three times %+v", amplified, h)
	}
	for of, want := range states {
		same, alike := 0, 0
		for _, got := range played {
			if slices.Equal(got, want) {
				same++
			}
			if isRotation(got, want) {
				alike++
			}
		}
		if same < 1 || alike < 3 {
			t.Errorf("check %d of node %d was played %d times as it was, %d times turned round: %s", of[1], of[0], same, alike, want)
		}
	}
	if b := rep.Balance; b.Compared != 72 || b.Sent != b.Acknowledged || b.Sent < 3*h.Signals || !slices.Contains(rep.Label, "recorded stream × 3") {
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
		"holds no journal":      {"record", "--data", dir, "-o", live + "2"},
		"is no time":            {"record", "--data", s.Data, "--since", "noon", "-o", live + "2"},
		"no result is recorded": {"record", "--data", s.Data, "--until", "2020-01-01", "-o", live + "2"},
	} {
		if ran := harness.Run(t, nil, append([]string{"load"}, args...)...); ran.Code == 0 || !strings.Contains(ran.Errors, name) {
			t.Errorf("%s: code %d\n%s", args, ran.Code, ran.Errors)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}
