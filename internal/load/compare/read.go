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

// ReadAll reads sets, each as Read does. Their names are the last parts of their paths, where those differ.
func ReadAll(paths []string) (sets []Set, err error) {
	taken := map[string]int{}
	for _, path := range paths {
		set, err := Read(path)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
		taken[shortName(path)]++
	}
	for i, path := range paths {
		if short := shortName(path); taken[short] == 1 {
			sets[i].Name = short
		}
	}
	return sets, nil
}

func shortName(path string) string {
	return filepath.Base(strings.TrimSuffix(strings.TrimSuffix(path, "/run.json"), ".json"))
}

// Read reads a set: a run.json, the folder of a run, or a folder of several of either. The name of the set is the path.
func Read(path string) (Set, error) {
	set := Set{Name: strings.TrimSuffix(path, string(filepath.Separator))}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return set, model.Errorf(model.NotFound, "there is no %s", path).WithHint("give a run.json, the folder that muster load run wrote, or a folder of such folders")
	case err != nil:
		return set, fmt.Errorf("read runs: %w", err)
	case !info.IsDir():
		return set, set.add(path)
	}
	if own := filepath.Join(path, "run.json"); there(own) {
		return set, set.add(own)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return set, fmt.Errorf("read runs: %w", err)
	}
	for _, e := range entries {
		file := filepath.Join(path, e.Name())
		switch {
		case e.IsDir() && there(filepath.Join(file, "run.json")):
			err = set.add(filepath.Join(file, "run.json"))
		case !e.IsDir() && filepath.Ext(file) == ".json":
			if err = set.add(file); model.ClassOf(err) == model.Invalid {
				err = nil // another kind of file
			}
		}
		if err != nil {
			return set, err
		}
	}
	if len(set.Runs) == 0 {
		return set, model.Errorf(model.NotFound, "there is no run in %s", path).WithHint("give a run.json, the folder that muster load run wrote, or a folder of such folders")
	}
	return set, nil
}

func (s *Set) add(file string) error {
	rep, err := report.Read(file)
	if err == nil {
		s.Runs = append(s.Runs, rep)
	}
	return err
}

func there(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Split divides sets by their scenarios, in the order of the first set, and leaves out scenarios that only one of them
// has. Sets of one scenario each stay together even if it differs.
func Split(sets []Set) [][]Set {
	titles := func(s Set) []string { return unique(s.Runs, Title) }
	if !slices.ContainsFunc(sets, func(s Set) bool { return len(titles(s)) > 1 }) {
		return [][]Set{sets}
	}
	var list [][]Set
	for _, title := range titles(sets[0]) {
		var group []Set
		for _, s := range sets {
			part := Set{Name: s.Name}
			for _, r := range s.Runs {
				if Title(r) == title {
					part.Runs = append(part.Runs, r)
				}
			}
			if len(part.Runs) > 0 {
				group = append(group, part)
			}
		}
		if len(group) > 1 && group[0].Name == sets[0].Name {
			list = append(list, group)
		}
	}
	return list
}
