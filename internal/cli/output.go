package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

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

// writeYAML turns JSON into YAML and keeps the order of fields: JSON is YAML, so
// only the style of its nodes has to change.
func writeYAML(w io.Writer, data []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("turn output into YAML: %w", err)
	}
	restyle(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return enc.Close()
}

func restyle(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		var resolved yaml.Node
		if err := yaml.Unmarshal([]byte(n.Value), &resolved); err != nil || len(resolved.Content) != 1 ||
			resolved.Content[0].Kind != yaml.ScalarNode || resolved.Content[0].Tag != "!!str" || resolved.Content[0].Value != n.Value {
			n.Style = yaml.DoubleQuotedStyle // would be read as something else
		}
		if bytes.ContainsRune([]byte(n.Value), '\n') {
			n.Style = yaml.LiteralStyle
		}
	}
	for _, c := range n.Content {
		restyle(c)
	}
}

// yamlText is one value as YAML text.
func yamlText(data []byte) (string, error) {
	var b bytes.Buffer
	err := writeYAML(&b, data)
	return b.String(), err
}

// decode reads a resource that the server sent.
type object struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   model.Metadata  `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
	Status     *model.Stored   `json:"status,omitempty"`
}

func decodeObject(data []byte) (object, error) {
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("read resource: %w", err)
	}
	return o, nil
}
