package loadcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// seriesIn returns a series that writes to a folder.
func seriesIn(t *testing.T, out string, s *stops) *runner {
	return &runner{out: out, stops: s, ctx: t.Context(), say: func(string, ...any) {}}
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
			return r, kept.Save(r, nil)
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

// TestSizeWithoutAServer expects an error instead of a size of 0 if the server does not start, and no files left.
func TestSizeWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	program, out := filepath.Join(dir, "broken"), filepath.Join(dir, "out")
	testenv.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho no such flag >&2\nexit 3\n"), 0o755))
	text, err := loadCommand(t, "", "size", "muster-sizing", "--factors", "0.01,0.02", "--seconds", "1", "--server-binary", program, "--out", out)
	if model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), "no such flag") || strings.Contains(text, "does not carry") {
		t.Errorf("%v\n%s", err, text)
	}
	if left, err := os.ReadDir(out); err == nil {
		t.Errorf("left behind: %v", left)
	}
}

// caught returns a context and its stops, whose signals the test sends.
func caught(t *testing.T, said io.Writer) (context.Context, *stops) {
	t.Helper()
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	ctx, s := catchSignals(cmd, func(string, ...any) {})
	t.Cleanup(s.release)
	return ctx, s
}

// TestStopsOfARowOfRuns sends a signal in a series of runs, and expects that the present run ends unless its timetable
// is over, and that no other run starts.
func TestStopsOfARowOfRuns(t *testing.T) {
	for name, c := range map[string]struct {
		at    progress
		word  bool // for the run
		says  string
		ended bool // at once
	}{
		"nothing was sent":      {before, false, "", true},
		"while it is played":    {playing, true, "stopped: the present phase ends here", false},
		"the timetable is over": {played, false, "stopped: the run is over already, and its ledger and report come", false},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			ctx, s := caught(t, &said)
			var run load.Config
			over := s.attach(&run, &said)
			if err := s.next("a run"); err != nil {
				t.Error(err)
			}
			for at, reach := range map[progress]func(){playing: run.Begun, played: run.Played} {
				if c.at == at {
					reach()
				}
			}
			s.signal(1, "")
			if len(run.Stop) > 0 != c.word || (ctx.Err() != nil) != c.ended || !strings.HasPrefix(said.String(), c.says) {
				t.Errorf("%d words for the run, %v, said %q", len(run.Stop), ctx.Err(), said.String())
			}
			over() // and it did not look
			var next load.Config
			s.attach(&next, &said)
			if len(next.Stop) > 0 {
				t.Error("the next run is stopped by what was meant for this one")
			}
			if err := s.next("b/1"); endsWith(err, exitStopped) == c.ended || err != nil && err.Error() != "stopped before b/1 was played" {
				t.Errorf("before the next one: %v", err)
			}
			if s.signal(2, ""); ctx.Err() == nil {
				t.Error("a second signal does not end it")
			}
			if err := s.next("b/1"); err != nil {
				t.Errorf("it says itself that it was ended: %v", err)
			}
		})
	}
}

// TestNoLegAfterAStop sends a signal after the timetable of a run, and expects a complete report, no next run and no
// repetition.
func TestNoLegAfterAStop(t *testing.T) {
	for valid, left := range map[bool]string{true: "a/1", false: "invalid/a/1"} {
		out, plays := t.TempDir(), 0
		_, s := caught(t, io.Discard)
		play := func(kept *folder.Folder) (*report.Report, error) {
			plays++
			var run load.Config
			defer s.attach(&run, io.Discard)()
			run.Begun()
			run.Played()
			s.signal(1, "")
			r := &report.Report{Schema: report.Schema, Balance: &report.Balance{}, Valid: valid}
			return r, kept.Save(r, nil)
		}
		runs := seriesIn(t, out, s)
		rep, err := runs.playInto("a/1", play)
		if (rep != nil) != valid || endsWith(err, exitStopped) == valid {
			t.Errorf("valid %t: %v, %v", valid, rep, err)
		}
		if _, err := runs.playInto("b/1", play); !endsWith(err, exitStopped) || plays != 1 {
			t.Errorf("valid %t: played %d times, %v", valid, plays, err)
		}
		if _, err := os.Stat(filepath.Join(out, left, "run.json")); err != nil {
			t.Error(err)
		}
	}
}

// TestEndsWith expects that losses found by a comparison count more than its interruption.
func TestEndsWith(t *testing.T) {
	lost := fmt.Errorf("compare: %w", &failed{nil, exitLost})
	if !endsWith(lost, exitLost) || endsWith(lost, exitStopped) || endsWith(nil, exitLost) || endsWith(errors.New("x"), exitLost) {
		t.Error("wrong")
	}
}
