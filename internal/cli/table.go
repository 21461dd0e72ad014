package cli

import (
	"bufio"
	"io"
	"strings"
)

// table is rows with aligned columns. On a terminal that is too narrow the last column
// is cut first, then what is widest; a column that is kept whole is never cut, because
// people have to type what stands in it.
type table struct {
	head []string
	rows [][]cell
	kept map[string]bool // by heading
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

// leastLast and least are how many columns the last cell and any other keep.
const (
	leastLast = 16
	least     = 12
)

func newTable(head ...string) *table {
	return &table{head: head, kept: map[string]bool{"NAMESPACE": true, "NODE": true, "CHECK": true, "NAME": true, "ID": true, "STATUS": true, "STATE": true, "WHAT": true}}
}

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

// width is how many columns the whole table needs.
func (t *table) width() int {
	sum := 2 * (len(t.head) - 1)
	for i, h := range t.head {
		most := width(h)
		for _, row := range t.rows {
			most = max(most, width(row[i].text))
		}
		sum += most
	}
	return sum
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
	if env.Width > 0 {
		t.fit(widths, env.Width)
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

// fit takes columns away until the table fits, or until nothing more may be taken.
func (t *table) fit(widths []int, room int) {
	last := len(widths) - 1
	over := 2*last - room
	for _, w := range widths {
		over += w
	}
	take := func(i, floor, most int) {
		if n := min(most, widths[i]-floor, over); n > 0 {
			widths[i] -= n
			over -= n
		}
	}
	if !t.kept[t.head[last]] {
		take(last, leastLast, over)
	}
	for over > 0 {
		widest := -1
		for i, w := range widths {
			if !t.kept[t.head[i]] && i != last && w > max(least, width(t.head[i])) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		take(widest, least, 1)
	}
}

func (t *table) writeRow(w io.Writer, env *Env, widths []int, row []cell) {
	var b strings.Builder
	for i, c := range row {
		text := cut(c.text, widths[i])
		b.WriteString(env.paint(c.colour, text))
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-width(text)+2))
		}
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

// narrow is the Env in which tables are cut to the terminal; those of -o wide are not.
func (e *Env) narrow(f format) *Env {
	if f == "wide" {
		whole := *e
		whole.Width = 0
		return &whole
	}
	return e
}
