package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// kernelModule is the policy method that requires a kernel module to be loaded, or not to be loaded. It applies
// now and at each start of the machine.
type kernelModule struct {
	*Executor
	*model.KernelModuleMethod
}

// moduleName matches names of kernel modules.
var moduleName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// loaded reports whether the kernel has the module, loaded or built in. The kernel writes - in a name as _.
func (m *kernelModule) loaded() (bool, error) {
	if !moduleName.MatchString(m.Name) {
		return false, fmt.Errorf("%q is not the name of a kernel module", m.Name)
	}
	folder := cmp.Or(m.SysModule, "/sys/module")
	if _, err := os.Stat(folder); err != nil {
		return false, err
	}
	_, err := os.Stat(filepath.Join(folder, strings.ReplaceAll(m.Name, "-", "_")))
	if errors.Is(err, fs.ErrNotExist) {
		return m.builtIn(), nil
	}
	return err == nil, err
}

// builtIn reports whether the module is a part of the running kernel. The folder /sys/module shows such a module only
// if it has parameters.
func (m *kernelModule) builtIn() bool {
	release, err := os.ReadFile(filepath.Join(cmp.Or(m.ProcSys, "/proc/sys"), "kernel/osrelease"))
	if err != nil {
		return false
	}
	list, err := readLines(filepath.Join(cmp.Or(m.LibModules, "/lib/modules"), strings.TrimSpace(string(release)), "modules.builtin"))
	if err != nil {
		return false
	}
	name := strings.ReplaceAll(m.Name, "-", "_")
	return slices.ContainsFunc(list.lines, func(line string) bool {
		file, _, _ := strings.Cut(path.Base(line), ".ko")
		return strings.ReplaceAll(file, "-", "_") == name
	})
}

// bootFile returns the policy method that keeps the module's line in the boot configuration file. The kernel
// loads the modules in this file at each start.
func (m *kernelModule) bootFile() *fileLines {
	return &fileLines{FileLinesMethod: &model.FileLinesMethod{
		Path: filepath.Join(cmp.Or(m.ModulesFolder, "/etc/modules-load.d"), "60-muster.conf"), Lines: []string{m.Name}, Absent: m.State == "absent",
	}}
}

// check compares the module's state with the declaration, now and for the next start of the machine.
func (m *kernelModule) check(ctx context.Context) (string, error) {
	loaded, err := m.loaded()
	switch {
	case err != nil:
		return "", err
	case loaded && m.State == "absent":
		return fmt.Sprintf("kernel module %s is loaded", m.Name), nil
	case !loaded && m.State != "absent":
		return fmt.Sprintf("kernel module %s is not loaded", m.Name), nil
	}
	return m.bootFile().check(ctx)
}

// apply loads or removes the module, and then changes the file for the next start.
func (m *kernelModule) apply(ctx context.Context) error {
	loaded, err := m.loaded()
	if err != nil {
		return err
	}
	argv := []string{"modprobe", "--", m.Name}
	if m.State == "absent" {
		argv = []string{"modprobe", "-r", "--", m.Name}
	}
	if loaded == (m.State == "absent") {
		code, output, err := runProgram(ctx, m.Runner, argv...)
		if err == nil && code != 0 {
			err = fmt.Errorf("modprobe: %s", lastLine(output))
		}
		if err != nil {
			return err
		}
	}
	if difference, err := m.bootFile().check(ctx); err != nil || difference == "" {
		return err
	}
	return m.bootFile().apply(ctx)
}
