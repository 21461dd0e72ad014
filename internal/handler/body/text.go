package body

import (
	"strings"
	"unicode/utf8"
)

// Mark stands where something was cut away.
const Mark = "… (cut)"

// Cut is the text in at most n bytes, with a mark if it was longer.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := max(0, n-len(Mark))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + Mark
}

// Clean leaves no control characters but line ends, and valid UTF-8.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Line is a text that cannot begin another line or header.
func Line(s string) string { return strings.TrimSpace(strings.ReplaceAll(Clean(s), "\n", " ")) }
