package loadcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/document"
)

// format is the value of -o.
type format struct {
	name    string
	allowed []string
}

func (f *format) String() string { return f.name }

// Type is its name in usage lines.
func (f *format) Type() string { return "format" }

// Set takes one of those that the command knows.
func (f *format) Set(s string) error {
	if !slices.Contains(f.allowed, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(f.allowed, ", "))
	}
	f.name = s
	return nil
}

func formatFlag(c *cobra.Command, preset string, allowed ...string) *format {
	f := &format{preset, allowed}
	c.Flags().VarP(f, "output", "o", strings.Join(allowed[:len(allowed)-1], ", ")+" or "+allowed[len(allowed)-1])
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// machine says whether a program reads the output.
func (f *format) machine() bool { return f.name == "json" || f.name == "yaml" }

// print writes any value as JSON or YAML.
func (f *format) print(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	var text []byte
	if f.name == "yaml" {
		text, err = document.YAML(data)
	} else if text, err = json.MarshalIndent(json.RawMessage(data), "", "  "); err == nil {
		text = append(text, '\n')
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
