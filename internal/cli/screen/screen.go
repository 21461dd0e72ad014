package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// Screen is the output of one command: its writers, the width of the terminal, the format and the time zone of the reader.
type Screen struct {
	Out, Err io.Writer
	Width    int  // columns of the terminal; 0: no terminal, nothing is cut or wrapped
	Colours  bool // whether Out takes colours
	Zone     *time.Location
	Now      func() time.Time
	Format   Format
}

// Cell is a text with a colour. The text alone must say everything.
type Cell struct {
	Text   string
	Colour Colour
}

// Colour is an escape sequence of a terminal.
type Colour string

// The colours of cells.
const (
	Red    Colour = "\x1b[31m"
	Yellow Colour = "\x1b[33m"
	Green  Colour = "\x1b[32m"
	Purple Colour = "\x1b[35m"
	Bold   Colour = "\x1b[1m"
	Faint  Colour = "\x1b[2m"
	reset  Colour = "\x1b[0m"
)

// Warning begins a line about something that needs attention.
var Warning = Cell{"warning:", Yellow}

// Paint returns the text of a cell, cleaned, and coloured where the terminal takes colours.
func (s *Screen) Paint(c Cell) string {
	text := Clean(c.Text)
	if !s.Colours || c.Colour == "" || text == "" {
		return text
	}
	return string(c.Colour) + text + string(reset)
}

// PaintedText is text that Paint or Sprintf has cleaned and coloured: Printf does not clean it again.
type PaintedText string

// Sprintf formats text for people. It cleans strings and errors among args, and paints cells.
func (s *Screen) Sprintf(format string, args ...any) PaintedText {
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			args[i] = Clean(v)
		case error:
			args[i] = Clean(v.Error())
		case Cell:
			args[i] = s.Paint(v)
		case PaintedText:
			args[i] = string(v)
		}
	}
	return PaintedText(fmt.Sprintf(format, args...))
}

// Printf writes a result, formatted as Sprintf does.
func (s *Screen) Printf(format string, args ...any) {
	_, _ = io.WriteString(s.Out, string(s.Sprintf(format, args...)))
}

// Notef writes to standard error: progress, warnings and hints that are no result.
func (s *Screen) Notef(format string, args ...any) {
	_, _ = io.WriteString(s.Err, string(s.Sprintf(format, args...)))
}

// Wrapf writes one line, formatted as Sprintf does; on a narrow terminal several, the second and
// later ones indented. A command to type stays on one line where it fits on one.
func (s *Screen) Wrapf(indent int, format string, args ...any) {
	text := string(s.Sprintf(format, args...))
	for s.Width > 0 && visibleWidth(text) > s.Width {
		at := findLineBreak(text, indent, s.Width, true)
		if at < 0 {
			at = findLineBreak(text, indent, s.Width, false)
		}
		if at < 0 {
			break
		}
		fmt.Fprintln(s.Out, strings.TrimRight(text[:at], " "))
		text = strings.Repeat(" ", indent) + text[at+1:]
	}
	fmt.Fprintln(s.Out, strings.TrimRight(text, " "))
}

// Field writes the name of a field and its value, which begins at a column and wraps there.
func (s *Screen) Field(columns int, name, format string, args ...any) {
	name = Clean(name)
	head := name + PadToColumn(name, columns) + " "
	s.Wrapf(TextWidth(head), "%s%s", PaintedText(head), s.Sprintf(format, args...))
}

// findLineBreak returns the last blank at which a line of so many columns may end; -1: none. With whole it never
// breaks within a command to type.
func findLineBreak(text string, indent, columns int, whole bool) int {
	at := -1
	for i := range text {
		if text[i] != ' ' || i <= indent || visibleWidth(text[:i]) > columns {
			continue
		}
		command := strings.LastIndex(text[:i+1], "muster ")
		if whole && command >= 0 && !strings.ContainsAny(text[command:i], ";,:()") {
			continue
		}
		at = i
	}
	return at
}

// visibleWidth returns the columns of a text without its colours.
func visibleWidth(text string) int {
	for _, colour := range [...]Colour{Red, Yellow, Green, Purple, Bold, Faint, reset} {
		text = strings.ReplaceAll(text, string(colour), "")
	}
	return TextWidth(text)
}

// DateAndTime returns date and time in the zone of the reader.
func (s *Screen) DateAndTime(t time.Time) string { return t.In(s.Zone).Format(time.DateTime) }

// DateTimeAndZone returns date, time and zone.
func (s *Screen) DateTimeAndZone(t time.Time) string {
	return t.In(s.Zone).Format(time.DateTime + " MST")
}

// AgeText returns the time since a moment: 5m ago.
func (s *Screen) AgeText(t time.Time) string { return model.Age(s.Now(), t) + " ago" }

// TimeAndAge returns date, time, zone and distance from now; the zero time is written as never.
func (s *Screen) TimeAndAge(t time.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case t.After(s.Now()):
		return s.DateTimeAndZone(t) + " (in " + model.TimeSpan(t.Sub(s.Now())) + ")"
	}
	return s.DateTimeAndZone(t) + " (" + s.AgeText(t) + ")"
}

// TimeUntil returns the time from now to an end: in 3h, expired, never. A lifetime of a year that began just now
// ends in 365d.
func (s *Screen) TimeUntil(t time.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case !t.After(s.Now()):
		return "expired"
	}
	return "in " + model.RoundTimeSpan(t.Sub(s.Now()))
}

// Format is the value of -o.
type Format string

// The formats of every command that has -o.
const (
	Narrow Format = "table" // cut to the terminal
	Wide   Format = "wide"  // more columns, nothing cut
	JSON   Format = "json"
	YAML   Format = "yaml"
)

// IsForPrograms reports whether the format is for programs: JSON or YAML.
func (f Format) IsForPrograms() bool { return f == JSON || f == YAML }

// FormatFlag adds the flag -o to a command; more are formats besides table, wide, json and yaml.
func FormatFlag(c *cobra.Command, f *Format, more ...string) {
	*f = Narrow
	v := &formatFlagValue{f, append([]string{"table", "wide", "json", "yaml"}, more...)}
	last := len(v.allowed) - 1
	c.Flags().VarP(v, "output", "o", strings.Join(v.allowed[:last], ", ")+" or "+v.allowed[last])
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(v.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// formatFlagValue implements pflag.Value.
type formatFlagValue struct {
	format  *Format
	allowed []string
}

// String implements pflag.Value.
func (v *formatFlagValue) String() string { return string(*v.format) }

// Type implements pflag.Value.
func (v *formatFlagValue) Type() string { return "format" }

// Set implements pflag.Value.
func (v *formatFlagValue) Set(text string) error {
	if !slices.Contains(v.allowed, text) {
		return fmt.Errorf("%q: expected one of %s", text, strings.Join(v.allowed, ", "))
	}
	*v.format = Format(text)
	return nil
}

// WriteValue writes any value as JSON or YAML.
func (s *Screen) WriteValue(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if s.Format == YAML {
		return WriteYAML(s.Out, data)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("indent output: %w", err)
	}
	b.WriteByte('\n')
	_, err = s.Out.Write(b.Bytes())
	return err
}

// WriteDocument writes a value as one document of several; YAML needs a separator before each.
func (s *Screen) WriteDocument(v any) error {
	if s.Format == YAML {
		s.Printf("---\n")
	}
	return s.WriteValue(v)
}

// WriteYAML writes JSON as YAML.
func WriteYAML(w io.Writer, data []byte) error {
	text, err := document.YAML(data)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
