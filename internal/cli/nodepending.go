package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// printPending shows machines that wait. What decides, the whole key, has a line of its own:
// it is compared by eye with what the machine shows.
func (a *app) printPending(ctx context.Context, c *client.Client, g *getFlags) error {
	output := *g.output
	list, err := c.Enrolment.Pending(ctx, g.narrow())
	if err != nil {
		return err
	}
	if output.machine() {
		return a.printValue(output, list)
	}
	if len(list.Items) == 0 && g.selector+g.where != "" {
		fmt.Fprintln(a.Stdout, "no machine that waits matches")
		return nil
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(a.Stdout, "no machine waits to be let in. On a machine: muster-agent join --server HOST:PORT")
		return nil
	}
	returning := 0
	for _, p := range list.Items {
		fmt.Fprintf(a.Stdout, "%s  from %s, waits for %s\n", a.paint(bold, clean(p.Name, false)), clean(p.Whence, false), model.Age(a.Now(), p.Since))
		a.line("  key", "%s", p.Key)
		if r := p.Returns; r != nil {
			returning++
			a.line("  was", "%s, node %s, by its certificate of %s", clean(refOf("Node", r.Namespace, p.Name), false), r.UID, r.Certified.Local().Format(time.DateTime))
		}
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
	fmt.Fprintln(a.Stdout)
	if returning > 0 {
		fmt.Fprintf(a.Stdout, "%s nodes of this server, which does not know them any more: muster node accept --all-returning   (first refuse what was retired since the copy was made)\n", were(returning))
	}
	if returning < len(list.Items) {
		first := list.Items[slices.IndexFunc(list.Items, func(p v1.Pending) bool { return p.Returns == nil })]
		key := clean(first.Key[:16], false)
		fmt.Fprintf(a.Stdout, "If the machine shows the same key: muster node accept %s   (or: muster node refuse %s)\n", key, key)
	}
	return nil
}

func were(n int) string {
	if n == 1 {
		return "1 machine was one of the"
	}
	return fmt.Sprintf("%d machines were", n)
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
	var all bool
	c := &cobra.Command{
		Use: "accept NAME|KEY | --all-returning", Short: "Let a machine in that asked without a token", Args: cobra.MaximumNArgs(1),
		Long: "Makes a machine a node that asked with muster-agent join --server, without a token. It is named by\n" +
			"the name it wants, or by the first digits of its key (16 or more), which the machine shows, too:\n" +
			"compare them, because a name can be claimed by anybody.\n\n" +
			"--all-returning lets all in that were nodes by a certificate of this server, which does not know them\n" +
			"because it went back to an older copy of its data: with the ids that they had, so that nothing they\n" +
			"hold is lost. Groups and labels that operators and tokens gave them are gone with the data: give them\n" +
			"anew with --groups and --labels.",
		Example: "  muster node list --pending\n  muster node accept web07 --groups web\n  muster node accept 3f2a91bc77e012d4 --name web07\n  muster node accept --all-returning",
		RunE: func(c *cobra.Command, args []string) error {
			given, err := labelsOf(labels)
			if err != nil {
				return err
			}
			if all == (len(args) == 1) || all && name != "" {
				return model.Errorf(model.Invalid, "want a name or a key, or --all-returning without a name").WithHint("who waits: muster node list --pending")
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if all {
				return a.acceptReturning(c.Context(), client, v1.PendingReturning{Groups: groups, Labels: given})
			}
			r := v1.PendingAccept{Which: args[0], Name: name, Namespace: a.namespace, Groups: groups, Labels: given}
			m, err := client.Enrolment.Accept(c.Context(), r)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s is let in; the machine hears of it when it asks again, within half a minute\n", clean(refOf("Node", m.Namespace, m.Name), false))
			return nil
		},
	}
	groupFlags(c, &groups, &labels)
	c.Flags().StringVar(&name, "name", "", "name of the node (default: what the machine wants)")
	c.Flags().BoolVar(&all, "all-returning", false, "all that were nodes which the server does not know any more")
	return c
}

func (a *app) acceptReturning(ctx context.Context, c *client.Client, r v1.PendingReturning) error {
	done, err := c.Enrolment.AcceptReturning(ctx, r)
	if err != nil {
		return err
	}
	for _, m := range done.Items {
		fmt.Fprintf(a.Stdout, "%s is let in again\n", clean(refOf("Node", m.Namespace, m.Name), false))
	}
	for _, l := range done.Left {
		fmt.Fprintf(a.Stdout, "%s still waits: %s\n", clean(l.Name, false), clean(l.Why, false))
		if l.Hint != "" {
			fmt.Fprintf(a.Stdout, "  %s\n", clean(l.Hint, false))
		}
	}
	if len(done.Items)+len(done.Left) == 0 {
		fmt.Fprintln(a.Stdout, "no machine waits that was a node; each asks about every half minute, once it was sent away: muster node list --pending")
	}
	return nil
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
			m, err := client.Enrolment.Refuse(c.Context(), v1.PendingRefuse{Which: args[0], Reason: reason})
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
			ca, err := client.Enrolment.Authority(c.Context())
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, ca)
			}
			if len(ca.Addresses) == 0 {
				return model.Errorf(model.Internal, "the server knows no address for agents").WithHint("start the server with --listen :PORT, or with --advertise NAME")
			}
			fmt.Fprintf(a.Stdout, "%s\n\nOn a machine: muster-agent join --server %s --ca-hash %s\n", ca.Hash, clean(ca.Addresses[0], false), ca.Hash)
			return nil
		},
	}
	output = formatFlag(c)
	return c
}
