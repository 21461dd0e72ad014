// Package live shows a load run while it lasts: in a terminal rows that are redrawn in place every second, elsewhere every
// fifth second in a line. The package owns no goroutine; a lock separates samples from messages, which stand
// above the next rows. Start reading at New.
package live

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/muster-fleet/muster/internal/load/report"
)

// View shows the progress of a run on a terminal or in a log.
type View struct {
	Done string // what becomes of results, in one word; default acknowledged

	mu     sync.Mutex
	w      io.Writer
	width  func() int    // of the terminal, in columns; nil: there is none
	before time.Duration // from the beginning until the measurement begins
	length time.Duration // measured, as planned
	drawn  int           // lines on the screen
}

// plainEvery is the number of seconds from one plain line to the next.
const plainEvery = 5

// New returns a view that writes to w; it redraws on a terminal, unless TERM is dumb. before is the time of the run
// before second 0, and length the whole time, or 0 if unknown.
func New(w io.Writer, getenv func(string) string, before, length time.Duration) *View {
	return &View{w: w, before: before, length: length, width: columns(w, getenv)}
}

// columns returns a function for the width of a terminal, or nil if w is none or cannot be redrawn.
func columns(w io.Writer, getenv func(string) string) func() int {
	f, isFile := w.(*os.File)
	if !isFile || getenv("TERM") == "dumb" || getenv("TERM") == "" || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns < 20 {
			return 80
		}
		return columns
	}
}

// Write writes text above the live display and redraws that below. It overwrites the ^C that a terminal shows.
func (v *View) Write(text []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.width == nil {
		return v.w.Write(text)
	}
	v.drawn = 0
	_, err := io.WriteString(v.w, "\r\x1b[K"+string(text))
	return len(text), err
}

// Show shows a second of the run, as load.Config.Progress.
func (v *View) Show(s report.Sample) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.width == nil {
		if s.Second%plainEvery == 0 {
			fmt.Fprintln(v.w, v.line(&s))
		}
		return
	}
	width := v.width()
	lines := v.lines(&s, width)
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	for _, line := range lines {
		b.WriteString("\r" + cut(line, width) + "\x1b[K\n")
	}
	for extra := len(lines); extra < v.drawn; extra++ { // it was higher before
		b.WriteString("\r\x1b[K\n")
	}
	v.drawn = max(v.drawn, len(lines))
	_, _ = io.WriteString(v.w, b.String()) // a terminal that is gone is seen elsewhere
}

// cut shortens a line to the width of the terminal, so that it stays one line.
func cut(line string, width int) string {
	r := []rune(line)
	if len(r) < width {
		return line
	}
	return string(r[:max(0, width-2)]) + "…"
}
