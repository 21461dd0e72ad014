package compare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// ReadAll reads sets. Each path is a run.json, the folder of a run, or a folder of several of either. The name of a set is
// the last part of its path, or the path where that is not unique.
func ReadAll(paths []string) (sets []Set, err error) {
	short := func(path string) string {
		return filepath.Base(strings.TrimSuffix(strings.TrimSuffix(path, "/run.json"), ".json"))
	}
	same := map[string]int{}
	for _, path := range paths {
		same[short(path)]++
	}
	for _, path := range paths {
		set := Set{Name: short(path)}
		if same[set.Name] > 1 {
			set.Name = strings.TrimSuffix(path, string(filepath.Separator))
		}
		if set.Runs, err = read(path); err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

const pathHint = "give a run.json, the folder that muster load run wrote, or a folder of such folders"

// read reads the runs in a file or folder.
func read(path string) (runs []*report.Report, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, model.Errorf(model.NotFound, "there is no %s", path).WithHint(pathHint)
	case err != nil:
		return nil, fmt.Errorf("read runs: %w", err)
	}
	files := []string{path}
	if info.IsDir() {
		files = []string{filepath.Join(path, "run.json")}
	}
	if _, err := os.Stat(files[0]); err != nil { // a folder of runs
		several, _ := filepath.Glob(filepath.Join(globQuoted(path), "*", "run.json")) // the pattern is valid
		files, _ = filepath.Glob(filepath.Join(globQuoted(path), "*.json"))
		files = append(files, several...)
		slices.Sort(files)
	}
	for _, file := range files {
		rep, err := report.Read(file)
		switch {
		case err == nil:
			runs = append(runs, rep)
		case model.ClassOf(err) != model.Invalid || len(files) == 1: // else another kind of file
			return nil, err
		}
	}
	if len(runs) == 0 {
		return nil, model.Errorf(model.NotFound, "there is no run in %s", path).WithHint(pathHint)
	}
	return runs, nil
}

// globQuoted quotes a path for a pattern.
func globQuoted(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// Split divides sets by their scenarios, in the order of the first set, and leaves out scenarios that only one of them has.
// Sets of one scenario each stay together even if it differs.
func Split(sets []Set) (list [][]Set) {
	titles := func(s Set) []string { return unique(s.Runs, Title) }
	if !slices.ContainsFunc(sets, func(s Set) bool { return len(titles(s)) > 1 }) {
		return [][]Set{sets}
	}
	for _, title := range titles(sets[0]) {
		var group []Set
		for _, s := range sets {
			part := Set{Name: s.Name, Runs: slices.DeleteFunc(slices.Clone(s.Runs), func(r *report.Report) bool { return Title(r) != title })}
			if len(part.Runs) > 0 {
				group = append(group, part)
			}
		}
		if len(group) > 1 {
			list = append(list, group)
		}
	}
	return list
}
