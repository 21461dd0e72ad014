package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// printPending shows machines that wait. What decides, the whole key, has a line of its own:
// it is compared by eye with what the machine shows.
func (a *app) printPending(ctx context.Context, c *client.Client, output format) error {
	list, err := c.Pending(ctx)
	if err != nil {
		return err
	}
	if output.machine() {
		return a.printValue(output, list)
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(a.Stdout, "no machine waits to be let in. On a machine: muster-agent join --server HOST:PORT")
		return nil
	}
	for _, p := range list.Items {
		fmt.Fprintf(a.Stdout, "%s  from %s, waits for %s\n", a.paint(bold, clean(p.Name, false)), clean(p.Whence, false), age(a.Now(), p.Since))
		a.line("  key", "%s", p.Key)
		for _, set := range []struct {
			name string
			of   map[string]string
		}{{"  facts", p.Facts}, {"  labels", p.Labels}} {
			if len(set.of) > 0 {
				a.line(set.name, "%s", few(set.of))
			}
		}
		if len(p.Groups) > 0 {
			a.line("  wants", "%s", strings.Join(p.Groups, ", "))
		}
	}
	key := clean(list.Items[0].Key[:16], false)
	fmt.Fprintf(a.Stdout, "\nIf the machine shows the same key: muster node accept %s   (or: muster node refuse %s)\n", key, key)
	return nil
}

// few are pairs in one line, of which long ones are cut.
func few(set map[string]string) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		v := set[k]
		if len(v) > 40 {
			v = v[:40] + "…"
		}
		words = append(words, k+"="+v)
	}
	return strings.Join(words, ", ")
}

func (a *app) nodeAccept() *cobra.Command {
	var groups, labels []string
	var name string
	c := &cobra.Command{
		Use: "accept NAME|KEY", Short: "Let a machine in that asked without a token", Args: cobra.ExactArgs(1),
		Long: "Makes a machine a node that asked with muster-agent join --server, without a token. It is named by\n" +
			"the name it wants, or by the first digits of its key (16 or more), which the machine shows, too:\n" +
			"compare them, because a name can be claimed by anybody.",
		Example: "  muster node list --pending\n  muster node accept web07 --groups web\n  muster node accept 3f2a91bc77e012d4 --name web07",
		RunE: func(c *cobra.Command, args []string) error {
			r := v1.PendingAccept{Which: args[0], Name: name, Namespace: a.ns(), Groups: groups}
			var err error
			if r.Labels, err = labelsOf(labels); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			m, err := client.AcceptPending(c.Context(), r)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s is let in; the machine hears of it when it asks again, within half a minute\n", clean(refOf("Node", m.Namespace, m.Name), false))
			return nil
		},
	}
	groupFlags(c, &groups, &labels)
	c.Flags().StringVar(&name, "name", "", "name of the node (default: what the machine wants)")
	return c
}

func (a *app) nodeRefuse() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "refuse NAME|KEY", Short: "Refuse a machine that asked without a token, for good", Args: cobra.ExactArgs(1),
		Long:    "Says no to a machine that asked with muster-agent join --server, and to its key for good. With a join\ntoken it is let in all the same.",
		Example: "  muster node refuse 3f2a91bc77e012d4 -m \"not one of ours\"",
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			m, err := client.RefusePending(c.Context(), v1.PendingRefuse{Which: args[0], Reason: reason})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s with the key %s is refused\n", clean(m.Name, false), m.Key)
			return nil
		},
	}
	c.Flags().StringVarP(&reason, "message", "m", "", "why: the machine is told")
	return c
}

func (a *app) nodeCA() *cobra.Command {
	var output *format
	c := &cobra.Command{
		Use: "ca", Short: "Show the hash of the server's CA, for machines that join without a token", Args: cobra.NoArgs,
		Example: "  muster node ca",
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			ca, err := client.Authority(c.Context())
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, ca)
			}
			if len(ca.Addresses) == 0 {
				return model.Errorf(model.Internal, "the server knows no address for agents")
			}
			fmt.Fprintf(a.Stdout, "%s\n\nOn a machine: muster-agent join --server %s --ca-hash %s\n", ca.Hash, clean(ca.Addresses[0], false), ca.Hash)
			return nil
		},
	}
	output = formatFlag(c)
	return c
}
