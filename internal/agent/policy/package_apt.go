package policy

import "strings"

// aptManager is dpkg with apt-get, which waits half a minute for a locked package manager and keeps changed configuration files.
var aptManager = packageManager{
	database: "dpkg-query", query: []string{"-W", "-f", `${db:Status-Status} ${Version}\n`, "--"},
	version: func(_, output string) (string, bool) {
		state, version, _ := strings.Cut(output, " ")
		return version, state == "installed"
	},
	programs: []packageProgram{{
		name: "apt-get", separator: "=",
		install: aptArguments("install", "--"), remove: aptArguments("remove", "--"), versioned: aptArguments("--allow-downgrades", "install", "--"),
	}},
}

// aptArguments returns the arguments for a call of apt-get that asks no questions.
func aptArguments(args ...string) []string {
	return append([]string{"-q", "-y", "-o", "DPkg::Lock::Timeout=30", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"}, args...)
}
