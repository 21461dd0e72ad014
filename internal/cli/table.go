package cli

import (
	"bufio"
	"io"
	"strings"
)

// table is rows with aligned columns. Only the last column is cut to the terminal.
type table struct {
	head []string
	rows [][]cell
}

// cell is one text with the colour it may have: the text alone says everything.
type cell struct {
	text   string
	colour string
}

const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	purple = "\x1b[35m"
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	plain  = "\x1b[0m"
)

func newTable(head ...string) *table { return &table{head: head} }

// add appends a row; each value is a string (cleaned here) or a cell (ours).
func (t *table) add(values ...any) {
	row := make([]cell, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case cell:
			row[i] = cell{clean(v.text, false), v.colour}
		case string:
			row[i] = cell{text: clean(v, false)}
		}
	}
	t.rows = append(t.rows, row)
}

// write prints the table: columns of at most what is needed, two spaces between.
func (t *table) write(env *Env) error {
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = width(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], width(c.text))
		}
	}
	w := bufio.NewWriter(env.Stdout)
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = cell{h, faint}
	}
	t.writeRow(w, env, widths, head)
	for _, row := range t.rows {
		t.writeRow(w, env, widths, row)
	}
	return w.Flush()
}

func (t *table) writeRow(w io.Writer, env *Env, widths []int, row []cell) {
	var b strings.Builder
	used := 0
	for i, c := range row {
		text, last := c.text, i == len(row)-1
		if last && env.Width > 0 {
			text = cut(text, max(env.Width-used, 10))
		}
		b.WriteString(env.paint(c.colour, text))
		if !last {
			b.WriteString(strings.Repeat(" ", widths[i]-width(text)+2))
		}
		used += widths[i] + 2
	}
	_, _ = io.WriteString(w, strings.TrimRight(b.String(), " ")+"\n")
}

// paint colours text if the terminal takes colours.
func (e *Env) paint(colour, text string) string {
	if !e.Colour || colour == "" || text == "" {
		return text
	}
	return colour + text + plain
}
