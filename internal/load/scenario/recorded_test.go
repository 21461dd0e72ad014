package scenario

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// recording writes a stream of three nodes with two checks each, every 10 and 60 seconds for ten minutes.
func recording(t *testing.T, path string) {
	t.Helper()
	var out bytes.Buffer
	w, err := stream.NewWriter(&out)
	testenv.NoError(t, err)
	h := &stream.Head{Began: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC), Length: 10 * time.Minute, Nodes: 3, States: 6, Most: 2, Longest: 300,
		Checks: []stream.Check{{Interval: 10 * time.Second, Nodes: 3}, {Interval: time.Minute, Nodes: 3}}}
	for at := range uint32(600) {
		for check, every := range []uint32{10, 60} {
			for node := range uint32(3) {
				if at%every != 0 {
					continue
				}
				testenv.NoError(t, w.Add(&stream.Signal{At: at * 1000, Node: node, Check: uint32(check), Output: 100 + 200*uint32(check)}))
				h.Signals++
				h.Bytes += 100 + 200*uint64(check)
				h.Checks[check].Signals++
			}
		}
	}
	testenv.NoError(t, w.Close(h))
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// parseRecorded parses a scenario with a class that plays a recorded stream.
func parseRecorded(t *testing.T, dir, class string) (*Scenario, error) {
	t.Helper()
	return Parse(filepath.Join(dir, "mine.yaml"), []byte("scenario: muster.load/v1\ntitle: Monday\nagents: [{name: shop, "+class+"}]\nphases: [{steady: 10m}]\n"))
}

// TestRecorded reads a scenario with a recorded stream, and expects its nodes and checks, and titles and labels that
// name it.
func TestRecorded(t *testing.T) {
	dir := t.TempDir()
	recording(t, filepath.Join(dir, "monday.stream"))
	s, err := parseRecorded(t, dir, "recorded: {file: monday.stream, times: 5}")
	testenv.NoError(t, err)
	s.Defaults()
	if err := s.Runs(); err != nil {
		t.Error(err)
	}
	c := &s.Agents[0]
	if c.Count != 15 || len(c.Checks) != 1 || c.Checks[0].Count != 2 || c.Checks[0].Interval != model.Duration(10*time.Second) || s.States() != 30 || math.Abs(s.Rate()-5*210.0/600) > 1e-9 {
		t.Errorf("%+v, %d states, %v/s", c, s.States(), s.Rate())
	}
	if s.FullTitle() != "Monday (recorded stream × 5)" || s.Scaled(0.2).Label() != "recorded stream × 5, 20 % of the agents" {
		t.Errorf("%q, %q", s.FullTitle(), s.Scaled(0.2).Label())
	}
	if again := s.Scaled(0.2); math.Abs(again.Rate()-210.0/600) > 1e-9 || again.States() != 6 || again.Agents[0].Count != 3 {
		t.Errorf("a fifth of it: %v/s, %d states", again.Rate(), again.States())
	}
	want := "shop: recorded stream × 5: 3 nodes, 2 checks (at most 2 of a node), 210 results in 10m, every 10s to 1m, outputs of 128 B, up to 300 B, recorded from 2026-11-23 08:00 UTC on."
	if words := s.Describe(); !strings.Contains(words, want+"\n") {
		t.Errorf("%s\nwant %s", words, want)
	}
	if shown := s.File(); shown.Agents[0].Checks != nil || shown.Agents[0].Recorded.File != filepath.Join(dir, "monday.stream") || len(s.Agents[0].Checks) == 0 {
		t.Errorf("as a file: %+v", shown.Agents[0])
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	few, err := parseRecorded(t, dir, "count: 2, recorded: {file: monday.stream}")
	if err != nil || few.Nodes("") != 2 || few.Label() != "recorded stream × 1" {
		t.Errorf("%v %+v", err, few)
	}
}

// TestRecordedIsFoundFromAnywhere reads a scenario by a relative path and writes it into another folder, and expects
// that it finds its stream, and that the path is no part of the plan.
func TestRecordedIsFoundFromAnywhere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	testenv.NoError(t, os.Mkdir("streams", 0o700))
	recording(t, filepath.Join("streams", "monday.stream"))
	s, err := parseRecorded(t, "streams", "recorded: {file: monday.stream}")
	testenv.NoError(t, err)
	data, err := json.Marshal(s.File())
	testenv.NoError(t, err)
	for _, file := range []string{"streams/again.yaml", "again.yaml", filepath.Join(t.TempDir(), "again.yaml")} {
		if again, err := Parse(file, data); err != nil || again.Agents[0].Count != 3 {
			t.Errorf("%s: %v", file, err)
		}
	}
	moved := s.clone()
	moved.Agents[0].Recorded.File = "/elsewhere/monday.stream"
	if a, b := s.Played(), moved.Played(); !bytes.Equal(a, b) || moved.Agents[0].Recorded.File != "/elsewhere/monday.stream" {
		t.Errorf("%s\n%s", a, b)
	}
}

// TestRecordedFlaws expects errors for fields that a recorded stream excludes, and for bad files.
func TestRecordedFlaws(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "monday.stream")
	recording(t, path)
	data, err := os.ReadFile(path)
	testenv.NoError(t, err)
	data[40] ^= 4
	for name, text := range map[string][]byte{"short": data[:len(data)-1], "words": []byte("a song"), "bit": data} {
		testenv.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	for class, says := range map[string]string{
		"recorded: {}":                                 "mine.yaml:3:23: agents[0].recorded.file: missing; muster load record --out FILE makes one",
		"recorded: {file: sunday}":                     "sunday: the stream cannot be read: no such file or directory",
		"recorded: {file: short}":                      "short: this is no recorded stream, or it was cut short",
		"recorded: {file: words}":                      "words: this is no recorded stream",
		"recorded: {file: monday.stream, times: 2000}": "agents[0].recorded.times: want 1 to 1000, not 2000",
		"recorded: {file: monday.stream}, checks: [{name: disk, interval: 10s}]": "agents[0].checks: the checks of a recorded stream come from its file; leave them out",
		"recorded: {file: monday.stream}, count: -1":                             "agents[0].count: want 1 to",
	} {
		_, err := parseRecorded(t, dir, class)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v\nwant %s", class, err, says)
		}
	}
	s, err := parseRecorded(t, dir, "recorded: {file: bit}")
	testenv.NoError(t, err)
	if err := s.Verify(); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), "bit: the stream is damaged") {
		t.Error(err)
	}
}
