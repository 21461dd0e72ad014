package loadcmd

import (
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// side is one of those that are compared: which server, and with what settings.
type side struct {
	name    string // of its folder, and of its column
	program string // empty: this one
	flags   []string
}

// newSide reads [NAME:] [PROGRAM] [FLAG…], words between blanks. A relative program is
// one of this folder, or of the PATH.
func newSide(text, name string) (side, error) {
	s := side{name: name}
	words := strings.Fields(text)
	if len(words) > 0 && strings.HasSuffix(words[0], ":") {
		s.name, words = strings.TrimSuffix(words[0], ":"), words[1:]
	}
	if s.name == "" || strings.ContainsFunc(s.name, notInName) || strings.Trim(s.name, ".") == "" {
		return s, model.Errorf(model.Invalid, "--%s %q: %q names no folder: letters, digits, dots, - and _ may stand before the colon", name, text, s.name).WithHint("%s", sideHint)
	}
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		found, err := exec.LookPath(words[0])
		if err == nil {
			found, err = filepath.Abs(found)
		}
		if err != nil {
			return s, model.Errorf(model.NotFound, "--%s %q: %w", name, text, err).WithHint("%s", sideHint)
		}
		s.program, words = found, words[1:]
	}
	s.flags = words
	return s, nil
}

const sideHint = "a side is 'NAME: PROGRAM FLAG…', any of them left out, such as --a 'old: /opt/old/muster' --b 'new: --snapshot-cycle=30s'"

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
}

// String is what the side runs, for people.
func (s side) String() string {
	words := append([]string{s.program}, s.flags...)
	if s.program == "" {
		words[0] = "this program"
	}
	return s.name + ": " + strings.Join(words, " ")
}
