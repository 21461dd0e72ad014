package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

func explainCommand(s *session) *cobra.Command {
	return s.build(command{
		use: "explain [KIND[.FIELD]]", short: "Explain the kinds of resources and their fields",
		args: cobra.MaximumNArgs(1), complete: completeFirstArgument(cobra.FixedCompletions(s.kindWords(), noFiles)), offline: true,
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
			return c.printValue(e, func() { printExplanation(c, e) })
		},
	})
}

// listKinds prints the table of all kinds.
func listKinds(c *call) error {
	kinds := make([]v1.Kind, 0, len(c.Kinds.Kinds()))
	for _, k := range c.Kinds.Kinds() {
		e, err := c.Kinds.Explain(k.Name, "")
		if err != nil {
			return err
		}
		kinds = append(kinds, v1.Kind{Kind: k.Name, Plural: k.Plural, Short: k.Short, Namespaced: k.Namespaced, Doc: e.Text})
	}
	return list[v1.Kind]{value: kinds, items: kinds, columns: screen.Head("KIND|PLURAL|SHORT|NAMESPACED"), row: func(k v1.Kind) []any {
		return []any{k.Kind, k.Plural, k.Short, k.Namespaced}
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
		name := f.Name() + textIf(f.Must, " *")
		c.Printf("%s%s (%s)\n%s    %s\n", indent, screen.Cell{Text: name, Colour: screen.Bold}, f.Type, indent, screen.Painted(f.Text))
		printFields(c, f, indent+"    ")
	}
}

// lintCommand is muster lint, which validates files without a server.
func lintCommand(s *session) *cobra.Command {
	var files []string
	var owner string
	return s.build(command{
		use: "lint FILE...", short: "Check files without a server",
		args: cobra.ArbitraryArgs, offline: true,
		flags: func(flags *pflag.FlagSet) {
			fileFlag(flags, &files)
			flags.StringVar(&owner, "owner", "", "owner of the resources: a file that names another owner is an error")
		},
		run: func(c *call) error {
			docs, err := c.readSomeFiles(append(files, c.args...))
			if err == nil {
				err = ownerFlaws(docs, owner).Err()
			}
			if c.Format.Machine() {
				return printFlaws(c, err)
			}
			if err != nil {
				return err
			}
			c.Printf("%s, no errors\n", model.CountNoun(len(docs), "resource"))
			for _, note := range c.sensuNotes(docs) {
				c.Printf("%s\n", note)
			}
			return nil
		},
	})
}

// printFlaws writes the flaws of files as a list, which is empty for good files.
func printFlaws(c *call, err error) error {
	flaws, other := splitFlaws(err)
	if other != nil {
		return other
	}
	if flaws == nil {
		flaws = model.Flaws{}
	}
	if err := c.Value(flaws); err != nil || len(flaws) == 0 {
		return err
	}
	return &exitError{model.Invalid.Exit()}
}
