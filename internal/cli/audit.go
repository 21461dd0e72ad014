package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

func (a *app) auditCmd() *cobra.Command {
	var output *format
	var limit int
	var diff bool
	c := &cobra.Command{
		Use:     "audit [KIND [NAME]]",
		Short:   "Who changed what, when, whence and why; newest first",
		Example: "  muster audit\n  muster audit check disk --diff",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			var kind, name string
			if len(args) > 0 {
				k, err := kindOf(args[0])
				if err != nil {
					return err
				}
				kind = k.Name
			}
			if len(args) > 1 {
				name = args[1]
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			list, err := client.Changes(c.Context(), kind, a.namespace, name, limit, "")
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, list)
			}
			if len(list.Items) == 0 {
				fmt.Fprintln(a.Stdout, "no change is recorded")
			}
			for _, change := range list.Items {
				fmt.Fprintf(a.Stdout, "%6d  %s  %s\n", change.Revision, change.At.In(a.Zone).Format("2006-01-02 15:04:05"), clean(a.changeText(change), false))
				if diff {
					a.printPatch(change.Diff)
				}
			}
			if list.Next != "" {
				fmt.Fprintln(a.Stdout, "there are older ones: --limit N")
			}
			return nil
		},
	}
	output = formatFlag(c)
	c.Flags().IntVar(&limit, "limit", 20, "changes at most")
	c.Flags().BoolVar(&diff, "diff", false, "show the differences")
	return c
}

// changeText is a change in one line: admin updated check/disk from 10.0.0.7: why.
func (a *app) changeText(c v1.Change) string {
	text := c.User + " " + strings.TrimSuffix(c.Op, "e") + "ed " + refOf(c.Kind, c.Namespace, c.Name)
	if c.Whence != "" && c.Whence != "local" {
		text += " from " + c.Whence
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

func (a *app) changeLine(c v1.Change) string {
	return age(a.Now(), c.At) + " ago " + a.changeText(c)
}
