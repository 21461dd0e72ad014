package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// Screen writes the output of one command for its terminal. It knows the width, format, colours and time zone.
type Screen struct {
	Out, Err io.Writer
	Width    int  // columns of Out's terminal; 0: no terminal, nothing is cut or wrapped
	ErrWidth int  // columns of Err's terminal; 0: no terminal, nothing is wrapped
	Colours  bool // whether Out takes colours
	Zone     *time.Location
	Now      func() time.Time
	Format   Format
	// NoHeaders leaves the heads of tables out.
	NoHeaders bool
	// Program is the name that the program was called by, for the commands in texts; empty: muster.
	Program string
}

// Cell is a table cell, a text with a colour. The text alone must say everything.
type Cell struct {
	Text   string
	Colour Colour
}

// Colour is an escape sequence that sets a colour of the terminal.
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

// Paint returns the text of a table cell in its colour, without control characters. If the terminal has
// colours, the text has its colour.
func (s *Screen) Paint(c Cell) string {
	text := CleanLine(c.Text)
	if !s.Colours || c.Colour == "" || text == "" {
		return text
	}
	return string(c.Colour) + text + string(reset)
}

// PaintedText is text with colours but without control characters, which Printf writes unchanged.
type PaintedText string

// shownCommand matches the program's name before a command in a text.
var shownCommand = regexp.MustCompile(`(^|[^\w/.-])muster ([a-z])`)

// ReplaceProgramName replaces the word muster in shown command lines by the program name that the user typed.
// The user's own name of the program takes its place.
func (s *Screen) ReplaceProgramName(text string) string {
	if s.Program == "" || !strings.Contains(text, "muster ") {
		return text
	}
	return shownCommand.ReplaceAllString(text, "${1}"+strings.ReplaceAll(s.Program, "$", "$$")+" ${2}")
}

// Sprintf formats text for people, and removes control characters from its arguments. It cleans strings and errors
// among args, and paints cells. The format passes through Commands; a text among args that has commands needs it
// before.
func (s *Screen) Sprintf(format string, args ...any) PaintedText {
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			args[i] = CleanLine(v)
		case error:
			args[i] = CleanLine(v.Error())
		case Cell:
			args[i] = s.Paint(v)
		case PaintedText:
			args[i] = string(v)
		}
	}
	return PaintedText(fmt.Sprintf(s.ReplaceProgramName(format), args...))
}

// Printf writes formatted text to standard output.
func (s *Screen) Printf(format string, args ...any) {
	_, _ = io.WriteString(s.Out, string(s.Sprintf(format, args...)))
}

// Notef writes formatted lines about progress, a warning or a hint to standard error. Lines break at the width of
// its terminal, and their further parts are indented.
func (s *Screen) Notef(indent int, format string, args ...any) {
	for line := range strings.SplitSeq(strings.TrimSuffix(string(s.Sprintf(format, args...)), "\n"), "\n") {
		writeWrapped(s.Err, s.ErrWidth, indent, line)
	}
}

// Wrapf writes one formatted text, and breaks the text into lines at the width of the terminal. Further lines
// are indented. A command to type stays on one line where it fits on one.
func (s *Screen) Wrapf(indent int, format string, args ...any) {
	writeWrapped(s.Out, s.Width, indent, string(s.Sprintf(format, args...)))
}

// writeWrapped writes one text as lines of at most the given columns. Without columns it writes one line.
func writeWrapped(w io.Writer, columns, indent int, text string) {
	for columns > 0 && visibleWidth(text) > columns {
		at := findLineBreak(text, indent, columns, true)
		if at < 0 {
			at = findLineBreak(text, indent, columns, false)
		}
		if at < 0 {
			break
		}
		fmt.Fprintln(w, strings.TrimRight(text[:at], " "))
		text = strings.Repeat(" ", indent) + text[at+1:]
	}
	fmt.Fprintln(w, strings.TrimRight(text, " "))
}

// WriteField writes the name of a field and its value as one line of terminal output. All values start at the
// same column and wrap there.
func (s *Screen) WriteField(columns int, name, format string, args ...any) {
	name = CleanLine(name)
	head := name + PadToColumn(name, columns) + " "
	s.Wrapf(TextWidth(head), "%s%s", PaintedText(head), s.Sprintf(format, args...))
}

// findLineBreak returns the index of the last blank at which a line may be wrapped, or -1. The line then fits the
// given number of columns. With whole it never breaks within a command to type.
func findLineBreak(text string, indent, columns int, whole bool) int {
	at := -1
	for i := range text {
		if text[i] != ' ' || i <= indent || visibleWidth(text[:i]) > columns {
			continue
		}
		command := strings.LastIndex(text[:i+1], "muster ")
		if whole && command >= 0 && !strings.ContainsAny(text[command:i], ";,:()") && !strings.Contains(text[command:i+1], ". ") {
			continue
		}
		at = i
	}
	return at
}

