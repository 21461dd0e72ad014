package inventory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
)

// packages returns the inventory entries of the installed packages, of all package managers.
func (m *Machine) packages(ctx context.Context) []inventory.Entry {
	states := m.fileText("var/lib/dpkg/status")
	for _, name := range m.fileNames("var/lib/dpkg/updates") { // changes that dpkg writes to its status file at the end of its run
		states += "\n\n" + m.fileText("var/lib/dpkg/updates/"+name)
	}
	list := debPackages(states)
	for _, name := range m.fileNames("var/lib/dpkg/status.d") { // images without dpkg
		if !strings.HasSuffix(name, ".md5sums") {
			list = append(list, debPackages("Status: install ok installed\n"+m.fileText("var/lib/dpkg/status.d/"+name))...)
		}
	}
	for _, file := range []string{"lib/apk/db/installed", "usr/lib/apk/db/installed"} {
		if text := m.fileText(file); text != "" {
			list = append(list, apkPackages(text)...)
			break // one is a link to the other
		}
	}
	for _, file := range packageFiles {
		if strings.Contains(file, "/rpm/") && m.fileExists(file) {
			return append(list, m.rpmPackages(ctx)...)
		}
	}
	return list
}

// debPackages returns the inventory entries of the packages that dpkg's status file lists as installed. A later state
// of a package replaces an earlier one.
func debPackages(states string) (list []inventory.Entry) {
	installed := map[[2]string]string{} // version by name and architecture; empty: not installed
	for paragraph := range strings.SplitSeq(states, "\n\n") {
		var key [2]string
		var version string
		isInstalled := false
		for line := range strings.Lines(paragraph) {
			field, value, _ := strings.Cut(line, ": ")
			switch value = strings.TrimSpace(value); field {
			case "Package":
				key[0] = value
			case "Status":
				isInstalled = strings.HasSuffix(value, " installed")
			case "Version":
				version = value
			case "Architecture":
				key[1] = value
			}
		}
		if !isInstalled {
			version = ""
		}
		installed[key] = version
	}
	for key, version := range installed {
		if version != "" {
			list = append(list, inventory.New(inventory.Packages, key[0], version, key[1], inventory.Deb))
		}
	}
	return list
}

// apkPackages returns the inventory entries of the packages in apk's list.
func apkPackages(installed string) (list []inventory.Entry) {
	for paragraph := range strings.SplitSeq(installed, "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(paragraph) {
			if key, value, ok := strings.Cut(line, ":"); ok && len(key) == 1 && fields[key] == "" {
				fields[key] = strings.TrimSpace(value)
			}
		}
		list = append(list, inventory.New(inventory.Packages, fields["P"], fields["V"], fields["A"], inventory.APK))
	}
	return list
}

const (
	rpmTimeout  = time.Minute
	rpmMaxBytes = 4 << 20
	// rpmFormat prints a package as rpmPackages reads it.
	rpmFormat = `%{NAME}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\t%{ARCH}\n`
)

// rpmPackages returns the inventory entries of the packages that rpm lists.
func (m *Machine) rpmPackages(ctx context.Context) (list []inventory.Entry) {
	r := m.Runner.Run(ctx, run.Command{Argv: []string{"rpm", "-qa", "--qf", rpmFormat}, Timeout: rpmTimeout, MaxOutput: rpmMaxBytes})
	if r.Status != model.OK || r.Cut > 0 {
		m.Warn("inventory lacks the packages of rpm: rpm -qa: " + firstLine(r.Output))
		return nil
	}
	for line := range strings.Lines(string(r.Output)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 && f[0] != "gpg-pubkey" {
			list = append(list, inventory.New(inventory.Packages, f[0], f[1], f[2], inventory.RPM))
		}
	}
	return list
}

// firstLine returns the first line of a program's output.
func firstLine(output []byte) string {
	line, _, _ := strings.Cut(string(output), "\n")
	return line
}

// maxProperties bounds the properties of all scripts.
const maxProperties = 1000

// customProperties returns the inventory entries from the operator's scripts. Each script prints a JSON object of properties.
func (m *Machine) customProperties(ctx context.Context) (list []inventory.Entry) {
	for _, script := range m.scripts() {
		r := m.Runner.Run(ctx, run.Command{Argv: []string{script}, Timeout: scriptTimeout, MaxOutput: 64 << 10})
		if r.Status != model.OK || r.Cut > 0 {
			m.Warn("inventory script " + script + " failed: " + firstLine(r.Output))
			continue
		}
		properties, err := decodeProperties(r.Output)
		if err != nil {
			m.Warn("inventory script " + script + " did not print a JSON object: " + err.Error())
			continue
		}
		if list = append(list, properties...); len(list) > maxProperties {
			m.Warn("inventory scripts print more than 1000 properties: the others are left out")
			return list[:maxProperties]
		}
	}
	return list
}

// decodeProperties decodes a script's output to inventory entries, sorted by name. Texts stay as they are, other
// values become JSON.
func decodeProperties(output []byte) (list []inventory.Entry, err error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(output, &object); err != nil {
		return nil, err
	}
	for name, value := range object {
		text := string(value)
		var plain string
		if json.Unmarshal(value, &plain) == nil {
			text = plain
		}
		list = append(list, inventory.New(inventory.Custom, name, text))
	}
	slices.Sort(list)
	return list, nil
}
