package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns text as one line that is safe for a terminal: it replaces control characters, and so
// escape sequences, and characters that change the direction of writing.
func Clean(text string) string { return clean(text, false) }

// CleanLines is Clean for text of several lines: it keeps their ends.
func CleanLines(text string) string { return clean(text, true) }

func clean(text string, lines bool) string {
	safe := func(r rune) bool {
		return !unicode.IsControl(r) && r != utf8.RuneError && !unicode.Is(unicode.Bidi_Control, r) || lines && r == '\n'
	}
	if strings.IndexFunc(text, func(r rune) bool { return !safe(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case safe(r):
			b.WriteRune(r)
		case r == '\t' || r == '\n':
			b.WriteByte(' ')
		case r == '\r' && lines: // of CR LF
		case r < 0x20:
			b.WriteRune('\u2400' + r) // the picture of the control character
		default:
			b.WriteRune('\ufffd')
		}
	}
	return b.String()
}

// FirstLine returns the first line of an output, cleaned.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return Clean(line)
}

// Indent moves every line of a text two columns to the right and cleans it.
func Indent(text string) string {
	return "  " + strings.ReplaceAll(CleanLines(strings.TrimRight(text, "\n")), "\n", "\n  ")
}

// Width returns the columns that text takes; wide characters of East Asia take two.
func Width(text string) int {
	n := 0
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) || unicode.Is(unicode.Cf, r):
		case r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
			r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0x1f300 && r <= 0x1faff):
			n += 2
		default:
			n++
		}
	}
	return n
}

// Cut shortens text to columns; an ellipsis marks the cut.
func Cut(text string, columns int) string {
	if Width(text) <= columns {
		return text
	}
	var b strings.Builder
	used := 0
	for _, r := range text {
		w := Width(string(r))
		if used+w > columns-1 {
			break
		}
		b.WriteRune(r)
		used += w
	}
	return b.String() + "…"
}

// Pad returns the blanks between the end of text and a column.
func Pad(text string, columns int) string {
	return strings.Repeat(" ", max(columns-Width(text), 0))
}

// Dash returns text, or a dash for an empty one.
func Dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
