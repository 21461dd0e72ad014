package model

import (
	"fmt"
	"strings"
)

// NameError returns the error in a name; nil: it is valid.
func NameError(text string) error {
	if text == "" {
		return fmt.Errorf("missing")
	}
	if CleanName(text) == text {
		return nil
	}
	if len(text) > MaxName {
		return fmt.Errorf("longer than %d characters", MaxName)
	}
	return fmt.Errorf("%q is no name: lower-case letters, digits, and . _ - between them", text)
}

// CleanName turns any text into a name: other characters become dashes. It returns "" where nothing is left, and a
// valid name unchanged.
func CleanName(text string) string {
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, text)
	if len(clean) > MaxName {
		clean = clean[:MaxName]
	}
	return strings.Trim(clean, "._-")
}

// LabelError returns the error in a label; nil: it is valid.
func LabelError(key, value string) error {
	switch {
	case !IsLabelName(key):
		return fmt.Errorf("%q is no label's name: letters, digits, and . _ - / between them, at most %d", Shorten(key), MaxText)
	case len(value) > MaxText || HasControl(value):
		return fmt.Errorf("label %s: want one line of at most %d bytes", key, MaxText)
	}
	return nil
}

// IsLabelName reports whether a text may name a label or an annotation.
func IsLabelName(name string) bool {
	if name == "" || len(name) > MaxText {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isAlnum(c) && (i == 0 || i == len(name)-1 || strings.IndexByte("._-/", c) < 0) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// HasControl reports whether a text holds a control character, such as a line break.
func HasControl(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// SplitRef splits a reference of a resource in namespace: NAME for the same namespace, or NAMESPACE/NAME.
func SplitRef(namespace, ref string) (ns, name string) {
	if ns, name, ok := strings.Cut(ref, "/"); ok {
		return ns, name
	}
	return namespace, ref
}

// QualifyRef returns such a reference as NAMESPACE/NAME.
func QualifyRef(namespace, ref string) string {
	ns, name := SplitRef(namespace, ref)
	return ns + "/" + name
}
