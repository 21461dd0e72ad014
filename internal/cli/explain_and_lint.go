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

// explainCommand makes the command muster explain, which explains kinds and their fields.
func explainCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "explain [KIND[.FIELD]]", short: "Explain the kinds of resources and their fields",
		args: cobra.MaximumNArgs(1), complete: completeFirstArgument(s.completeFields), offline: true,
		run: func(c *commandCall) error {
			if len(c.args) == 0 {
				return printKinds(c)
			}
			word, path, _ := strings.Cut(c.args[0], ".")
			k, err := c.findKind(word)
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

// completeFields offers the paths of fields for shell completion. It offers kinds and, after a dot, the fields of a
// kind or field.
func (s *commandLine) completeFields(_ *cobra.Command, _ []string, typed string) (words []string, _ cobra.ShellCompDirective) {
	at := strings.LastIndex(typed, ".")
	if at < 0 {
		return s.kindWords(), noFiles
	}
	word, path, _ := strings.Cut(typed[:at], ".")
	k, ok := s.Kinds.Lookup(word)
	if !ok {
		return nil, noFiles
	}
	e, err := s.Kinds.Explain(k.Name, path)
	if err != nil {
		return nil, noFiles
	}
	fields := e.Fields
	for _, f := range e.Fields {
		if path == "" && f.Name() == "spec" { // its fields are found without spec, too
			fields = append(fields, f.Fields...)
		}
	}
	for i := range fields {
		if word := typed[:at+1] + fields[i].Name(); strings.HasPrefix(word, typed) {
			words = append(words, word)
		}
	}
	return words, noFiles | cobra.ShellCompDirectiveNoSpace
}

// printKinds prints the table of all kinds.
func printKinds(c *commandCall) error {
	kinds := make([]v1.Kind, 0, len(c.Kinds.Kinds()))
	for _, k := range c.Kinds.Kinds() {
		e, err := c.Kinds.Explain(k.Name, "")
		if err != nil {
			return err
		}
		kinds = append(kinds, v1.Kind{Kind: k.Name, Plural: k.Plural, Short: k.Short, Namespaced: k.Namespaced, Doc: e.Text})
	}
	return listOutput[v1.Kind]{value: kinds, items: kinds, columns: screen.SplitColumns("KIND|PLURAL|SHORT|NAMESPACED|MEANING").HideUnless(c.Format == screen.Wide, "PLURAL", "NAMESPACED"), row: func(k v1.Kind) []any {
		return []any{k.Kind, k.Plural, k.Short, k.Namespaced, kindMeaning(k)}
	}, notes: []string{"one kind with its fields and an example: muster explain check"}}.print(c)
}

// kindMeaning returns the first sentence of a kind's documentation without its subject.
func kindMeaning(k v1.Kind) string {
	sentence, _, _ := strings.Cut(strings.ReplaceAll(k.Doc, "\n", " "), ". ")
	_, meaning, _ := strings.Cut(strings.TrimSuffix(sentence, "."), k.Kind+" ")
	return strings.TrimPrefix(meaning, "is ")
}

// printExplanation prints the documentation of a resource kind or field, with its fields and an example.
func printExplanation(c *commandCall, e *kind.Explanation) {
	c.Printf("%s: %s\n", screen.Cell{Text: e.Path, Colour: screen.Bold}, e.Type)
	for line := range strings.SplitSeq(e.Text, "\n") {
		c.Wrapf(0, "%s", line)
	}
	if e.Example != "" {
		c.Printf("\nExample (muster apply -f FILE):\n%s\n", screen.PaintedText(screen.Indent(e.Example)))
	}
	if len(e.Fields) > 0 {
		c.Printf("\nFields (* required):\n")
		printExplainedFields(c, e, "  ")
	}
}

// printExplainedFields prints the fields of a kind with their explanations. Nested fields are indented.
func printExplainedFields(c *commandCall, e *kind.Explanation, indent string) {
	for i := range e.Fields {
		f := &e.Fields[i]
		name := f.Name() + textIf(f.Must, " *")
		c.Printf("%s%s (%s)\n", indent, screen.Cell{Text: name, Colour: screen.Bold}, f.Type)
		for line := range strings.SplitSeq(f.Text, "\n") {
			c.Wrapf(len(indent)+4, "%s    %s", indent, line)
		}
		printExplainedFields(c, f, indent+"    ")
	}
}

// lintCommand makes the command muster lint, which validates files without a server.
func lintCommand(s *commandLine) *cobra.Command {
	var files []string
	var owner string
	return s.buildCommand(command{
		use: "lint FILE...", short: "Check files without a server",
		args: cobra.ArbitraryArgs, complete: completeFiles, offline: true,
		flags: func(flags *pflag.FlagSet) {
			registerFileFlag(flags, &files)
			flags.StringVar(&owner, "owner", "", "owner of the resources: a file that names another owner is an error")
		},
		run: func(c *commandCall) error {
			docs, err := c.readFilesWithResources(append(files, c.args...))
			if err == nil {
				err = findOtherOwners(docs, owner).Err()
			}
			if c.Format.IsForPrograms() {
				return printFlaws(c, err)
			}
			if err != nil {
				return err
			}
			c.Printf("%s, no errors\n", model.CountNoun(len(docs), "resource"))
			for _, note := range append(c.sensuNotes(docs), untrustedSelectionNotes(docs)...) {
				c.Wrapf(2, "%s", note)
			}
			return nil
		},
	})
}

// printFlaws prints the errors found by muster lint as JSON or YAML. Files without errors give an empty list.
func printFlaws(c *commandCall, err error) error {
	flaws, other := flawsOf(err)
	if other != nil {
		return other
	}
	if flaws == nil {
		flaws = model.Flaws{}
	}
	if err := c.WriteValue(flaws); err != nil || len(flaws) == 0 {
		return err
	}
	return &exitError{model.Invalid.Exit()}
}
