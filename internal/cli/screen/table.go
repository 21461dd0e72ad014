package screen

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Columns has the names of a table's columns. A column with an empty name is hidden.
type Columns []string

// SplitColumns splits a text with the names of table columns at bars, such as NODE|CHECK|BY WEEK
func SplitColumns(names string) Columns { return strings.Split(names, "|") }

// HideUnless hides the named columns if show is false, and returns the changed list of columns.
func (c Columns) HideUnless(show bool, names ...string) Columns {
	for i, name := range c {
		if !show && slices.Contains(names, name) {
			c[i] = ""
		}
	}
	return c
}

// ValueIf returns the value for a table cell if show is true, else nil (an empty cell).
func ValueIf(show bool, value any) any {
	if show {
		return value
	}
	return nil
}

// Table holds the header and rows of a table with aligned columns. On a narrow terminal the last column is cut first,
// then the widest ones. Where that is too little, the least important columns go and cells are cut shorter.
type Table struct {
	head []string
	rows [][]Cell
}

// uncut are the columns with text that people type again, and with times. They are never cut.
var uncut = [...]string{"NAMESPACE", "NODE", "CHECK", "SOURCE", "NAME", "ID", "PROBLEM", "STATUS", "STATE", "EVENT", "KEY", "TEMPLATE", "SERIES", "GROUP", "HANDLER", "DIRECTIVE", "POLICY", "RULE", "REQUEST",
	"ROUTE", "USER", "QUEUE", "WORST NODE", "FIRST", "LAST", "TIME", "AGE", "OPENED"}

// isNeverCutColumn reports whether a column's cells are never truncated, such as names and times.
func isNeverCutColumn(name string) bool { return slices.Contains(uncut[:], name) }

const (
	minLast  = 16 // columns that the last cell keeps
	minOther = 12 // columns that every other cell keeps
	minTight = 6  // columns that each cell keeps in a table without room
	padding  = 80 // columns to which cells are padded in a table without a width
)

// leastImportant are the columns that a table without room leaves out, one by one.
var leastImportant = [...]string{"CHANGED", "CHANGES", "LASTED", "BY WEEK"}

