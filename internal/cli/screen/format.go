package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/document"
)

// Format is the value of -o.
type Format string

// The formats of every command that has -o.
const (
	Narrow Format = "table" // cut to the terminal
	Wide   Format = "wide"  // more columns, nothing cut
	JSON   Format = "json"
	YAML   Format = "yaml"
)

// Machine reports whether a program reads the output.
func (f Format) Machine() bool { return f == JSON || f == YAML }

// FormatFlag declares -o, with more formats than the usual ones.
func FormatFlag(c *cobra.Command, f *Format, more ...string) {
	*f = Narrow
	v := &formatValue{f, append([]string{"table", "wide", "json", "yaml"}, more...)}
	last := len(v.allowed) - 1
	c.Flags().VarP(v, "output", "o", strings.Join(v.allowed[:last], ", ")+" or "+v.allowed[last])
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(v.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// formatValue implements pflag.Value.
type formatValue struct {
	format  *Format
	allowed []string
}

// String implements pflag.Value.
func (v *formatValue) String() string { return string(*v.format) }

// Type implements pflag.Value.
func (v *formatValue) Type() string { return "format" }

// Set implements pflag.Value.
func (v *formatValue) Set(text string) error {
	if !slices.Contains(v.allowed, text) {
		return fmt.Errorf("%q is none of %s", text, strings.Join(v.allowed, ", "))
	}
	*v.format = Format(text)
	return nil
}

// Value writes any value as JSON or YAML.
func (s *Screen) Value(v any) error {
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

// Document writes a value as one of many; YAML needs a separator before each.
func (s *Screen) Document(v any) error {
	if s.Format == YAML {
		s.Printf("---\n")
	}
	return s.Value(v)
}

// WriteYAML writes JSON as YAML.
func WriteYAML(w io.Writer, data []byte) error {
	text, err := document.YAML(data)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
