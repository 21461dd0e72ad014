package agentcmd

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// setting is one line of the file of settings.
type setting struct {
	name  string // MUSTER_STATE_DIR
	value string
	flag  *flag.Flag
}

// readSettings reads the file; the error names every line that is wrong.
func readSettings(path string, set *flag.FlagSet) ([]setting, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	settings, err := parseSettings(data, set)
	if err != nil {
		said := model.Errorf(model.Invalid, "settings in %s: %w", path, err)
		return nil, said.WithHint("all settings: muster-agent --help")
	}
	return settings, nil
}

// parseSettings reads lines of NAME=value. Empty lines and lines with # are ignored. A value may be in
// quotes, as in systemd.
func parseSettings(data []byte, set *flag.FlagSet) ([]setting, error) {
	known := map[string]*flag.Flag{}
	set.VisitAll(func(f *flag.Flag) {
		if name := envOf(f); name != "" && name != "MUSTER_CONFIG" {
			known[name] = f
		}
	})
	var out []setting
	var errs []error
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		if !ok {
			errs = append(errs, fmt.Errorf("line %d: %q: want NAME=value", number, text))
			continue
		}
		f := known[name]
		if f == nil {
			errs = append(errs, fmt.Errorf("line %d: there is no setting %s%s", number, name, nearest(name, slices.Sorted(maps.Keys(known)))))
			continue
		}
		out = append(out, setting{name, unquote(strings.TrimSpace(value)), f})
	}
	return out, errors.Join(errs...)
}

// nearest suggests the nearest known name.
func nearest(name string, names []string) string {
	if near := model.Nearest(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// quote protects a value from unquote and TrimSpace.
func quote(s string) string {
	if s != strings.TrimSpace(s) || s != unquote(s) {
		return `"` + s + `"`
	}
	return s
}

const settingsHead = "# Settings of muster-agent; what they mean: muster-agent --help\n"

// changeSettings sets names to values in the text of a file, and removes names with an empty value. Other
// lines stay.
func changeSettings(text string, change map[string]string) string {
	if text == "" {
		text = settingsHead
	}
	done := map[string]bool{}
	var b strings.Builder
	for line := range strings.Lines(text) {
		name, _, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		value, changes := change[name]
		if !ok || !changes {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		} else if value != "" && !done[name] {
			b.WriteString(name + "=" + quote(value) + "\n")
		}
		done[name] = done[name] || ok && changes
	}
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if !done[name] && change[name] != "" {
			b.WriteString(name + "=" + quote(change[name]) + "\n")
		}
	}
	return b.String()
}

// keepSettings changes the file. Only its owner can read it, because it may have a token.
func keepSettings(path string, change map[string]string) error {
	for name, value := range change {
		if strings.ContainsAny(value, "\n\r") {
			return model.Errorf(model.Invalid, "%s has more than one line, and a file of settings cannot hold that", name)
		}
	}
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	after := changeSettings(string(before), change)
	if after == string(before) {
		return nil
	}
	if err := disk.WriteFile(disk.OS{}, filepath.Dir(path), filepath.Base(path), []byte(after)); err != nil {
		return fmt.Errorf("write settings %s: %w", path, err)
	}
	return nil
}
