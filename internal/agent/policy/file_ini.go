package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// fileIni is the policy method for one setting, a key with its value, in an ini file.
type fileIni struct {
	*model.FileIniMethod
	newMode fs.FileMode
}

// section returns the line range of the section in the ini file. The range begins after the section's header and ends
// before the next header. ok is false where the file has no such section.
func (m *fileIni) section(lines []string) (from, until int, ok bool) {
	if m.Section != "" {
		from = slices.IndexFunc(lines, func(line string) bool { return iniHeader(line) == "["+strings.TrimSpace(m.Section)+"]" }) + 1
		if from == 0 {
			return 0, 0, false
		}
	}
	until = len(lines)
	if next := slices.IndexFunc(lines[from:], func(line string) bool { return iniHeader(line) != "" }); next >= 0 {
		until = from + next
	}
	return from, until, true
}

// iniHeader returns the header of a section, such as [main], from a line. A comment behind the header is left out. The
// result is empty for any other line.
func iniHeader(line string) string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "[") {
		return ""
	}
	if end := strings.IndexByte(line, ']'); end >= 0 {
		if rest := strings.TrimSpace(line[end+1:]); strings.HasPrefix(rest, ";") || strings.HasPrefix(rest, "#") {
			return line[:end+1]
		}
	}
	if strings.HasSuffix(line, "]") {
		return line
	}
	return ""
}

// value returns the value in a line that sets the key. ok is false for any other line.
func (m *fileIni) value(line string) (value string, ok bool) {
	key, value, ok := strings.Cut(line, "=")
	return strings.TrimSpace(value), ok && strings.TrimSpace(key) == strings.TrimSpace(m.Key)
}

// check compares the key's value in each line of the section with the declared value.
func (m *fileIni) check(context.Context) (string, error) {
	if strings.TrimSpace(m.Key) == "" || strings.ContainsAny(m.Section+m.Key+m.Value, "\r\n") {
		return "", fmt.Errorf("the key of %s is empty, or section, key or value has a line break", m.Path)
	}
	f, err := readLines(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return m.Path + " does not exist", nil
	}
	if err != nil {
		return "", err
	}
	from, until, ok := m.section(f.lines)
	if !ok {
		return fmt.Sprintf("%s has no section [%s]", m.Path, m.Section), nil
	}
	found := false
	for _, line := range f.lines[from:until] {
		if value, ok := m.value(line); ok {
			if found = true; value != strings.TrimSpace(m.Value) {
				return fmt.Sprintf("%s: %s is %q, not %q", m.Path, m.Key, model.Truncate(value, 200), m.Value), nil
			}
		}
	}
	if !found {
		return fmt.Sprintf("%s has no key %s in section [%s]", m.Path, m.Key, m.Section), nil
	}
	return "", nil
}

// apply replaces the section's lines with the key, or adds such a line. A new line follows the section's last line
// that is not empty.
func (m *fileIni) apply(context.Context) error {
	f, err := readLines(m.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := f.lines
	from, until, ok := m.section(lines)
	if !ok {
		lines = append(lines, "["+m.Section+"]")
		from, until = len(lines), len(lines)
	}
	setting, found := m.Key+" = "+m.Value, false
	for i := from; i < until; i++ {
		if value, ok := m.value(lines[i]); ok {
			if found = true; value != strings.TrimSpace(m.Value) {
				lines[i] = setting
			}
		}
	}
	if !found {
		for until > from && strings.TrimSpace(lines[until-1]) == "" {
			until--
		}
		lines = slices.Insert(lines, until, setting)
	}
	return writeAtomically(m.Path, f.content(lines), m.newMode)
}
