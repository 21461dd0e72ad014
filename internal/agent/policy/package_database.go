package policy

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/agent/run"
)

// packageName matches names of packages, with an architecture.
var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9-]+)?$`)

// packageVersion matches versions of packages.
var packageVersion = regexp.MustCompile(`^[A-Za-z0-9.+~:_^-]*$`)

const (
	packagesPerQuery = 500     // names in the arguments of one program
	queryBytes       = 1 << 20 // of its output
)

// PackageDatabase keeps the installed versions of packages for the runs of all directives. One program answers for all packages
// of a run. A later run asks again if the files of the database changed. One run at a time uses it. The zero value is ready.
type PackageDatabase struct {
	stamp    string              // of the files at the first answer; empty: unknown
	versions map[string][]string // by name as declared; no versions: not installed
	queried  map[string]bool     // names that a query of several packages had
}

// newRun forgets the answers if the files of the database have changed, or if their stamp is unknown.
func (d *PackageDatabase) newRun(stamp string) {
	if stamp == "" || stamp != d.stamp {
		d.forget()
		d.stamp = stamp
	}
}

// forget removes all answers, because packages may have changed.
func (d *PackageDatabase) forget() { d.versions, d.queried = nil, nil }

// packageDatabase returns the valid answers of earlier runs and components.
func (r *directiveRun) packageDatabase() *PackageDatabase {
	if r.packages == nil {
		if r.packages = r.Packages; r.packages == nil {
			r.packages = &PackageDatabase{}
		}
		stamp := ""
		if r.PackageStamp != nil {
			stamp = r.PackageStamp()
		}
		r.packages.newRun(stamp)
	}
	return r.packages
}

// installedVersions returns the installed versions of a package. A version stands for each architecture, and a kernel may have
// several. The first call asks the package manager for all packages of the directive.
func (r *directiveRun) installedVersions(ctx context.Context, manager *packageManager, name string) ([]string, error) {
	d := r.packageDatabase()
	if versions, ok := d.versions[name]; ok {
		return versions, nil
	}
	if d.versions == nil {
		d.versions, d.queried = map[string][]string{}, map[string]bool{}
	}
	if !d.queried[name] {
		names := append(r.packageNames(), name)
		names = slices.DeleteFunc(names, func(name string) bool { return d.queried[name] || !packageName.MatchString(name) })
		slices.Sort(names)
		for names := range slices.Chunk(slices.Compact(names), packagesPerQuery) {
			code, output, err := manager.query(ctx, r.Runner, names)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				d.queried[name] = true
			}
			manager.readAnswers(names, code, output, d.versions)
		}
		if versions, ok := d.versions[name]; ok {
			return versions, nil
		}
	}
	code, output, err := manager.query(ctx, r.Runner, []string{name}) // such as NAME.ARCH of rpm
	if err == nil && code > 1 {
		err = fmt.Errorf("%s: %s", manager.database, lastLine(output))
	}
	if err != nil {
		return nil, err
	}
	var versions []string
	for line := range strings.Lines(output) {
		if p := manager.parse(strings.TrimSpace(line)); p.installed && code == 0 && (manager.missing != "" || p.name == name) {
			versions = append(versions, p.version)
		}
	}
	d.versions[name] = versions
	return versions, nil
}

// packageNames returns the names of all packages of the directive.
func (r *directiveRun) packageNames() (names []string) {
	for i := range r.definition.Components {
		if c := &r.definition.Components[i]; c.Method == "package" {
			if m, err := c.Expand(r.values); err == nil {
				names = append(names, m.Package.Name)
			}
		}
	}
	return names
}

// query runs the program that lists installed packages.
func (m *packageManager) query(ctx context.Context, r *run.Runner, names []string) (code int, output string, err error) {
	return runCommand(ctx, r, run.Command{
		Argv: slices.Concat([]string{m.database}, m.arguments, names), Env: map[string]string{"LC_ALL": "C"}, MaxOutput: queryBytes,
	})
}

// readAnswers stores the versions of the packages in the answer to a query of several names. A name that the answer
// does not cover gets no entry.
func (m *packageManager) readAnswers(names []string, code int, output string, versions map[string][]string) {
	found, missing := map[string][]installedPackage{}, map[string]bool{}
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if p := m.parse(line); p.name != "" {
			for _, name := range []string{p.name, p.name + ":" + p.arch} {
				if !slices.Contains(found[name], p) { // of the names p and p:amd64
					found[name] = append(found[name], p)
				}
			}
		} else if _, name, ok := strings.Cut(line, m.missing); ok && m.missing != "" {
			missing[strings.TrimSuffix(name, " is not installed")] = true
		}
	}
	if m.missing == "" {
		for _, name := range names {
			missing[name] = found[name] == nil
		}
	}
	failed := 0
	for _, name := range names {
		if missing[name] {
			failed++
		}
	}
	if code > max(1, failed) { // rpm and apk return the number of missing packages
		return
	}
	for _, name := range names {
		if missing[name] {
			versions[name] = nil
		} else if found[name] != nil {
			versions[name] = []string{}
			for _, p := range found[name] {
				if p.installed {
					versions[name] = append(versions[name], p.version)
				}
			}
		}
	}
}
