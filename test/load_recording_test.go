//go:build linux

package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// readRecording reads a file of recorded results, and returns its header and each event's results. A result has its
// status and output.
func readRecording(t *testing.T, path string) (h stream.Head, states map[[2]uint32][]string) {
	t.Helper()
	r, file, err := stream.Open(path)
	testenv.NoError(t, err)
	defer file.Close()
	states = map[[2]uint32][]string{}
	err = r.Each(func(list []stream.Signal) error {
		for i := range list {
			of := [2]uint32{list[i].Node, list[i].Check}
			states[of] = append(states[of], fmt.Sprintf("%s/%d ", list[i].Status, list[i].Output))
		}
		return nil
	})
	testenv.NoError(t, err)
	return r.Head, states
}

// isRotation reports whether one list is a rotation of another list. That is, x is y after its first elements
// moved to the end.
func isRotation(x, y []string) bool {
	return len(x) == len(y) && strings.Contains(strings.Join(append(slices.Clone(y), y...), ""), strings.Join(x, ""))
}

// TestLoadRecord records the results of a fleet, replays the results for a threefold fleet, and expects no
// loss.
func TestLoadRecord(t *testing.T) {
	t.Parallel()
	skipIfShort(t, "two runs of some seconds")
	dir := t.TempDir()
	live, after, mine, source := filepath.Join(dir, "live.stream"), filepath.Join(dir, "after.stream"), filepath.Join(dir, "mine.yaml"), filepath.Join(dir, "source.yaml")
	text := `{scenario: muster.load/v1, agents: [{name: shop, count: 6, checks: [
  {name: http, count: 2, interval: 1s, output: {like: http}, changes: 0.6}, {name: disk, count: 2, interval: 1s, output: {like: disk}, flapping: 0.5}]}],
  phases: [{ramp: 1s}, {steady: 5s}, {drain: 30s}]}`
	writeFile(t, source, text)
	s := harness.NewServer(t)
	s.CLI("load", "prepare", source, "--data", s.Data)
	s.Start()
	play := func(s *harness.Server, file, out string) (harness.Result, *report.Report) {
		t.Helper()
		ran := harness.Run(t, nil, "load", "run", file, "--out", out, "--max-lag", "1h", "--server", s.Listen, "--server-plain", s.Plain, "--data", s.Data, "--admin", "http://"+s.Admin)
		ran.Expect(0, "nothing lost, nothing twice")
		rep := readReport(t, out)
		return ran, rep
	}
	listening := harness.Launch(t, s.Env(), "load", "record", "--data", s.Data, "--for", "1h", "--out", live)
	listening.AwaitLog("listening until")
	_, rep := play(s, source, filepath.Join(dir, "first"))
	s.Stop()
	listening.Signal(syscall.SIGINT)
	listening.AwaitExit(0)
	harness.Run(t, nil, "load", "record", "--data", s.Data, "--out", after).Expect(0, "6 nodes, 4 checks (at most 4 of a node)", "every 1s, outputs of ")
	h, states := readRecording(t, after)
	assert(t, h.Signals <= rep.Balance.Sent && h.Signals >= rep.Results && len(states) == 24 && h.States == 24,
		"%d results recorded in %d states; %d sent, %d measured", h.Signals, len(states), rep.Balance.Sent, rep.Results)
	alive, _ := readRecording(t, live)
	assert(t, alive.Signals == h.Signals && alive.States == h.States, "listened to %+v, read afterwards %+v", alive, h)
	data := readFile(t, after)
	for _, name := range []string{"shop", "http", "DISK", "free space"} {
		assert(t, !bytes.Contains(data, []byte(name)), "%q of the fleet stands in the file", name)
	}

	text = fmt.Sprintf("scenario: muster.load/v1\ntitle: Again\nagents: [{name: told, recorded: {file: after.stream, times: 3}}]\nphases: [{ramp: 1s}, {steady: %s}, {drain: 30s}]\n", h.Length)
	writeFile(t, mine, text)
	harness.Run(t, nil, "load", "lint", mine).Expect(0, "18 agents")
	harness.Run(t, nil, "load", "show", mine).Expect(0, "# told: recorded stream × 3: 6 nodes, 4 checks").ExpectNot("checks:")
	again := harness.NewServer(t)
	again.CLI("load", "prepare", mine, "--data", again.Data)
	again.Start()
	folder, third := filepath.Join(dir, "report"), filepath.Join(dir, "third.stream")
	ran, rep := play(again, mine, folder)
	assert(t, strings.HasPrefix(ran.Out, "Again (recorded stream × 3)\n"), "%v", ran.Out)
	again.Stop()
	harness.Run(t, nil, "load", "record", "--data", again.Data, "--out", third).Expect(0)
	amplified, played := readRecording(t, third)
	assert(t, amplified.Signals == 3*h.Signals && amplified.Nodes == 18 && len(played) == 72,
		"%+v is not three times %+v", amplified, h)
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
	assert(t, err == nil && bytes.Contains(page, []byte("recorded stream × 3")) && bytes.Contains(page, []byte("recorded:")) && !bytes.Contains(page, []byte("interval: 1s")),
		"%v: the page does not say what was played, or not as a file does", err)
	writeFile(t, after, data[:len(data)/2])
	for name, args := range map[string][]string{
		"was cut short":         {"lint", mine},
		"has no journal":        {"record", "--data", dir, "--out", live + "2"},
		"is no time":            {"record", "--data", s.Data, "--since", "noon", "--out", live + "2"},
		"no result is recorded": {"record", "--data", s.Data, "--since", "2019-01-01", "--for", "1h", "--out", live + "2"},
	} {
		harness.Run(t, nil, append([]string{"load"}, args...)...).Expect(harness.AnyFailure, name)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*.new"))
	assert(t, len(left) == 0, "left behind: %s", left)
}

// A load scenario that is made from a real installation contains none of its names.
func TestScenarioFromFleetContainsNoNames(t *testing.T) {
	t.Parallel()
	const text = `scenario: muster.load/v1
seed: 5
agents:
  - {name: storefront, count: 150, groups: [penguins], tls: true, keepalive: {interval: 5s, timeout: 30s}, checks: [{name: checkout, count: 3, interval: 2s, status: {critical: 0.5}, output: {bytes: 400}}, {name: nightly, interval: 3s, ttl: 60s}]}
  - {name: ledger, count: 60, groups: [penguins], checks: [{name: replication, count: 5, interval: 2s}]}
checks:
  - {name: filling, count: 2, groups: [penguins], interval: 2s}
  - {name: clock, groups: [all], interval: 4s}
phases: [{ramp: 2s}, {steady: 1h}, {drain: 5s}]
`
	sc := testenv.Value(scenario.Parse("live.yaml", []byte(text)))(t)
	sc.Defaults()
	s := harness.NewServer(t)
	testenv.NoError(t, os.MkdirAll(s.Data, 0o700))
	testenv.NoError(t, subject.PrepareFolder(t.Context(), filepath.Join(s.Data, "intent.db"), func(ctx context.Context, service *intent.Service) error {
		return simulated.Prepare(ctx, service, sc)
	}))
	s.Start()
	api := s.Client()
	certificates := testenv.Value(simulated.Certificates(s.Authority()))(t)
	_, end := runLoadInBackground(t, load.Config{Options: play.Options{Scenario: sc, Server: s.Plain, ServerTLS: s.Listen, TLS: certificates}, MaxLag: time.Hour})
	awaitEqual(t, "results of all states", sc.States(), func() int { return len(s.FleetStates()) })
	viewer := testenv.Value(api.Access.CreateToken(t.Context(), v1.TokenRequest{Role: access.Viewer}))(t)
	env := append(s.Env(), "MUSTER_TOKEN="+viewer.Secret)
	harness.Run(t, env, "load", "from-fleet").Expect(harness.AnyFailure, "no nodes in namespace default", "-A takes the nodes of all namespaces")
	read := harness.Run(t, env, "load", "from-fleet", "-n", simulated.Namespace)
	read.Expect(0)
	mine := read.Out
	file := tempFile(t, "mine.yaml", mine)
	expectNoTexts(t, mine, "storefront", "checkout", "nightly", "ledger", "replication", "penguins", "filling", "clock", s.Listen, "127.0.0.1", "rack", "00007")
	got, err := scenario.Parse(file, []byte(mine))
	require(t, err == nil && len(got.Agents) == 2 && (got.Agents[0].Count == 60 || got.Agents[1].Count == 60) && got.Rate() == sc.Rate() && got.States() == sc.States(),
		"%v\n%s", err, mine)
	for _, c := range got.Agents {
		switch k := c.Checks; c.Count { // checks of groups stand in each class
		case 150:
			if !c.TLS || c.Keepalive.Interval.String() != "5s" || len(k) != 3 || k[0].Count != 5 || k[0].Status["critical"] < 0.15 || k[0].Status["critical"] > 0.45 || k[1].TTL.String() != "1m" || k[2].Interval.String() != "4s" {
				t.Errorf("%+v\n%s", c, mine)
			}
		case 60:
			assert(t, !c.TLS && len(k) == 2 && k[0].Count == 7 && k[1].Interval.String() == "4s", "%+v\n%s", c, mine)
		}
	}
	harness.Run(t, nil, "load", "lint", file).Expect(0, "210 agents")
	end()
	out := filepath.Join(t.TempDir(), "out")
	harness.Run(t, nil, "load", "size", file, "--factors", "0.1", "--seconds", "1", "--max-lag", "1h", "--out", out).Expect(0, "0.1× (21 agents, ")
	rep := readReport(t, filepath.Join(out, "0.1x"))
	b := rep.Balance
	assert(t, b.OK() && b.Sent >= 21 && b.Sent == b.Acknowledged, "ledger %+v", b)
}
