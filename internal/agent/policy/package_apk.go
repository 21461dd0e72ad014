package policy

import "strings"

// apkManager is apk of Alpine Linux.
var apkManager = packageManager{
	database: "apk", query: []string{"info", "-e", "-v", "--"},
	version:  func(name, output string) (string, bool) { return strings.CutPrefix(output, name+"-") },
	programs: []packageProgram{{name: "apk", separator: "=", install: []string{"add", "--"}, remove: []string{"del", "--"}, versioned: []string{"add", "--"}}},
}
