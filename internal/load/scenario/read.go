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

// Parse decodes a scenario file, YAML or JSON, strictly, and checks it: all flaws come in one Invalid error, each with its
// line and the allowed values. Defaults are not filled in. A scenario without a name gets that of its file.
func Parse(file string, data []byte) (*Scenario, error) {
	var s Scenario
	if err := document.Decode(file, data, &s, func(written func(string) bool) model.Flaws {
		return append(s.recordings(file), s.check(written)...)
	}); err != nil {
		return nil, err
	}
	if s.Name == "" {
		base := filepath.Base(file)
		s.Name = model.CleanName(strings.TrimSuffix(base, filepath.Ext(base)))
	}
	return &s, nil
}

// Load reads a shipped scenario by its name, or a file, and fills in defaults. NAME-quick is Quick for this machine.
func Load(nameOrFile string) (*Scenario, error) { return LoadAs(nameOrFile, 1, false) }

// LoadAs loads a scenario with times the agents, and in its quick form if quick is set or the name asks for it. It
// scales first, so that a scenario that is small enough then is the same on every machine.
func LoadAs(nameOrFile string, scale float64, quick bool) (*Scenario, error) {
	if !(scale > 0 && scale <= 1000) {
		return nil, model.Errorf(model.Invalid, "--scale %g: want more than 0 and at most 1000", scale).WithHint("--scale 0.1 is a tenth of the agents")
	}
	name := nameOrFile
	if base, ok := strings.CutSuffix(name, "-quick"); ok && shipped(base) {
		name, quick = base, true
	}
	s, err := read(name)
	if err != nil {
		return nil, err
	}
	s.Defaults()
	if scale != 1 {
		s = s.Scaled(scale)
	}
	if quick {
		s = s.Quick(ThisMachine())
	}
	return s, nil
}

// read reads a shipped scenario or a file.
func read(nameOrFile string) (*Scenario, error) {
	if shipped(nameOrFile) {
		data, err := scenarios.Files.ReadFile(nameOrFile + ".yaml")
		if err != nil {
			return nil, fmt.Errorf("read shipped scenario: %w", err)
		}
		return Parse("bench/scenarios/"+nameOrFile+".yaml", data)
	}
	data, err := os.ReadFile(nameOrFile)
	switch {
	case err == nil:
		return Parse(nameOrFile, data)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, ReadError(nameOrFile, err)
	}
	hint := "muster load list shows the shipped ones; or name a file"
	if near := model.Nearest(nameOrFile, Names()); near != "" {
		hint = "did you mean " + near + "? muster load list shows all; or name a file"
	}
	return nil, model.Errorf(model.NotFound, "there is no scenario %q, and no such file", nameOrFile).WithHint("%s", hint)
}

// ReadError explains why a scenario's file could not be read.
func ReadError(file string, err error) error {
	switch {
	case errors.Is(err, syscall.EISDIR):
		return model.Errorf(model.Invalid, "%s is a folder, and a scenario is a file", file).WithHint("name a file in it; muster load list shows the shipped ones")
	case errors.Is(err, fs.ErrNotExist):
		return model.Errorf(model.NotFound, "read scenario: %w", err)
	}
	return model.Errorf(model.Invalid, "read scenario: %w", err)
}

// Names returns the shipped scenarios.
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

// shipped reports whether a scenario of this name is shipped.
func shipped(name string) bool { return slices.Contains(Names(), name) }
