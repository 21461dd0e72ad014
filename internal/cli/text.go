package cli

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/model"
)

// clean makes text that others wrote safe for a terminal: control characters (and
// with them every escape sequence) and characters that change the direction of
// writing become visible. Line ends stay if lines is set.
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
			b.WriteRune('\u2400' + r) // a picture of the control character
		default:
			b.WriteRune('\ufffd')
		}
	}
	return b.String()
}

// firstLine is the first line of an output, safe to print.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clean(line, false)
}

// width is how many columns text takes; wide characters of East Asia count two.
func width(text string) int {
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

// cut shortens text to columns, with an ellipsis.
func cut(text string, columns int) string {
	if width(text) <= columns {
		return text
	}
	var b strings.Builder
	used := 0
	for _, r := range text {
		w := width(string(r))
		if used+w > columns-1 {
			break
		}
		b.WriteRune(r)
		used += w
	}
	return b.String() + "…"
}

// until is when something ends: in 3h, expired, never. What was made for a year a moment ago
// ends in 365d.
func (a *app) until(t time.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case !t.After(a.Now()):
		return "expired"
	}
	return "in " + model.RoundTimeSpan(t.Sub(a.Now()))
}
