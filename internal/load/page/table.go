package page

import (
	"maps"
	"slices"
)

// table is rows under heads. The first column heads its rows; the others hold numbers,
// but for those whose head begins with a quote sign: they hold words.
type table struct {
	Name string
	Head []head
	Rows [][]string
}

type head struct {
	Name  string
	Words bool
}

// newTable has a head for each column.
func newTable(name string, columns ...string) table {
	t := table{Name: name}
	for i, c := range columns {
		h := head{Name: c, Words: i == 0}
		if len(c) > 0 && c[0] == '\'' {
			h = head{c[1:], true}
		}
		t.Head = append(t.Head, h)
	}
	return t
}

// Dense says whether there are so many columns that they have to stand close, to be seen at once.
func (t table) Dense() bool { return len(t.Head) > 9 }

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// turned is a table whose columns were rows.
func turned(rows [][]string) [][]string {
	out := make([][]string, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			out[i] = append(out[i], cell)
		}
	}
	return out
}

// list is t alone, without the columns in which there is nothing; none where it has no
// rows.
func (t table) list() []table {
	if len(t.Rows) == 0 {
		return nil
	}
	for i := len(t.Head) - 1; i > 0; i-- {
		if !slices.ContainsFunc(t.Rows, func(row []string) bool { return row[i] != "" && row[i] != "–" }) {
			t.Head = slices.Delete(t.Head, i, i+1)
			for r := range t.Rows {
				t.Rows[r] = slices.Delete(t.Rows[r], i, i+1)
			}
		}
	}
	return []table{t}
}

// pairs is a table of names and what they are; those that are nothing are left out.
func pairs(name string, all ...string) table {
	t := newTable(name, "", "'")
	for i := 0; i+1 < len(all); i += 2 {
		if all[i+1] != "" {
			t.add(all[i], all[i+1])
		}
	}
	return t
}

// ofMap is a table of a map, by name.
func ofMap(name string, m map[string]string) table {
	t := newTable(name, "", "'")
	for _, k := range slices.Sorted(maps.Keys(m)) {
		t.add(k, m[k])
	}
	return t
}
