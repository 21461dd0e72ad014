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

// Read reads a set: a run.json, the folder of a run, or a folder that holds several of
// either. The set is named as the path is.
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
				err = nil // something else
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

// Split parts sets by what was played, in the order of the first set; what only one of
// them has is left out. Sets of one scenario each stay together even if it is not the same.
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
