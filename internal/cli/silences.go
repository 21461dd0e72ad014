package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) silenceList() *cobra.Command {
	g := &getFlags{limit: 50}
	c := &cobra.Command{
		Use: "list", Short: "List silences: what they cover, until when, by whom, why, and what they hold now",
		Example: "  muster silence list\n  muster silence list -A", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			k := kind.Silence()
			return a.getResources(c.Context(), client, k, nil, g)
		},
	}
	c.Flags().BoolVarP(&g.all, "all-namespaces", "A", false, "of all namespaces")
	c.Flags().IntVar(&g.limit, "limit", 50, "rows at most (0: all)")
	c.Flags().StringVarP(&g.selector, "selector", "l", "", "those with these labels of their own: team=web")
	c.Flags().StringVar(&g.where, "where", "", "CEL over metadata and spec: spec.creator == \"ann\"")
	g.output = formatFlag(c)
	return c
}

func (a *app) silenceEnd() *cobra.Command {
	var note string
	var output *format
	k := kind.Silence().KindInfo
	c := &cobra.Command{
		Use: "end NAME...", Short: "End silences: what they hold and is still open is told",
		Example: "  muster silence end web01-disk-20261122-093000 -m \"the disk is in\"", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeNames(k),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			var ended []v1.Silenced
			for _, name := range args {
				one, err := client.Notifications.EndSilence(c.Context(), a.ns(), name, note)
				if err != nil {
					return err
				}
				if ended = append(ended, one); !output.machine() {
					fmt.Fprintf(a.Stdout, "silence %s ended; it held %s\n", clean(name, false), model.CountNoun(one.Holds, "problem"))
				}
			}
			if output.machine() {
				return a.printValue(*output, ended)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&note, "message", "m", "", "why; kept in the record of changes")
	output = formatFlag(c)
	return c
}
