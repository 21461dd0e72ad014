package screen

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestTimeUntilRoundsToTheNearestUnit formats times ahead, and expects rounding to the nearest unit. One second less
// than 365 days is "in 365d", not "in 364d".
func TestTimeUntilRoundsToTheNearestUnit(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &Screen{Now: func() time.Time { return now }}
	for after, want := range map[time.Duration]string{
		365*24*time.Hour - time.Second: "in 365d", 90*24*time.Hour - 5*time.Minute: "in 90d", 24*time.Hour - time.Second: "in 1d",
		time.Hour - time.Second: "in 1h", 90 * time.Second: "in 1m30s", 36*time.Hour + 4*time.Minute: "in 36h", 0: "expired",
	} {
		if got := s.TimeUntil(now.Add(after)); got != want {
			t.Errorf("%s ahead: %q, want %q", after, got, want)
		}
	}
	if got := s.TimeUntil(time.Time{}); got != "never" {
		t.Errorf("without an end: %q", got)
	}
}

// TestScreenCleansText prints hostile texts, and expects no escape sequences. Only cells may have colours, and no line
// may break within a command.
func TestScreenCleansText(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{Out: &out, Width: 30, Colours: true}
	evil := "\x1b[2J\r\nred\u202e"
	s.Printf("%s|", evil)
	s.WriteField(4, "name", "%s", evil)
	testenv.NoError(t, NewTable([]string{evil}, SplitColumns("OUTPUT"), func(x string) []any { return []any{Cell{x, Red}} }).Write(s))
	if text := out.String(); strings.Contains(text, "\x1b[2J") || strings.ContainsRune(text, '\u202e') || !strings.Contains(text, string(Red)+"␛[2J") {
		t.Errorf("%q", text)
	}
	out.Reset()
	s.Wrapf(2, "%d more lines of text: muster get events -A", 12)
	if got, want := out.String(), "12 more lines of text:\n  muster get events -A\n"; got != want {
		t.Errorf("wrapped: %q, want %q", got, want)
	}
}

// TestDocumentsEscapeControls writes control characters as JSON and YAML, and expects escapes. The decoded value must
// not change.
func TestDocumentsEscapeControls(t *testing.T) {
	const name, value = "out\u202eput", "a\u009b2J\u0085\u007f\x1b\u2066b\u200f: c\n- d"
	for _, format := range []Format{JSON, YAML} {
		var out bytes.Buffer
		testenv.NoError(t, (&Screen{Out: &out, Format: format}).WriteValue(map[string]string{name: value}))
		if text := out.String(); strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("%s: %q", format, text)
		}
		reader := &document.Reader{}
		docs := reader.Documents(out.Bytes())
		if err := reader.Flaws.Err(); err != nil || len(docs) != 1 || docs[0].Get(name).Text() != value {
			t.Errorf("%s: %v, %d documents: %q", format, err, len(docs), out.String())
		}
	}
}

// TestPastableNamesAreNotCut writes a table on a narrow terminal, and expects uncut names of triggers and problem ids.
// People paste these texts.
func TestPastableNamesAreNotCut(t *testing.T) {
	source, directive, problem := "linux-by-zabbix-agent:high-memory-utilization-for-5m", "sshd-without-root-login", "fe7s5ygs3rabc46m"
	var out bytes.Buffer
	table := NewTable([]string{strings.Repeat("o", 60)}, SplitColumns("STATE|SOURCE|DIRECTIVE|PROBLEM|OUTPUT"), func(output string) []any { return []any{"OPEN", source, directive, problem, output} })
	testenv.NoError(t, table.Write(&Screen{Out: &out, Width: 70}))
	if !strings.Contains(out.String(), source) || !strings.Contains(out.String(), directive) || !strings.Contains(out.String(), problem) {
		t.Error(out.String())
	}
}

// TestTableFitsTheTerminal writes a table that is too wide, and expects cuts but never in a name. The last column is
// truncated first, then the widest columns.
func TestTableFitsTheTerminal(t *testing.T) {
	type row struct{ node, note, output string }
	rows := []row{{"web01.fra.example.org", strings.Repeat("n", 30), strings.Repeat("o", 40)}, {"db01", "", ""}}
	table := NewTable(rows, SplitColumns("NODE|NOTE|HIDDEN|OUTPUT").HideUnless(false, "HIDDEN"), func(r row) []any { return []any{r.node, r.note, "x", r.output} })
	for _, width := range []int{0, 80, 60} {
		var out bytes.Buffer
		testenv.NoError(t, table.Write(&Screen{Out: &out, Width: width}))
		lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if got := TextWidth(lines[1]); width > 0 && got > width || width == 0 && got != table.Width() {
			t.Errorf("width %d: %d columns: %s", width, got, lines[1])
		}
		if !strings.Contains(lines[1], rows[0].node) || strings.Join(strings.Fields(lines[2]), " ") != "db01 - -" || strings.Contains(lines[0], "HIDDEN") {
			t.Errorf("width %d:\n%s", width, out.String())
		}
	}
}

// TestLongTextPadsNoOtherRow writes a table without a terminal in which one cell has 60,000 characters. It expects the
// whole text, and short other rows.
func TestLongTextPadsNoOtherRow(t *testing.T) {
	text := strings.Repeat("v", 60_000)
	for _, screen := range []*Screen{{}, {Width: 80, Format: Wide}} {
		var out bytes.Buffer
		screen.Out = &out
		testenv.NoError(t, NewTable([]string{text, "7"}, SplitColumns("KEY|VALUE|STATE"), func(v string) []any { return []any{"a", v, "ok"} }).Write(screen))
		lines := strings.Split(out.String(), "\n")
		if lines[1] != "a    "+text+"  ok" || len(lines[0]) > 100 || len(lines[2]) > 100 || !strings.HasSuffix(lines[2], "  ok") {
			t.Errorf("rows of %d, %d and %d characters", len(lines[0]), len(lines[1]), len(lines[2]))
		}
	}
}

// TestTightTableLeavesChangedOut writes a list of silences with namespaces at 80 columns, and expects lines that fit. Only
// a wide terminal has the column CHANGED.
func TestTightTableLeavesChangedOut(t *testing.T) {
	name := "web01-disk-20261201-122126"
	for width, changed := range map[int]bool{80: false, 200: true} {
		var out bytes.Buffer
		table := NewTable([]string{name}, SplitColumns("NAMESPACE|NAME|COVERS|UNTIL|BY|HOLDS|REASON|CHANGED"), func(name string) []any {
			return []any{"default", name, "disk on web01", "in 1h59m, 12-01 14:21", "admin", 0, strings.Repeat("r", 40), "5m"}
		})
		testenv.NoError(t, table.Write(&Screen{Out: &out, Width: width}))
		if strings.Contains(out.String(), "CHANGED") != changed || !strings.Contains(out.String(), name) {
			t.Errorf("width %d:\n%s", width, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if TextWidth(line) > width+1 {
				t.Errorf("width %d: %s", width, line)
			}
		}
	}
}
