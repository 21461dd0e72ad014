//go:build linux && !noserver

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReferencePageIsUpToDate expects docs/reference/cli.md to equal the page generated from the commands.
func TestReferencePageIsUpToDate(t *testing.T) {
	testenv.Golden(t, "../../docs/reference/cli.md", makeReferencePage(newCommandTree()))
}

// makeReferencePage returns the text of the page docs/reference/cli.md. The page lists every command with its purpose,
// an example and its flags.
func makeReferencePage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command line\n\n`make docs` writes this page from the commands; `muster COMMAND --help` prints the same text.\n\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "%s", strings.TrimSuffix(group.Title, ":"))
		separator := ": "
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && c.Name() != "help" && !c.Hidden {
				fmt.Fprintf(&b, "%s[%s](#%s)", separator, c.Name(), strings.ReplaceAll(c.CommandPath(), " ", "-"))
				separator = " · "
			}
		}
		b.WriteString("\n\n")
	}
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

// writeCommand writes the section of one command to the reference page.
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

// writeFlags writes a table of flags to the reference page. The server's settings have a page of their own.
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
		def := "`" + f.DefValue + "`"
		if slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
			def = ""
		}
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
