package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// lifeFlags say what becomes of the nodes that join with a token.
type lifeFlags struct {
	replace, ephemeral bool
	forgetAfter        string
	tell               []string
}

func (f *lifeFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.replace, "replace", false, "a machine takes the place of a node that has its name and no session")
	c.Flags().BoolVar(&f.ephemeral, "ephemeral", false, "the machines come and go: a node that is away for --forget-after is forgotten")
	c.Flags().StringSliceVar(&f.tell, "tell", nil, "handlers that are told when an ephemeral node is forgotten")
	c.Flags().StringVar(&f.forgetAfter, "forget-after", "", "how long an ephemeral node may be away (default 1h)")
}

func (f *lifeFlags) into(r *v1.JoinTokenRequest) error {
	r.Replace = f.replace
	if !f.ephemeral && len(f.tell) > 0 {
		return model.Errorf(model.Invalid, "--tell is of ephemeral nodes only").WithHint("muster node token --ephemeral --tell %s", f.tell[0])
	}
	if !f.ephemeral && f.forgetAfter == "" {
		return nil
	}
	r.Lifecycle = &model.Lifecycle{Ephemeral: f.ephemeral, Handlers: f.tell}
	if f.forgetAfter == "" {
		return nil
	}
	d, err := model.ParseDuration(f.forgetAfter)
	if err != nil {
		return model.Errorf(model.Invalid, "--forget-after: %w", err).WithHint("for example 30m, 1h")
	}
	if !f.ephemeral {
		return model.Errorf(model.Invalid, "--forget-after is of ephemeral nodes only").WithHint("muster node token --ephemeral --forget-after %s", f.forgetAfter)
	}
	r.Lifecycle.ForgetAfter = d
	return nil
}

func (a *app) nodeReplace() *cobra.Command {
	var message, lasts string
	var output *format
	node := kind.Node().KindInfo
	c := &cobra.Command{
		Use:   "replace NAME",
		Short: "Let another machine, or one installed anew, become a node",
		Long: "Prints the line to paste on a machine that is to be this node: a host that was installed anew,\nor new hardware. When it joins, the node keeps its events, history and properties, and the\n" +
			"machine before is sent away and told why. The line works once.",
		Example: "  muster node replace web01 -m \"new disk, installed anew\"",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeNames(node),
		RunE: func(c *cobra.Command, args []string) error {
			seconds, err := lasting("--for", lasts)
			if err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			t, err := client.Nodes.Replace(c.Context(), a.ns(), args[0], v1.NodeReplace{ExpiresIn: seconds, Message: message})
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, t)
			}
			until := ""
			if !t.Expires.IsZero() {
				until = " until " + t.Expires.In(a.Zone).Format("2006-01-02 15:04:05 MST")
			}
			fmt.Fprintf(a.Stdout, "On the machine that is to be %s, paste:\n\n  muster-agent join %s\n\nIt works once%s. Take it back with: muster node token delete %s\n",
				clean(args[0], false), clean(t.Token, false), until, clean(t.ID, false))
			return nil
		},
	}
	output = formatFlag(c)
	c.Flags().StringVar(&lasts, "for", "1h", "how long the line is valid (0: for ever)")
	c.Flags().StringVarP(&message, "message", "m", "", "why; the machine before is told")
	return c
}

func (a *app) nodeRetire() *cobra.Command {
	var f applyFlags
	var selector string
	k := kind.Node()
	c := &cobra.Command{
		Use:   "retire NAME... | -l LABELS",
		Short: "Take nodes out of service",
		Long: "Takes nodes out of service, all of them or none: their events go, open problems are resolved\nfor those who were told, their agents are sent away, and a machine that comes back is told by\n" +
			"whom, when and why. What lands on more nodes than --max-affected needs --yes. muster node list\n--retired shows them; a new token lets such a machine join again, as a new node.",
		Example:           "  muster node retire web01 -m \"scrapped\"\n  muster node retire -l rack=a7 --dry-run",
		ValidArgsFunction: a.completeNames(k.KindInfo),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && selector == "":
				return model.Errorf(model.Invalid, "it is not said which nodes").WithHint("%s NAME, or %s -l LABELS", c.CommandPath(), c.CommandPath())
			case len(args) > 0 && selector != "":
				return model.Errorf(model.Invalid, "names say which nodes; -l may not").WithHint("%s %s", c.CommandPath(), args[0])
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			r := v1.NodeRetire{DryRun: f.dryRun, Message: f.message, MaxAffected: f.maxAffected, Yes: f.yes}
			for _, name := range args {
				r.Nodes = append(r.Nodes, v1.NodeRef{Namespace: a.ns(), Name: name})
			}
			if selector != "" {
				refs, err := refsIn(c.Context(), client, k, a.ns(), selector)
				if err != nil {
					return err
				}
				for _, ref := range refs {
					r.Nodes = append(r.Nodes, v1.NodeRef{Namespace: ref.Namespace, Name: ref.Name})
				}
			}
			if len(r.Nodes) == 0 {
				return a.nothingToDelete(&which{selector: selector}, k.Name, *f.output)
			}
			done, err := client.Nodes.Retire(c.Context(), r)
			if err != nil {
				return err
			}
			return a.printApplied(done, *f.output)
		},
	}
	f.add(c, false, true)
	c.Flags().StringVarP(&selector, "selector", "l", "", "those with these labels: rack=a7,tier!=db,owner,!old")
	return c
}

func (a *app) nodeForgive() *cobra.Command {
	return &cobra.Command{
		Use: "forgive ID...", Short: "Forget what is known against machines, so that they may ask to join", Args: cobra.MinimumNArgs(1),
		Long:    "Takes away what is kept of machines that were retired, replaced or refused. They are then\nunknown, and may ask to join like any other. ID is as muster node list --retired shows it.",
		Example: "  muster node forgive 9b2f1c3e-0d7a-4d55-8d0c-6f6f4c1f3a10",
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			for _, id := range args {
				if err := client.Nodes.DeleteTombstone(c.Context(), id); err != nil {
					return err
				}
				fmt.Fprintf(a.Stdout, "%s is forgiven: its machine may ask to join\n", clean(id, false))
			}
			return nil
		},
	}
}

// listTombstones shows the machines that are nodes no more.
func (a *app) listTombstones(ctx context.Context, c *client.Client, g *getFlags) error {
	limit, f := g.limit, *g.output
	if g.selector != "" {
		return model.Errorf(model.Invalid, "of machines that are nodes no more, labels are not kept").WithHint("--where 'row.by == \"ann\"'")
	}
	if limit == 0 {
		limit = 10000
	}
	list, err := c.Nodes.Tombstones(ctx, limit, g.narrow())
	if err != nil {
		return err
	}
	if f.machine() {
		return a.printValue(f, list)
	}
	if len(list.Items) == 0 && g.where != "" {
		fmt.Fprintln(a.Stdout, "none match")
		return nil
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(a.Stdout, "no machine was retired, replaced or refused")
		return nil
	}
	t := newTable("NODE", "WHY", "WHEN", "BY", "BECAUSE", "ID")
	for _, one := range list.Items {
		name := strings.TrimPrefix(refOf("", one.Namespace, one.Name), "/")
		t.add(dash(name), one.Why, model.Age(a.Now(), one.At)+" ago", dash(one.By), dash(one.Reason), one.ID)
	}
	if err := t.write(a.Env); err != nil {
		return err
	}
	if more := list.All - len(list.Items); more > 0 {
		fmt.Fprintf(a.Stdout, "%d more: --limit 0\n", more)
	}
	return nil
}
