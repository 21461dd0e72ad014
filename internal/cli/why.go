package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

func (a *app) whyCmd() *cobra.Command {
	var output *format
	c := &cobra.Command{
		Use:   "why NODE[/CHECK]",
		Short: "What put a check on a node, and how far it came",
		Long: "Follows a check on a node from who declared it to who was told of its problem. The first line\n" +
			"marked with ! is why what comes after it did not happen. Of a node alone: its groups and checks,\n" +
			"and what put it there.",
		Example: "  muster why web01/disk\n  muster why web01",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeEvents,
		RunE: func(c *cobra.Command, args []string) error {
			node, check, _ := strings.Cut(args[0], "/")
			if node == "" || strings.HasSuffix(args[0], "/") {
				_, _, err := nodeCheck(args[0])
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			why, err := client.Events.Trace(c.Context(), a.ns(), node, check)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, why)
			}
			a.printWhy(why)
			return nil
		},
	}
	output = formatFlag(c)
	return c
}

// printWhy writes the chain: a name, and what holds or does not; below it, deeper and
// deeper, what that rests on.
func (a *app) printWhy(why v1.Why) {
	name := why.Node
	if why.Check != "" {
		name += "/" + why.Check
	}
	fmt.Fprintf(a.Stdout, "%s in namespace %s\n\n", clean(name, false), clean(why.Namespace, false))
	last := ""
	for _, link := range why.Links {
		name := link.Name
		if name == last {
			name = ""
		}
		last = link.Name
		a.printLink(fmt.Sprintf("%-10s", name), link)
	}
}

func (a *app) printLink(before string, link v1.Link) {
	text := clean(link.Text, false)
	if !link.At.IsZero() {
		text += " " + a.when(link.At)
	}
	if !link.Holds {
		text = a.paint(red, "! "+text)
	} else {
		text = "  " + text
	}
	a.wrapped(before+" "+text, len(before)+3)
	for _, under := range link.Under {
		a.printLink(strings.Repeat(" ", len(before)+2), under)
	}
}
