package policy

import "regexp"

// apkPackage matches NAME-VERSION, and a version ends in the number of its build.
var apkPackage = regexp.MustCompile(`^(.+?)-([0-9][^-]*(?:-r[0-9]+)?)$`)

// apkManager is apk of Alpine Linux.
var apkManager = packageManager{
	database: "apk", arguments: []string{"info", "-e", "-v", "--"},
	parse: func(line string) installedPackage {
		if f := apkPackage.FindStringSubmatch(line); f != nil {
			return installedPackage{name: f[1], version: f[2], installed: true}
		}
		return installedPackage{}
	},
	programs: []packageProgram{{name: "apk", separator: "=", install: []string{"add", "--"}, remove: []string{"del", "--"}, versioned: []string{"add", "--"}}},
}
