package policy

import "strings"

// rpmManager is rpm with dnf, yum or zypper. A version is VERSION-RELEASE, with or without its epoch.
var rpmManager = packageManager{
	database: "rpm", arguments: []string{"-q", "--qf", `%{NAME}\t%{ARCH}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\n`, "--"}, missing: "package ",
	parse: func(line string) installedPackage {
		if f := strings.Split(line, "\t"); len(f) == 3 {
			return installedPackage{f[0], f[1], f[2], true}
		}
		return installedPackage{}
	},
	optionalEpoch: true,
	programs: []packageProgram{
		{name: "dnf", separator: "-", install: []string{"-q", "-y", "install", "--"}, remove: []string{"-q", "-y", "remove", "--"}, versioned: []string{"-q", "-y", "install", "--"}},
		{
			name: "zypper", separator: "=", install: []string{"--non-interactive", "install", "--"}, remove: []string{"--non-interactive", "remove", "--"},
			versioned: []string{"--non-interactive", "install", "--oldpackage", "--"},
		},
		{name: "yum", separator: "-", install: []string{"-q", "-y", "install", "--"}, remove: []string{"-q", "-y", "remove", "--"}, versioned: []string{"-q", "-y", "install", "--"}},
	},
}
