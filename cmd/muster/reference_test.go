//go:build linux && !noserver

package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/cli"
	"github.com/muster-fleet/muster/internal/testenv"
)

const referencePage = "../../docs/reference/cli.md"

// tree makes a new tree of commands, with all flags at their defaults.
func tree() *cobra.Command {
	c := cli.Root(cli.System(), extras()...)
	c.InitDefaultHelpCmd()
	c.InitDefaultCompletionCmd()
	return c
}

// TestReferencePageIsUpToDate writes the page with -update: make docs does.
func TestReferencePageIsUpToDate(t *testing.T) {
	page := cli.Reference(tree())
	testenv.Golden(t, referencePage, page)
}

// TestEveryCommandHasHelp requires a short text and an example of every command.
func TestEveryCommandHasHelp(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.Name() == "help" || c.Parent() != nil && c.Parent().Name() == "completion" || c.IsAdditionalHelpTopicCommand() {
			return
		}
		if c.Short == "" || c.Name() != "completion" && c.Example == "" {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		for line := range strings.Lines(c.Long) {
			if len([]rune(strings.TrimRight(line, "\n"))) > 110 && c.Name() != "agent" {
				t.Errorf("%s: a long line: %s", c.CommandPath(), line)
			}
		}
	}
	walk(tree())
}
