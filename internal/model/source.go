package model

import (
	"fmt"
	"strconv"
	"strings"
)

// SourceKind names a judge of statuses, which opens problems. Its numbers are kept in
// history: one is never used for another kind.
type SourceKind uint8

// SourceCheck is a check: results of agents, keepalives and the server's own events.
const SourceCheck SourceKind = 0

// unnamedSource begins the text of a kind that this release does not know.
const unnamedSource = "source-"

// String returns the kind's word.
func (k SourceKind) String() string {
	if k == SourceCheck {
		return "check"
	}
	return unnamedSource + strconv.Itoa(int(k))
}

// Label names a source of the kind for people: a check by its name, another with its kind before it.
func (k SourceKind) Label(name string) string {
	if k == SourceCheck || name == "" {
		return name
	}
	return k.String() + " " + name
}

// ParseSourceKind reads the texts of String.
func ParseSourceKind(text string) (SourceKind, error) {
	if text == SourceCheck.String() {
		return SourceCheck, nil
	}
	if digits, ok := strings.CutPrefix(text, unnamedSource); ok {
		if n, err := strconv.ParseUint(digits, 10, 8); err == nil {
			return SourceKind(n), nil
		}
	}
	return 0, Errorf(Invalid, "%q is no kind of problem source", text).WithHint("write %s", SourceCheck)
}

// MarshalText writes the kind's word.
func (k SourceKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the texts of MarshalText.
func (k *SourceKind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseSourceKind(string(text))
	return err
}

// Source identifies the origin of a problem on its node. The id is of the source's kind (for a check its
// CheckID); the instance tells apart several findings of one source on one node (a file system, an
// interface, an index), and is empty for checks. Its name is in the directory.
type Source struct {
	Kind     SourceKind `json:"kind"`
	ID       uint32     `json:"id"`
	Instance string     `json:"instance,omitempty"`
}

// CheckSource returns the source of a check's problems.
func CheckSource(id CheckID) Source { return Source{Kind: SourceCheck, ID: uint32(id)} }

// Check returns the check's id; zero where the source is no check.
func (s Source) Check() CheckID {
	if s.Kind != SourceCheck {
		return 0
	}
	return CheckID(s.ID)
}

// PlaceholderName returns a stand-in for the name when the directory has none: check-1234.
func (s Source) PlaceholderName() string { return fmt.Sprintf("%s-%d", s.Kind, s.ID) }
