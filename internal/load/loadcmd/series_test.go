package loadcmd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// seriesIn returns a series that writes to a folder.
func seriesIn(t *testing.T, out string, s *stops) *series {
	return &series{options: options{out: out, stops: s}, ctx: t.Context(), say: func(string, ...any) {}}
}

// TestSeries expects that an invalid run is moved away and repeated once, that a first run with losses stays, and that
// a run without a report leaves nothing.
func TestSeries(t *testing.T) {
	out := t.TempDir()
	runs := seriesIn(t, out, nil)
	for name, c := range map[string]struct {
		valid   []bool
		missing uint64
		stopped *report.Stopped
		code    int
	}{
		"well": {[]bool{true}, 0, nil, 0}, "behind once": {[]bool{false, true}, 0, nil, 0}, "behind twice": {[]bool{false, false}, 0, nil, 0}, "behind and lost": {[]bool{false}, 1, nil, 0},
		"stopped": {[]bool{true}, 0, &report.Stopped{}, exitStopped}, "stopped and lost": {[]bool{true}, 1, &report.Stopped{}, exitLost},
	} {
		played := 0
		rep, err := runs.playInto(name, func(kept *folder.Folder) (*report.Report, error) {
			r := &report.Report{Schema: report.Schema, Balance: &report.Balance{Missing: c.missing}, Valid: c.valid[played], Stopped: c.stopped, Verdict: []string{"x"}}
			played++
			return r, kept.Save(t.Context(), r)
		})
		if played != len(c.valid) || c.code == 0 && (err != nil || rep.Valid != c.valid[played-1]) || c.code != 0 && !endsWith(err, c.code) {
			t.Errorf("%s: played %d times, %v", name, played, err)
		}
		if _, err := os.Stat(filepath.Join(out, invalidRuns, name, "run.json")); (err == nil) != (played > 1) {
			t.Errorf("%s: moved: %v", name, err)
		}
	}
	wrong := errors.New("no server")
	if rep, err := runs.playInto("nothing", func(*folder.Folder) (*report.Report, error) { return nil, wrong }); rep != nil || !errors.Is(err, wrong) {
		t.Errorf("%+v, %v", rep, err)
	}
	if _, err := os.Stat(filepath.Join(out, "nothing")); err == nil {
		t.Error("a run without a report left a folder")
	}
	if _, err := runs.playInto("well", nil); model.ClassOf(err) != model.Conflict {
		t.Errorf("over another run: %v", err)
	}
}

// TestSides parses the sides of a comparison, valid and malformed.
func TestSides(t *testing.T) {
	for text, want := range map[string]side{
		"": {name: "a"}, "old:": {name: "old"}, "/bin/sh": {name: "a", program: "/bin/sh"}, "--snapshot-cycle=30s": {name: "a", flags: []string{"--snapshot-cycle=30s"}},
		" v1.2: /bin/sh --x  y ": {name: "v1.2", program: "/bin/sh", flags: []string{"--x", "y"}},
	} {
		if got, err := newSide(text, "a"); err != nil || got.name != want.name || got.program != want.program || !slices.Equal(got.flags, want.flags) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, class := range map[string]model.Class{"old: no-such-program": model.NotFound, "a/b: --x": model.Invalid, ": --x": model.Invalid, "..: --x": model.Invalid, "invalid:": model.Invalid} {
		if _, err := newSide(text, "a"); model.ClassOf(err) != class {
			t.Errorf("%q: %v", text, err)
		}
	}
}
