package loadcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
)

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
			return r, kept.Save(t.Context(), r)
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
