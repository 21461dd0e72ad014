package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/model"
)

// packageManager describes how to query, install and remove packages with one package manager, such as apt.
type packageManager struct {
	database  string   // the program that knows the installed packages
	arguments []string // its arguments before the names
	// parse returns the package of a line of the database's answer. Another line has no package.
	parse func(line string) installedPackage
	// missing comes before the name in a line about a package that is not installed; empty: no such lines.
	missing string
	// optionalEpoch says that a declared version may lack the epoch of the installed version.
	optionalEpoch bool

	// The programs that change packages, in order of preference: a machine uses the first that it has.
	programs []packageProgram
}

// installedPackage is a package in the database's answer. A removed package that left its settings is not installed.
type installedPackage struct {
	name, arch, version string
	installed           bool
}

// packageProgram is a program that installs and removes packages.
type packageProgram struct {
	name            string
	install, remove []string // arguments before the name
	versioned       []string // arguments of install before a name with a version
	separator       string   // between name and version
}

// packageManagers are the known ones; a machine has the first whose database it has. A machine with dpkg may have rpm, too, to read foreign
// packages.
var packageManagers = []packageManager{aptManager, rpmManager, apkManager}

// packagePresence is the policy method that requires a package to be installed, or not to be installed. It may
// require a certain version.
type packagePresence struct {
	run *directiveRun
	*model.PackageMethod
}

// findProgram returns the first of several program names that exists in the runner's PATH.
func findProgram(r *run.Runner, names ...string) (string, bool) {
	path := os.Getenv("PATH")
	for _, variable := range r.Environ {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			path = value
		}
	}
	for _, name := range names {
		for _, folder := range filepath.SplitList(path) {
			if _, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
				return name, true
			}
		}
	}
	return "", false
}

// manager returns the machine's package manager, such as apt.
func (m *packagePresence) manager() (*packageManager, error) {
	for i := range packageManagers {
		if _, ok := findProgram(m.run.Runner, packageManagers[i].database); ok {
			return &packageManagers[i], nil
		}
	}
	return nil, errors.New("the machine has none of dpkg-query, rpm and apk")
}

// check asks the package database for the state and version of the package.
func (m *packagePresence) check(ctx context.Context) (string, error) {
	if !packageName.MatchString(m.Name) || !packageVersion.MatchString(m.Version) {
		return "", fmt.Errorf("%q is not a name and version of a package", strings.TrimSpace(m.Name+" "+m.Version))
	}
	manager, err := m.manager()
	if err != nil {
		return "", err
	}
	versions, err := m.run.installedVersions(ctx, manager, m.Name)
	if err != nil {
		return "", err
	}
	switch {
	case m.State == "absent" && len(versions) > 0:
		return fmt.Sprintf("package %s %s is installed", m.Name, strings.Join(versions, ", ")), nil
	case m.State == "absent":
		return "", nil
	case len(versions) == 0:
		return fmt.Sprintf("package %s is not installed", m.Name), nil
	case m.Version != "" && !slices.ContainsFunc(versions, func(version string) bool { return manager.isVersion(version, m.Version) }):
		return fmt.Sprintf("package %s has version %s, not %s", m.Name, strings.Join(versions, ", "), m.Version), nil
	}
	return "", nil
}

// isVersion reports whether an installed version is the declared version.
func (m *packageManager) isVersion(installed, declared string) bool {
	_, plain, hasEpoch := strings.Cut(installed, ":")
	return installed == declared || m.optionalEpoch && hasEpoch && plain == declared
}

// apply installs or removes the package.
func (m *packagePresence) apply(ctx context.Context) error {
	manager, err := m.manager()
	if err != nil {
		return err
	}
	names := make([]string, len(manager.programs))
	for i := range manager.programs {
		names[i] = manager.programs[i].name
	}
	name, ok := findProgram(m.run.Runner, names...)
	if !ok {
		return fmt.Errorf("the machine has %s to list packages, but not %s to install packages", manager.database, strings.Join(names, ", "))
	}
	program := manager.programs[slices.Index(names, name)]
	args, of := program.install, m.Name
	switch {
	case m.State == "absent":
		args = program.remove
	case m.Version != "":
		args, of = program.versioned, m.Name+program.separator+m.Version
	}
	code, output, err := runProgram(ctx, m.run.Runner, slices.Concat([]string{name}, args, []string{of})...)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: %s", name, lastLine(output))
	}
	return err
}