// NewTable makes a table for terminal output with one row for each element of a list. row returns a string, a
// Cell or a number for each column, and nil or an empty string for a dash.
func NewTable[T any](items []T, columns Columns, row func(T) []any) *Table {
	hidden := func(name string) bool { return name == "" }
	t := &Table{head: slices.DeleteFunc(slices.Clone(columns), hidden)}
	for _, item := range items {
		var cells []Cell
		for i, value := range row(item) {
			if hidden(columns[i]) {
				continue
			}
			switch v := value.(type) {
			case nil:
				cells = append(cells, Cell{Text: DashIfEmpty("")})
			case Cell:
				cells = append(cells, Cell{DashIfEmpty(CleanLine(v.Text)), v.Colour})
			default:
				cells = append(cells, Cell{Text: DashIfEmpty(CleanLine(fmt.Sprint(v)))})
			}
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// DropLast removes the last column from the table.
func (t *Table) DropLast() { t.drop(len(t.head) - 1) }

// drop removes a column from the table.
func (t *Table) drop(column int) {
	t.head = slices.Delete(slices.Clone(t.head), column, column+1)
	for i := range t.rows {
		t.rows[i] = slices.Delete(slices.Clone(t.rows[i]), column, column+1)
	}
}

// Width returns the terminal columns that the whole table needs.
func (t *Table) Width() int {
	sum := 2 * (len(t.head) - 1)
	for _, w := range t.columnWidths() {
		sum += w
	}
	return sum
}

// columnWidths returns the width that each column needs without cuts.
func (t *Table) columnWidths() []int {
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = TextWidth(h)
		for _, row := range t.rows {
			widths[i] = max(widths[i], TextWidth(row[i].Text))
		}
	}
	return widths
}

// Write writes the table with two blanks between columns, cut to the width of the terminal. -o wide cuts nothing, and
// then a longer text moves the rest of its own row alone.
func (t *Table) Write(s *Screen) error {
	widths := t.columnWidths()
	whole := s.Width == 0 || s.Format == Wide
	if !whole {
		fits := t.narrowColumns(widths, s.Width, minLast, minOther)
		for _, name := range leastImportant {
			if i := slices.Index(t.head, name); !fits && i >= 0 {
				t.drop(i)
				widths = t.columnWidths()
				fits = t.narrowColumns(widths, s.Width, minLast, minOther)
			}
		}
		if !fits {
			t.narrowColumns(widths, s.Width, minTight, minTight)
		}
	}
	w := bufio.NewWriter(s.Out)
	head := make([]Cell, len(t.head))
	for i, h := range t.head {
		head[i] = Cell{h, Faint}
	}
	if !s.NoHeaders {
		writeRow(w, s, widths, head, whole)
	}
	for _, row := range t.rows {
		writeRow(w, s, widths, row, whole)
	}
	return w.Flush()
}

// narrowColumns narrows columns to the width of the terminal, and returns false where that is too little. The last column keeps
// keepLast columns, and each other one keepOther.
func (t *Table) narrowColumns(widths []int, columns, keepLast, keepOther int) bool {
	last := len(widths) - 1
	excess := 2*last - columns
	for _, w := range widths {
		excess += w
	}
	narrow := func(i, floor, most int) {
		if n := min(most, widths[i]-floor, excess); n > 0 {
			widths[i] -= n
			excess -= n
		}
	}
	if !isNeverCutColumn(t.head[last]) {
		narrow(last, max(keepLast, TextWidth(t.head[last])), excess)
	}
	for excess > 0 {
		widest := -1
		for i, w := range widths {
			if !isNeverCutColumn(t.head[i]) && i != last && w > max(keepOther, TextWidth(t.head[i])) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		narrow(widest, keepOther, 1)
	}
	return true
}

// writeRow writes one row of a table, each cell padded to the width of its column. With whole, no cell is cut or padded
// beyond the limit of padding.
func writeRow(w io.Writer, s *Screen, widths []int, row []Cell, whole bool) {
	var b strings.Builder
	for i, c := range row {
		column := widths[i]
		if whole {
			column = min(column, padding)
		} else {
			c.Text = CutToWidth(c.Text, column)
		}
		b.WriteString(s.Paint(c))
		if i < len(row)-1 {
			b.WriteString(PadToColumn(c.Text, max(column, TextWidth(c.Text))+2))
		}
	}
	_, _ = io.WriteString(w, strings.TrimRight(b.String(), " ")+"\n")
}

// CleanLine turns a text into one line that is safe to print on a terminal. It replaces line ends, control characters and
// characters that change the writing direction.
func CleanLine(text string) string { return cleanText(text, false) }

// CleanLines makes a text of several lines safe to print on a terminal. It works like Clean, and keeps the line ends.
func CleanLines(text string) string { return cleanText(text, true) }

// cleanText replaces characters that are not safe for a terminal. With parameter lines, line ends stay.
func cleanText(text string, lines bool) string {
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

// FirstLine returns the first line of a text, without control characters
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return CleanLine(line)
}

// Indent indents every line of a text by two columns and removes control characters
func Indent(text string) string {
	return "  " + strings.ReplaceAll(CleanLines(strings.TrimRight(text, "\n")), "\n", "\n  ")
}

// TextWidth returns the terminal columns that a text takes. Wide characters of East Asia take two.
func TextWidth(text string) int {
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

// CutToWidth truncates a text to a number of terminal columns, with an ellipsis at its end
func CutToWidth(text string, columns int) string {
	if TextWidth(text) <= columns {
		return text
	}
	var b strings.Builder
	used := 0
	for _, r := range text {
		w := TextWidth(string(r))
		if used+w > columns-1 {
			break
		}
		b.WriteRune(r)
		used += w
	}
	return b.String() + "…"
}

// PadToColumn returns the blanks that pad a text to the width of a column
func PadToColumn(text string, columns int) string {
	return strings.Repeat(" ", max(columns-TextWidth(text), 0))
}

// DashIfEmpty returns the text, or a dash for an empty text.
func DashIfEmpty(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
