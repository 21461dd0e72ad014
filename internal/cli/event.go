package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) eventCmd() *cobra.Command {
	c := &cobra.Command{Use: "event", Short: "Acknowledge, resolve or delete events by hand", RunE: helpOf,
		Long: "Says that you look after an event's problem, sets it to OK, or forgets it, by hand. All of it is\nkept with who did it and why. An acknowledgement ends with the problem; a status that was set\n" +
			"lasts until the next result says otherwise. Events are named, or picked by what they are and where\n" +
			"(-l, --where, --status, --check, --node, --group, which must all hold): how many and which is shown first.\n" +
			"'muster audit run' says what became of it. To type it again is safe: it is done where it is not yet.",
		Example: "  muster event ack web01/disk --for 2h -m \"new disk is on its way\"\n  muster event resolve web01/disk -m \"cleaned up\"\n" +
			"  muster event ack --group web --status critical -m \"the switch\" --dry-run",
	}
	var note string
	var length model.Duration
	for _, verb := range []struct {
		use, alias, short, example string
		bulk                       string
		do                         eventVerb
	}{
		{"ack", "acknowledge", "Say that you look after problems", " --for 2h -m \"on it\"", "acknowledge",
			func(ctx context.Context, c *client.Client, node, check string) (string, error) {
				done, until := "acknowledged until its problem ends", time.Time{}
				if length > 0 {
					until = a.Now().Add(time.Duration(length))
					done = "acknowledged for " + length.String()
				}
				return done, c.Events.Acknowledge(ctx, a.ns(), node, check, note, until)
			}},
		{"unack", "unacknowledge", "Take acknowledgements back", "", "unacknowledge",
			func(ctx context.Context, c *client.Client, node, check string) (string, error) {
				return "not acknowledged any more", c.Events.Unacknowledge(ctx, a.ns(), node, check, note)
			}},
		{"resolve", "", "Set events to OK until the next result says otherwise", " -m \"cleaned up\"", "resolve",
			func(ctx context.Context, c *client.Client, node, check string) (string, error) {
				return "resolved", c.Events.Resolve(ctx, a.ns(), node, check, note)
			}},
		{"delete", "", "Forget events; they come back with the next result", "", "delete",
			a.deleteEvent(&note)},
	} {
		f := &bulkFlags{}
		sub := &cobra.Command{
			Use: verb.use + " NODE/CHECK... | " + verb.use + " -l LABELS --where CONDITION --status STATUS --check NAME --group NAME", Short: verb.short, Args: cobra.ArbitraryArgs,
			Example: "  muster event " + verb.use + " web01/disk" + verb.example + "\n  muster event " + verb.use + " --group web --check disk" + verb.example, ValidArgsFunction: a.completeEvents,
			RunE: func(c *cobra.Command, args []string) error {
				if err := f.args(c, args); err != nil {
					return err
				}
				if len(args) > 0 {
					return a.eventAction(c, args, verb.do)
				}
				f.Note = note
				return a.bulk(c, f, verb.bulk, length)
			},
		}
		f.add(sub)
		if verb.alias != "" {
			sub.Aliases = []string{verb.alias}
		}
		sub.Flags().StringVarP(&note, "message", "m", "", "why; kept with the action")
		if verb.use == "ack" {
			sub.Flags().Var(&durationFlag{&length}, "for", "when it ends, if the problem does not end before: 30m, 2h, 3d")
		}
		c.AddCommand(sub)
	}
	return c
}

func (a *app) deleteEvent(note *string) eventVerb {
	return func(ctx context.Context, c *client.Client, node, check string) (string, error) {
		return "deleted", c.Events.Delete(ctx, a.ns(), node, check, *note)
	}
}

// eventVerb does one thing to one event and says so.
type eventVerb func(ctx context.Context, c *client.Client, node, check string) (done string, err error)

// helpCmd is muster help COMMAND, which says so where there is no such command.
func (a *app) helpCmd(root *cobra.Command) *cobra.Command {
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
				return a.unknownCommand(c, rest)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

func helpOf(c *cobra.Command, _ []string) error { return c.Help() }

// eventAction does one thing to each event; it stops at the first that fails.
func (a *app) eventAction(c *cobra.Command, names []string, do eventVerb) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	for _, name := range names {
		node, check, err := nodeCheck(name)
		if err != nil {
			return err
		}
		done, err := do(c.Context(), client, node, check)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "event %s %s\n", clean(name, false), done)
	}
	return nil
}
