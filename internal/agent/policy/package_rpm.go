package policy

// rpmManager is rpm with dnf, yum or zypper. A version is VERSION-RELEASE, with or without its epoch.
var rpmManager = packageManager{
	database: "rpm", query: []string{"-q", "--qf", `%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\n`, "--"},
	version: func(_, line string) (string, bool) { return line, line != "" }, optionalEpoch: true,
	programs: []packageProgram{
		{name: "dnf", separator: "-", install: []string{"-q", "-y", "install", "--"}, remove: []string{"-q", "-y", "remove", "--"}, versioned: []string{"-q", "-y", "install", "--"}},
		{
			name: "zypper", separator: "=", install: []string{"--non-interactive", "install", "--"}, remove: []string{"--non-interactive", "remove", "--"},
			versioned: []string{"--non-interactive", "install", "--oldpackage", "--"},
		},
		{name: "yum", separator: "-", install: []string{"-q", "-y", "install", "--"}, remove: []string{"-q", "-y", "remove", "--"}, versioned: []string{"-q", "-y", "install", "--"}},
	},
}
