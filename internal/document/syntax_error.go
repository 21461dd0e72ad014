package document

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// notYAML explains a syntax error of the YAML library: text for people, and a hint.
func notYAML(message string, line []byte) (text, hint string) {
	text = "not YAML: " + message
	indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	switch {
	case bytes.IndexByte(indent, '\t') >= 0 && (strings.Contains(message, "cannot start any token") || strings.Contains(message, "tab character")):
		return "not YAML: this line is indented with a TAB", "indent with spaces"
	case strings.Contains(message, "tab character"):
		hint = "put spaces in the place of TABs"
	case strings.Contains(message, "cannot start any token"):
		hint = "quote text that begins with a special character"
	case strings.Contains(message, "did not find expected"), strings.Contains(message, "mapping values are not allowed"):
		hint = "look at quotes and indentation, here and in the line above; text with quotes, : or # goes between single quotes"
	}
	return text, hint
}

// lineOf returns a line, counted from 1; nil: there is none.
func lineOf(data []byte, number int) []byte {
	for line := range bytes.Lines(data) {
		if number--; number == 0 {
			return line
		}
	}
	return nil
}

// notText finds the first byte that text cannot hold, in a program or an archive.
func notText(data []byte) (at place, hint string) {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		for i := 0; i < len(line); {
			r, size := utf8.DecodeRune(line[i:])
			bad := r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f
			if broken := r == utf8.RuneError && size < 2; bad || broken {
				return place{number, i + 1}, fmt.Sprintf("it has the byte 0x%02x there: is it the right file? Text is written in UTF-8", line[i])
			}
			i += size
		}
	}
	return place{}, ""
}
