package sizing

import (
	"strings"
	"unicode/utf8"
)

// Table has a line for each size that was tried. Where such lines do not fit into so many columns
// (0: of no matter), each size has a column instead; those that do not fit beside the others come
// below them.
func Table(tries []Try, columns int) string {
	rows := rowsOf(tries)
	if columns == 0 || widthOf(rows) <= columns {
		return aligned(rows)
	}
	var parts []string
	for sizes := rows[1:]; len(sizes) > 0; {
		n := len(sizes)
		for n > 1 && widthOf(turned(rows[0], sizes[:n])) > columns {
			n--
		}
		parts = append(parts, aligned(turned(rows[0], sizes[:n])))
		sizes = sizes[n:]
	}
	return strings.Join(parts, "\n")
}

// rowsOf are the heads, and what each size came to.
func rowsOf(tries []Try) [][]string {
	rows := [][]string{{"SIZE", "AGENTS", "RESULTS/S", "CORES", "MEMORY", "DISK/S", "FSYNCS/S", "NET IN/S", "NET OUT/S", "P99", "VERDICT"}}
	for i := range tries {
		t := &tries[i]
		row := []string{factor(t.Factor), grouped(float64(t.Agents)), digits(t.Results), "–", "–", "–", "–", "–", "–", "–", "carried"}
		if t.Report != nil {
			f := figuresOf(t.Report, t.States)
			in, out := "–", "–"
			if f.in > 0 {
				in, out = bytes(f.in), bytes(f.out)
			}
			row = []string{row[0], row[1], digits(f.results), digits(f.cores), bytes(f.memory + f.later), bytes(f.written), digits(f.syncs), in, out, digits(f.p99) + " ms", "carried"}
		}
		if !t.Carried() {
			b := t.breaks()
			row[len(row)-1] = "no: " + b.what
			if t.Report == nil && !limited(t.Err) {
				row[len(row)-1] = "not played"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// turned is a table whose columns were rows.
func turned(head []string, rows [][]string) [][]string {
	out := make([][]string, len(head))
	for i := range head {
		out[i] = append(out[i], head[i])
		for _, row := range rows {
			out[i] = append(out[i], row[i])
		}
	}
	return out
}

// widths are those of the columns.
func widths(rows [][]string) []int {
	list := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			list[i] = max(list[i], utf8.RuneCountInString(cell))
		}
	}
	return list
}

// widthOf is that of a line.
func widthOf(rows [][]string) int {
	sum := -gap
	for _, w := range widths(rows) {
		sum += w + gap
	}
	return sum
}

// gap is between two columns.
const gap = 2

func aligned(rows [][]string) string {
	var b strings.Builder
	wide := widths(rows)
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", wide[i]-utf8.RuneCountInString(cell)+gap))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
