package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// format is the value of -o.
type format string

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "format" }
func (f *format) Set(s string) error {
	switch s {
	case "table", "wide", "json", "yaml":
		*f = format(s)
		return nil
	}
	return fmt.Errorf("%q is none of table, wide, json, yaml", s)
}

func formatFlag(c *cobra.Command) *format {
	f := format("table")
	c.Flags().VarP(&f, "output", "o", "table, wide, json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// formatWith is --output of a command that also writes another format.
func formatWith(c *cobra.Command, more string) *format {
	f := format("table")
	c.Flags().VarP(&oneMore{&f, more}, "output", "o", "table, wide, json, yaml or "+more)
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml", more}, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

type oneMore struct {
	*format
	more string
}

func (o *oneMore) Set(s string) error {
	if s == o.more {
		*o.format = format(s)
		return nil
	}
	if o.format.Set(s) != nil {
		return fmt.Errorf("%q is none of table, wide, json, yaml, %s", s, o.more)
	}
	return nil
}

// machine says whether a program reads the output.
func (f format) machine() bool { return f == "json" || f == "yaml" }

// printValue writes any value as JSON or YAML.
func (e *Env) printValue(f format, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if f == "yaml" {
		return writeYAML(e.Stdout, data)
	}
	return writeJSON(e.Stdout, data)
}

func writeJSON(w io.Writer, data []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("indent output: %w", err)
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

func writeYAML(w io.Writer, data []byte) error {
	text, err := document.YAML(data)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// decode reads a resource that the server sent.
type object struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Metadata   model.Metadata        `json:"metadata"`
	Spec       json.RawMessage       `json:"spec"`
	Status     *model.ResourceStatus `json:"status,omitempty"`
}

func decodeObject(data []byte) (object, error) {
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("read resource: %w", err)
	}
	return o, nil
}
