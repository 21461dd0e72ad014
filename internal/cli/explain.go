package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

func explainCommand(s *session) *cobra.Command {
	return s.build(command{
		use: "explain [KIND[.FIELD]]", short: "Explain the kinds of resources and their fields",
		args: cobra.MaximumNArgs(1), complete: onlyArgument(cobra.FixedCompletions(s.kindWords(), noFiles)), offline: true,
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
			return c.show(e, func() { printExplanation(c, e) })
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

// Reference returns the page docs/reference/cli.md: every command with its purpose, an example and its
// flags, read from the tree of commands.
func Reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command line\n\n`make docs` writes this page from the commands; `muster COMMAND --help` prints the same text.\n\n")
	b.WriteString("## Flags of every command\n\n")
	writeFlags(&b, root.PersistentFlags())
	b.WriteString("`muster up` and `muster login` write server, CA and token into the context file; `MUSTER_SERVER`, `MUSTER_CA`\n" +
		"and `MUSTER_TOKEN` override the file, flags override both. Lists are tables, cut to the terminal; `-o wide` shows more and\n" +
		"cuts nothing, `-o json` and `-o yaml` are for programs. `NO_COLOR=1` turns colours off.\n\n")
	for _, topic := range root.Commands() {
		if topic.IsAdditionalHelpTopicCommand() {
			fmt.Fprintf(&b, "## %s\n\n```\n%s\n```\n\n", topic.Short, strings.TrimSpace(topic.Long))
		}
	}
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "## %s\n\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && c.Name() != "help" {
				writeCommand(&b, c)
			}
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func writeCommand(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	fmt.Fprintf(b, "### %s\n\n%s.\n\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."))
	switch long := strings.TrimSpace(c.Long); {
	case strings.Contains(long, "\n "): // preformatted
		fmt.Fprintf(b, "```\n%s\n```\n\n", long)
	case long != "":
		b.WriteString(long + "\n\n")
	}
	if c.Runnable() && !c.DisableFlagParsing {
		fmt.Fprintf(b, "    %s\n\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "For example\n\n```\n%s\n```\n\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
	writeFlags(b, c.LocalNonPersistentFlags())
	for _, sub := range c.Commands() {
		writeCommand(b, sub)
	}
}

// writeFlags writes a table of flags. The server's settings have a page of their own.
func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	setting := map[string]bool{}
	for _, f := range config.Fields() {
		setting[f.Name] = true
	}
	rows, settings := "", 0
	flags.VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Name == "help":
			return
		case setting[f.Name] && flags.Lookup("config") != nil:
			settings++
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		def := textIf(f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]", "`"+f.DefValue+"`")
		rows += fmt.Sprintf("| %s | %s | %s |\n", name, def, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	if rows != "" {
		b.WriteString("| flag | default | |\n|---|---|---|\n" + rows + "\n")
	}
	switch {
	case settings == len(setting):
		b.WriteString("All [settings of the server](configuration.md) are flags, too.\n\n")
	case settings > 0:
		var names []string
		flags.VisitAll(func(f *pflag.Flag) {
			if setting[f.Name] {
				names = append(names, "`--"+f.Name+"`")
			}
		})
		fmt.Fprintf(b, "And these [settings of the server](configuration.md): %s.\n\n", strings.Join(names, ", "))
	}
}
