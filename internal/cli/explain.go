package cli

import (
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/kind"
)

func explainCommand(s *session) *cobra.Command {
	return s.build(command{
		use: "explain [KIND[.FIELD]]", short: "Explain the kinds of resources and their fields",
		long:    "Lists the kinds of resources, or explains the fields of one. Needs no server.",
		example: "  muster explain check\n  muster explain check.alert",
		args:    cobra.MaximumNArgs(1), complete: s.completeKinds, offline: true,
		run: func(c *call) error {
			if len(c.args) == 0 {
				return listKinds(c)
			}
			word, path, _ := strings.Cut(c.args[0], ".")
			k, err := c.kindOf(word)
			if err != nil {
				return err
			}
			e, err := c.Kinds.Explain(k.Name, path)
			if err != nil {
				return err
			}
			return c.show(e, func() error { printExplanation(c, e); return nil })
		},
	})
}

func listKinds(c *call) error {
	kinds := make([]v1.Kind, 0, len(c.Kinds.Kinds()))
	for _, k := range c.Kinds.Kinds() {
		e, err := c.Kinds.Explain(k.Name, "")
		if err != nil {
			return err
		}
		kinds = append(kinds, v1.Kind{Kind: k.Name, Plural: k.Plural, Short: k.Short, Namespaced: k.Namespaced, Doc: e.Text})
	}
	return list[v1.Kind]{value: kinds, items: kinds, columns: []screen.Column[v1.Kind]{
		screen.Col("KIND", func(k v1.Kind) any { return k.Kind }),
		screen.Col("PLURAL", func(k v1.Kind) any { return k.Plural }),
		screen.Col("SHORT", func(k v1.Kind) any { return k.Short }),
		screen.Col("NAMESPACED", func(k v1.Kind) any { return k.Namespaced }),
	}}.print(c)
}

// printExplanation writes the explanation of a kind or field, of its fields, and an example.
func printExplanation(c *call, e *kind.Explanation) {
	c.Printf("%s: %s\n%s\n", screen.Cell{Text: e.Path, Colour: screen.Bold}, e.Type, screen.Painted(e.Text))
	if len(e.Fields) > 0 {
		c.Printf("\nFields (* required):\n")
		printFields(c, e, "  ")
	}
	if e.Example != "" {
		printOutput(c, "Example:", e.Example)
	}
}

func printFields(c *call, e *kind.Explanation, indent string) {
	for i := range e.Fields {
		f := &e.Fields[i]
		name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		if f.Must {
			name += " *"
		}
		c.Printf("%s%s (%s)\n%s    %s\n", indent, screen.Cell{Text: name, Colour: screen.Bold}, f.Type, indent, screen.Painted(f.Text))
		printFields(c, f, indent+"    ")
	}
}
