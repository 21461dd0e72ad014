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
	header := func(line string) bool {
		line = strings.TrimSpace(line)
		return strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]")
	}
	if m.Section != "" {
		from = slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "["+m.Section+"]" }) + 1
		if from == 0 {
			return 0, 0, false
		}
	}
	until = len(lines)
	if next := slices.IndexFunc(lines[from:], header); next >= 0 {
		until = from + next
	}
	return from, until, true
}

// value returns the value in a line that sets the key. ok is false for any other line.
func (m *fileIni) value(line string) (value string, ok bool) {
	key, value, ok := strings.Cut(line, "=")
	return strings.TrimSpace(value), ok && strings.TrimSpace(key) == m.Key
}

// check compares the key's value in each line of the section with the declared value.
func (m *fileIni) check(context.Context) (string, error) {
	if strings.ContainsAny(m.Section+m.Key+m.Value, "\r\n") {
		return "", fmt.Errorf("section, key or value of %s has a line break", m.Path)
	}
	data, err := readRegular(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return m.Path + " does not exist", nil
	}
	if err != nil {
		return "", err
	}
	lines := splitLines(data)
	from, until, ok := m.section(lines)
	if !ok {
		return fmt.Sprintf("%s has no section [%s]", m.Path, m.Section), nil
	}
	found := false
	for _, line := range lines[from:until] {
		if value, ok := m.value(line); ok {
			if found = true; value != m.Value {
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
	data, err := readRegular(m.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := splitLines(data)
	from, until, ok := m.section(lines)
	if !ok {
		lines = append(lines, "["+m.Section+"]")
		from, until = len(lines), len(lines)
	}
	setting, found := m.Key+" = "+m.Value, false
	for i := from; i < until; i++ {
		if value, ok := m.value(lines[i]); ok {
			if found = true; value != m.Value {
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
	return writeAtomically(m.Path, joinLines(lines), m.newMode)
}
