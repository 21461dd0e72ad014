package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

const renew = "muster load check --baseline DIR --write makes it anew (in the source tree make bench BASELINE=write: bench/README.md says who may, and why)"

// Read reads a scenario's baseline: DIR/NAME-1.json and up. It must be of the same scenario.
func Read(dir string, sc *scenario.Scenario) (runs []*report.Report, err error) {
	for n := 1; ; n++ {
		path := file(dir, sc.Name, n)
		rep, err := report.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !same(rep.Scenario, sc) {
			return nil, model.Errorf(model.Stale, "%s is of another %s than this program would play", path, sc.Name).WithHint("%s", renew)
		}
		runs = append(runs, rep)
	}
	if len(runs) == 0 {
		return nil, model.Errorf(model.NotFound, "there is no baseline of %s in %s", sc.Name, dir).WithHint("%s", renew)
	}
	return runs, nil
}

// same reports whether two scenarios play the same. Objectives and folders of recorded streams may differ.
func same(a, b *scenario.Scenario) bool {
	return a != nil && b != nil && a.Name == b.Name && bytes.Equal(a.Played(), b.Played())
}

// lacking returns the deciding figures that a run lacks. A restart resets the server's counters: then only the CPU
// counts.
func lacking(rep *report.Report) (names []string) {
	have := rep.Figures()
	restarts := rep.Scenario != nil && slices.ContainsFunc(rep.Scenario.Faults, func(f scenario.Fault) bool { return f.Server == "restart" || f.Server == "kill" })
	for _, l := range Limits() {
		if _, ok := have[l.Figure]; !ok && (!restarts || l.Figure == "cpu-ratio") {
			names = append(names, l.Figure)
		}
	}
	return names
}

// Write replaces a scenario's baseline. It must have all figures that decide.
func Write(dir, name string, runs []*report.Report) error {
	for _, rep := range runs {
		if names := lacking(rep); len(names) > 0 {
			return model.Errorf(model.Limited, "%s: not measured, and no baseline without: %s", name, strings.Join(names, ", ")).
				WithHint("the server's /proc/PID/io and its metrics have to be read: Linux, as the user who starts this")
		}
	}
	for i, rep := range runs {
		if err := small(rep).Save(file(dir, name, i+1)); err != nil {
			return err
		}
	}
	for n := len(runs) + 1; ; n++ {
		switch err := os.Remove(file(dir, name, n)); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("replace the baseline: %w", err)
		}
	}
}

// file returns the path of the n-th report of a baseline.
func file(dir, name string, n int) string {
	return filepath.Join(dir, name+"-"+strconv.Itoa(n)+".json")
}

// small returns a copy of a report without the data that no comparison needs, 10 kB instead of 500 kB.
func small(rep *report.Report) *report.Report {
	s := *rep
	s.Samples, s.Curve, s.Files, s.Command, s.Metrics = nil, nil, nil, nil, nil
	s.Phases = slices.Clone(s.Phases)
	if s.Environment != nil {
		e := *s.Environment
		e.Limits = nil
		s.Environment = &e
	}
	return &s
}
