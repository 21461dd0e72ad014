package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/muster-fleet/muster/bench/scenarios"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// Parse reads a scenario file, YAML or JSON, strictly, and checks it: all flaws in one
// Invalid error, each with its line and what is allowed. Defaults are not filled in. The
// file's name without its ending is the scenario's, where it has none.
func Parse(file string, data []byte) (*Scenario, error) {
	var s Scenario
	if err := document.Decode(file, data, &s, func(written func(string) bool) model.Flaws {
		return append(s.recordings(file), s.checkWritten(written)...)
	}); err != nil {
		return nil, err
	}
	if s.Name == "" {
		base := filepath.Base(file)
		s.Name = model.CleanName(strings.TrimSuffix(base, filepath.Ext(base)))
	}
	return &s, nil
}

// Load finds a scenario by the name of a shipped one or by its file, reads and checks it
// and fills in defaults. NAME-quick is Quick for this machine, NAME-soak is Soak.
func Load(nameOrFile string) (*Scenario, error) { return LoadAs(nameOrFile, 1, false) }

// LoadAs is Load with so many times the agents, and as the quick form where that is asked for,
// here or by the name. First comes the scale: what is small enough then is the same on every
// machine.
func LoadAs(nameOrFile string, scale float64, quick bool) (*Scenario, error) {
	s, named, err := whole(nameOrFile)
	if err != nil {
		return nil, err
	}
	if scale != 1 {
		s = s.Scaled(scale)
	}
	if quick || named {
		s = s.Quick(ThisMachine())
	}
	return s, nil
}

// whole is a scenario before it is made smaller; quick: its name asks for the quick form.
func whole(nameOrFile string) (s *Scenario, quick bool, err error) {
	if s, err = find(nameOrFile); err == nil {
		s.Defaults()
		return s, false, nil
	}
	if model.ClassOf(err) != model.NotFound {
		return nil, false, err
	}
	if name, ok := strings.CutSuffix(nameOrFile, "-quick"); ok && shipped(name) {
		s, _, err = whole(name)
		return s, true, err
	}
	if name, ok := strings.CutSuffix(nameOrFile, "-soak"); ok && shipped(name) {
		if s, _, err = whole(name); err == nil {
			s, err = s.Soak()
		}
	}
	return s, false, err
}

func find(nameOrFile string) (*Scenario, error) {
	if shipped(nameOrFile) {
		file := nameOrFile + ".yaml"
		data, err := scenarios.Files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read shipped scenario: %w", err)
		}
		return Parse("bench/scenarios/"+file, data)
	}
	data, err := os.ReadFile(nameOrFile)
	switch {
	case err == nil:
		return Parse(nameOrFile, data)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, Unread(nameOrFile, err)
	}
	hint := "muster load list shows the shipped ones; or name a file"
	if near := model.Nearest(nameOrFile, Names()); near != "" {
		hint = "did you mean " + near + "? muster load list shows all; or name a file"
	}
	return nil, model.Errorf(model.NotFound, "there is no scenario %q, and no such file", nameOrFile).WithHint("%s", hint)
}

// Unread says why a scenario's file was not read.
func Unread(file string, err error) error {
	switch {
	case errors.Is(err, syscall.EISDIR):
		return model.Errorf(model.Invalid, "%s is a folder, and a scenario is a file", file).WithHint("name a file in it; muster load list shows the shipped ones")
	case errors.Is(err, fs.ErrNotExist):
		return model.Errorf(model.NotFound, "read scenario: %w", err)
	}
	return model.Errorf(model.Invalid, "read scenario: %w", err)
}

// Names are the shipped scenarios.
func Names() []string {
	files, err := scenarios.Files.ReadDir(".")
	if err != nil {
		panic("BUG: the shipped scenarios cannot be read: " + err.Error())
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

func shipped(name string) bool { return slices.Contains(Names(), name) }
