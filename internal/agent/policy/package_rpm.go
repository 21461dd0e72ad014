package policy

// rpmManager is rpm with dnf or zypper. A version is VERSION-RELEASE, without an epoch.
var rpmManager = packageManager{
	database: "rpm", query: []string{"-q", "--qf", `%{VERSION}-%{RELEASE}\n`, "--"},
	version: func(_, output string) (string, bool) { return output, true },
	programs: []packageProgram{
		{name: "dnf", separator: "-", install: []string{"-q", "-y", "install", "--"}, remove: []string{"-q", "-y", "remove", "--"}, versioned: []string{"-q", "-y", "install", "--"}},
		{
			name: "zypper", separator: "=", install: []string{"--non-interactive", "install", "--"}, remove: []string{"--non-interactive", "remove", "--"},
			versioned: []string{"--non-interactive", "install", "--oldpackage", "--"},
		},
	},
}
