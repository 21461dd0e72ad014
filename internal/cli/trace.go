package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
)

func whyCommand(s *session) *cobra.Command {
	return s.build(command{
		use: "why NODE[/CHECK]", short: "Trace a check on a node, from its declaration to its notifications",
		long: "Follows a check on a node from its declaration to the notifications of its problem. The first line\n" +
			"with ! is the reason why the lines below it did not happen. For a node alone it shows its groups\nand checks, and their reasons.",
		example: "  muster why web01/disk\n  muster why web01",
		args:    cobra.ExactArgs(1), complete: s.completeEvents,
		check: func(c *call) error {
			if node, _, _ := strings.Cut(c.args[0], "/"); node == "" || strings.HasSuffix(c.args[0], "/") {
				_, _, err := nodeCheck(c.args[0])
				return err
			}
			return nil
		},
		run: func(c *call) error {
			node, check, _ := strings.Cut(c.args[0], "/")
			trace, err := c.api.Events.Trace(c.ctx, c.ns(), node, check)
			if err != nil {
				return err
			}
			return c.show(trace, func() error { printTrace(c, trace); return nil })
		},
	})
}

// printTrace writes the chain: a name and a link, and indented below it the links that it rests on.
func printTrace(c *call, trace v1.Trace) {
	name := trace.Node
	if trace.Check != "" {
		name += "/" + trace.Check
	}
	c.Printf("%s in namespace %s\n\n", name, trace.Namespace)
	last := ""
	for _, link := range trace.Links {
		name := link.Name
		if name == last {
			name = ""
		}
		last = link.Name
		printLink(c, fmt.Sprintf("%-10s", name), link)
	}
}

func printLink(c *call, before string, link v1.Link) {
	text := screen.Cell{Text: "  " + link.Text}
	if !link.At.IsZero() {
		text.Text += " " + c.When(link.At)
	}
	if !link.Holds {
		text = screen.Cell{Text: "! " + strings.TrimPrefix(text.Text, "  "), Colour: screen.Red}
	}
	c.Wrapf(len(before)+3, "%s %s", screen.Painted(before), text)
	for _, under := range link.Under {
		printLink(c, strings.Repeat(" ", len(before)+2), under)
	}
}
