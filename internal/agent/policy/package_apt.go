package policy

import "strings"

// aptManager is dpkg with apt-get, which waits half a minute for a locked package manager and keeps changed configuration files.
var aptManager = packageManager{
	database: "dpkg-query", arguments: []string{"-W", "-f", `${Package}\t${Architecture}\t${Version}\t${db:Status-Status}\n`, "--"}, missing: "no packages found matching ",
	parse: func(line string) installedPackage {
		if f := strings.Split(line, "\t"); len(f) == 4 {
			return installedPackage{f[0], f[1], f[2], f[3] == "installed"}
		}
		return installedPackage{}
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
