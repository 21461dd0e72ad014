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

// Write replaces a scenario's baseline.
func Write(dir, name string, runs []*report.Report) error {
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
