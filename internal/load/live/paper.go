package live

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Paper is w; where that is a terminal, lines that are too long for it break between words.
func Paper(w io.Writer, getenv func(string) string) io.Writer {
	if width := columns(w, getenv); width != nil {
		return &paper{w, width}
	}
	return w
}

// Columns is how wide the terminal is that w is; 0: it is none.
func Columns(w io.Writer, getenv func(string) string) int {
	if width := columns(w, getenv); width != nil {
		return width()
	}
	return 0
}

type paper struct {
	w     io.Writer
	width func() int
}

// Write takes whole lines.
func (p *paper) Write(text []byte) (int, error) {
	_, err := io.WriteString(p.w, wrap(string(text), p.width()))
	return len(text), err
}

// besideNames is where what a row says begins, in summaries of runs: "  %-16s %s".
const besideNames = 19

// wrap breaks lines at spaces. What follows stands under what the row says, where there is room.
func wrap(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		indent := 2
		switch {
		case strings.HasPrefix(line, "  ! "):
			indent = 4
		case strings.HasPrefix(line, "  ") && width >= 3*besideNames:
			indent = besideNames
		}
		for utf8.RuneCountInString(strings.TrimRight(line, "\n")) > width {
			end := breakAt(line, width, indent)
			if end < 0 {
				break
			}
			b.WriteString(strings.TrimRight(line[:end], " ") + "\n")
			line = strings.Repeat(" ", indent) + strings.TrimLeft(line[end:], " ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// breakAt is the last space of a line up to a width, or the first one behind it; negative: there is
// none but those at its beginning.
func breakAt(line string, width, indent int) int {
	at, column := -1, 0
	for i, r := range line {
		if column > width && at >= 0 {
			break
		}
		if r == ' ' && column > indent {
			at = i
		}
		column++
	}
	return at
}
