//go:build linux && !noserver

package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/agent/agentcmd"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/testenv"
)

var manFolder = flag.String("man", "", "write the man pages into this folder; scripts/packages.sh does")

// TestManPagesHaveEveryCommand writes a man page for each command and expects its description, example and flags in
// the page.
func TestManPagesHaveEveryCommand(t *testing.T) {
	dir := *manFolder
	if dir == "" {
		dir = t.TempDir()
	}
	root := newCommandTree()
	writeManPages(t, root, dir)
	writeManPages(t, newAgentTree(), dir)
	var findPage func(*cobra.Command)
	findPage = func(c *cobra.Command) {
		if _, err := os.Stat(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")); err != nil && c.IsAvailableCommand() {
			t.Error(err)
		}
		for _, sub := range c.Commands() {
			findPage(sub)
		}
	}
	findPage(root)
	for page, want := range map[string][]string{
		"muster.1":            {"interrupted by Ctrl-C", "muster-get(1)"},
		"muster-server.1":     {config.Fields()[0].Name, config.Fields()[len(config.Fields())-1].Name, "SIGHUP reopens the log file"},
		"muster-get.1":        {"selector", "namespace"},
		"muster-agent.1":      {"spool-size", "muster-agent-join(1)"},
		"muster-agent-join.1": {"usage: muster-agent join [TOKEN|@FILE] [flags]", "keep-token"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		testenv.NoError(t, err)
		plain := strings.ReplaceAll(string(text), `\`, "")
		for _, w := range want {
			if !strings.Contains(plain, w) {
				t.Errorf("%s: no %q in\n%s", page, w, plain)
			}
		}
	}
}

// newAgentTree returns muster-agent and its subcommands as a command tree, for their man pages.
func newAgentTree() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "muster-agent", Short: "Run an agent on this machine", Long: agentcmd.Usage(), DisableFlagParsing: true, Run: run}
	for name, help := range agentcmd.SubcommandHelp() {
		first, _, _ := strings.Cut(strings.SplitN(help, "\n\n", 3)[1], ".")
		root.AddCommand(&cobra.Command{Use: name, Short: strings.Join(strings.Fields(first), " "), Long: help, DisableFlagParsing: true, Run: run})
	}
	return root
}

// writeManPages writes the man pages of a command and all its subcommands.
func writeManPages(t *testing.T, root *cobra.Command, dir string) {
	topics := ""
	for _, c := range root.Commands() {
		if c.IsAdditionalHelpTopicCommand() {
			topics += "\n\n# " + strings.ToUpper(c.Name()) + "\n" + codeBlock(c.Long)
		}
	}
	escapeCommand(root)
	root.Long += topics
	testenv.NoError(t, doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Muster", Manual: "Muster"}, dir))
}

// markdownCharacters matches the special characters of Markdown, the source format of the man pages.
var markdownCharacters = regexp.MustCompile("[\\\\`*_{}\\[\\]<>#|~]")

// escapeMarkdown puts a backslash before each character that Markdown would interpret
func escapeMarkdown(s string) string { return markdownCharacters.ReplaceAllString(s, `\$0`) }

// codeBlock returns a text as a fenced code block of Markdown.
func codeBlock(s string) string { return "```\n" + strings.Trim(s, "\n") + "\n```\n" }

// escapeCommand escapes the help texts of a command and its subcommands as Markdown, for the man pages.
func escapeCommand(c *cobra.Command) {
	c.DisableAutoGenTag = true
	switch {
	case strings.Contains(c.Long, "\n "): // preformatted
		c.Long = codeBlock(c.Long)
	default:
		c.Long = escapeMarkdown(c.Long)
	}
	c.Short = escapeMarkdown(c.Short)
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		f.Usage = escapeMarkdown(f.Usage)
		f.Hidden = f.Hidden && c.Name() != "server"
	})
	for _, sub := range c.Commands() {
		escapeCommand(sub)
	}
}
