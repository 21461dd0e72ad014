package run

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// AllowList is the list of programs that may run on the machine (setting --allow-commands). No server can add to it. A nil
// Allow allows all. It is immutable.
//
// Of a program with arguments only the program is checked: its absolute path, or its name as the agent's
// own PATH resolves it. The arguments are free: do not list programs that run other programs (sh, env,
// find, sudo). A shell line that is only a program with arguments is split and runs without a shell; any
// other line must be listed whole.
type AllowList struct {
	programs []string // patterns of path.Match: absolute, or names without a slash
	lines    []string // whole lines for the shell
	env      []string // patterns of names that a check may set
}

// envEntry begins an entry that is the pattern of a variable's name.
const envEntry = "env:"

// ParseAllowList parses the list of allowed programs. An entry is a PATTERN, a whole shell line (with a blank in it), or
// env:PATTERN. It returns nil for an empty list.
func ParseAllowList(entries []string) (*AllowList, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	a := &AllowList{}
	for _, entry := range entries {
		pattern, isEnv := strings.CutPrefix(entry, envEntry)
		switch {
		case isEnv:
			a.env = append(a.env, pattern)
		case strings.ContainsAny(entry, " \t"):
			a.lines = append(a.lines, entry)
			continue
		case strings.Contains(entry, "/") && (!path.IsAbs(entry) || path.Clean(entry) != entry):
			return nil, model.Errorf(model.Invalid, "allowed program %q: expected a program name or an absolute path without . and ..", entry)
		default:
			a.programs = append(a.programs, pattern)
		}
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return nil, model.Errorf(model.Invalid, "allowed program %q is not a valid glob pattern", entry).WithHint("* matches any characters except /, ? one character, [a-z] one of these")
		}
	}
	return a, nil
}

// checkAllowed finds the path of a command's program, and refuses programs outside the list of allowed programs. The
// refusal is an error text. ownPath is the agent's PATH: a check's own PATH must not change the program that a name
// resolves to.
func (a *AllowList) checkAllowed(c Command, ownPath string) (_ Command, refused string) {
	if a == nil {
		return c, ""
	}
	if c.Stdin != "" { // many programs execute their input
		return c, "programs get no standard input"
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if !matchesAny(a.env, name) {
			return c, fmt.Sprintf("the variable %s is not on the list (%s%s)", name, envEntry, name)
		}
	}
	if c.Argv == nil {
		if slices.Contains(a.lines, c.Shell) {
			return c, ""
		}
		argv, plain := splitPlainLine(c.Shell)
		if !plain {
			return c, fmt.Sprintf("the shell command %q is not on the list, and it is more than a program with arguments", model.Truncate(c.Shell, 120))
		}
		c.Argv, c.Shell = argv, ""
	}
	if len(c.Argv) == 0 || !a.allowsProgram(c.Argv[0], ownPath) {
		name := ""
		if len(c.Argv) > 0 {
			name = c.Argv[0]
		}
		return c, fmt.Sprintf("the program %q is not on the list", model.Truncate(name, 120))
	}
	return c, ""
}

// allowsProgram reports whether the list of allowed programs contains a program. Names resolve by the agent's own
// PATH.
func (a *AllowList) allowsProgram(name, ownPath string) bool {
	if !strings.ContainsRune(name, filepath.Separator) {
		if matchesAny(a.programs, name) {
			return true
		}
		found, err := lookPath(name, ownPath)
		return err == nil && matchesAny(a.programs, found)
	}
	if !filepath.IsAbs(name) || filepath.Clean(name) != name {
		return false
	}
	if matchesAny(a.programs, name) {
		return true
	}
	found, err := lookPath(filepath.Base(name), ownPath)
	return err == nil && found == name && matchesAny(a.programs, filepath.Base(name))
}

// matchesAny reports whether a name matches one of the glob patterns.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// splitPlainLine splits a shell line without shell syntax into words. Quotes are permitted. Such a line can run
// without a shell. It returns false for any other line.
func splitPlainLine(line string) (words []string, ok bool) {
	const signs = "_@%+:,./-"
	word, in := "", false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t':
			if in {
				words, word, in = append(words, word), "", false
			}
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, false
			}
			word, in = word+line[i+1:i+1+end], true
			i += end + 1
		case c == '=' && len(words) == 0: // A=b program: a variable
			return nil, false
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '=' || strings.IndexByte(signs, c) >= 0:
			word, in = word+string(c), true
		default:
			return nil, false
		}
	}
	if in {
		words = append(words, word)
	}
	return words, len(words) > 0
}
