package inventory

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of the environment.
const (
	maxVariables     = 128
	maxVariableBytes = 512
)

// secretWords are the parts of names of variables whose values are hidden.
var secretWords = [...]string{"PASS", "PWD", "SECRET", "TOKEN", "KEY", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE", "DSN", "CONNECTION"}

// Environ converts the environment variables of an agent (NAME=VALUE) to inventory entries. The values of secrets are
// hidden. Variables that change with each start are left out.
func Environ(variables []string) (list []Entry) {
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		upper := strings.ToUpper(name)
		switch {
		case upper == "PWD" || upper == "OLDPWD" || name == "_" || name == "INVOCATION_ID" || name == "JOURNAL_STREAM" || name == "SYSTEMD_EXEC_PID":
			continue
		case strings.HasPrefix(upper, strings.ToUpper(model.SecretVariable)), slices.ContainsFunc(secretWords[:], func(word string) bool { return strings.Contains(upper, word) }):
			value = model.RedactedText
		case strings.Contains(value, "://") && strings.Contains(value, "@"): // an address with a password
			value = model.RedactedText
		case len(value) > maxVariableBytes:
			value = value[:maxVariableBytes]
		}
		if list = append(list, New(Environment, name, value)); len(list) == maxVariables {
			break
		}
	}
	return list
}