// visibleWidth returns the width of a text in terminal columns, without its colours.
func visibleWidth(text string) int {
	for _, colour := range [...]Colour{Red, Yellow, Green, Purple, Bold, Faint, reset} {
		text = strings.ReplaceAll(text, string(colour), "")
	}
	return TextWidth(text)
}

// DateAndTime formats a date and time in the time zone of the command's user.
func (s *Screen) DateAndTime(t time.Time) string { return t.In(s.Zone).Format(time.DateTime) }

// TimeOfDay formats a time of today or the next hours, such as 15:04:05
func (s *Screen) TimeOfDay(t time.Time) string { return t.In(s.Zone).Format(time.TimeOnly) }

// DateTimeAndZone formats a date and time with the name of the time zone
func (s *Screen) DateTimeAndZone(t time.Time) string {
	return t.In(s.Zone).Format(time.DateTime + " MST")
}

// AgeText formats the time since a moment, such as 5m ago.
func (s *Screen) AgeText(t time.Time) string { return model.Age(s.Now(), t) + " ago" }

// TimeAndAge formats a date and time with the time zone, and with the duration since or until then. The zero
// time gives "never".
func (s *Screen) TimeAndAge(t time.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case t.After(s.Now()):
		return s.DateTimeAndZone(t) + " (in " + model.RoundTimeSpan(t.Sub(s.Now())) + ")"
	}
	return s.DateTimeAndZone(t) + " (" + s.AgeText(t) + ")"
}

// TimeUntil formats the time that is left until an end, such as "in 3h", "expired" or "never". A lifetime of a year
// that began just now ends in 365d.
func (s *Screen) TimeUntil(t time.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case !t.After(s.Now()):
		return "expired"
	}
	return "in " + model.RoundTimeSpan(t.Sub(s.Now()))
}

// Format is the output format of a command, the value of -o.
type Format string

// The formats of every command that has -o.
const (
	Narrow Format = "table" // cut to the terminal
	Wide   Format = "wide"  // more columns, nothing cut
	JSON   Format = "json"
	YAML   Format = "yaml"
	// Name is a format of commands that list it: one name per line.
	Name Format = "name"
)

// IsForPrograms reports whether the output format is meant for programs, such as JSON and YAML.
func (f Format) IsForPrograms() bool {
	return f == JSON || f == YAML || f == Name || strings.HasPrefix(string(f), jsonPathPrefix)
}

// AddFormatFlag adds the flag -o to a command. Parameter `more` lists formats in addition to table, wide, json and yaml.
func AddFormatFlag(c *cobra.Command, f *Format, more ...string) {
	*f = Narrow
	v := &formatFlagValue{f, append([]string{"table", "wide", "json", "yaml", jsonPathPrefix + "TEMPLATE"}, more...)}
	last := len(v.allowed) - 1
	c.Flags().VarP(v, "output", "o", strings.Join(v.allowed[:last], ", ")+" or "+v.allowed[last])
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(v.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// formatFlagValue is the value of the flag -o, as pflag.Value
type formatFlagValue struct {
	format  *Format
	allowed []string
}

// String returns the format's name
func (v *formatFlagValue) String() string { return string(*v.format) }

// Type returns the type name of the flag for the help text
func (v *formatFlagValue) Type() string { return "format" }

// Set sets the format, or returns an error for an unknown one
func (v *formatFlagValue) Set(text string) error {
	if template, isPath := strings.CutPrefix(text, jsonPathPrefix); isPath {
		if _, err := newJSONPath(template); err != nil {
			return err
		}
	} else if !slices.Contains(v.allowed, text) {
		return fmt.Errorf("invalid output format %q: expected one of %s", text, strings.Join(v.allowed, ", "))
	}
	*v.format = Format(text)
	return nil
}

// WriteValue writes any value as JSON or YAML, or the parts that a JSONPath selects.
func (s *Screen) WriteValue(v any) error {
	if template, isPath := strings.CutPrefix(string(s.Format), jsonPathPrefix); isPath {
		return writeJSONPath(s.Out, template, v)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if s.Format == YAML {
		return WriteYAML(s.Out, data)
	}
	data = document.EscapeControls(data)
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("indent output: %w", err)
	}
	b.WriteByte('\n')
	_, err = s.Out.Write(b.Bytes())
	return err
}

// WriteDocument writes a value as one YAML document or one line of JSON in a longer output. JSON is on one
// line, and YAML follows a separator line.
func (s *Screen) WriteDocument(v any) error {
	if s.Format == JSON {
		data, err := json.Marshal(v)
		if err == nil {
			_, err = s.Out.Write(append(document.EscapeControls(data), '\n'))
		}
		return err
	}
	if s.Format == YAML {
		s.Printf("---\n")
	}
	return s.WriteValue(v)
}

// WriteYAML converts JSON to YAML, and writes the YAML.
func WriteYAML(w io.Writer, data []byte) error {
	text, err := document.YAML(data)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
