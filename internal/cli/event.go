package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) eventCmd() *cobra.Command {
	c := &cobra.Command{Use: "event", Short: "Resolve or delete events by hand", RunE: helpOf,
		Long:    "Sets an event to OK, or forgets it, by hand. Both are kept with who did it and why, and\nlast until the next result says otherwise.",
		Example: "  muster event resolve web01/disk -m \"cleaned up\"",
	}
	for _, verb := range []struct{ use, short string }{
		{"resolve", "Set events to OK until the next result says otherwise"},
		{"delete", "Forget events; they come back with the next result"},
	} {
		var note string
		sub := &cobra.Command{
			Use: verb.use + " NODE/CHECK...", Short: verb.short, Args: cobra.MinimumNArgs(1),
			Example: "  muster event " + verb.use + " web01/disk -m \"cleaned up\"", ValidArgsFunction: a.completeEvents,
			RunE: func(c *cobra.Command, args []string) error { return a.eventAction(c, verb.use, args, note) },
		}
		sub.Flags().StringVarP(&note, "message", "m", "", "why; kept with the action")
		c.AddCommand(sub)
	}
	return c
}

// helpCmd is muster help COMMAND, which says so where there is no such command.
func helpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "What a command does, with its flags and an example",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			at, _, err := root.Find(args)
			if err != nil {
				return nil, noFiles
			}
			for _, c := range at.Commands() {
				if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, noFiles
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(c, rest)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

func helpOf(c *cobra.Command, _ []string) error { return c.Help() }

// eventAction does one thing to each event; it stops at the first that fails.
func (a *app) eventAction(c *cobra.Command, verb string, names []string, note string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	for _, name := range names {
		node, check, err := nodeCheck(name)
		if err != nil {
			return err
		}
		done := "resolved"
		if verb == "delete" {
			err, done = client.DeleteEvent(c.Context(), a.ns(), node, check, note), "deleted"
		} else {
			err = client.Resolve(c.Context(), a.ns(), node, check, note)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "event %s %s\n", clean(name, false), done)
	}
	return nil
}
