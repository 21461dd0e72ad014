package cli

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

func (a *app) nodeCmd() *cobra.Command {
	c := &cobra.Command{Use: "node", Short: "Let machines join, list, rename, replace and retire them", RunE: helpOf,
		Long:    "Makes the tokens with which machines join, and lists machines. A token says the namespace,\ngroups and labels that its machines get. What happens to a machine afterwards: rename,\nreplace, retire.",
		Example: "  muster node token --groups web --for 24h --uses 50\n  muster node list",
	}
	token := &cobra.Command{
		Use:   "token",
		Short: "Make a token with which machines join; list and delete them",
		Long:  "Prints the line to paste on a machine, so that it joins. The token is shown once; list shows\nwhat is left of it, delete takes it back.",
		Args:  cobra.NoArgs,
	}
	create := a.tokenCreate()
	token.RunE, token.Example = create.RunE, create.Example
	token.Flags().AddFlagSet(create.Flags())
	token.AddCommand(create, a.tokenList(), a.tokenDelete())

	g, retired, pending := getFlags{limit: 50}, false, false
	list := &cobra.Command{
		Use: "list", Short: "The same as muster get nodes; --pending: machines that wait to be let in", Args: cobra.NoArgs,
		Example: "  muster node list -l env=prod\n  muster node list --pending",
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			if retired {
				return a.listTombstones(c.Context(), client, &g)
			}
			if pending {
				return a.printPending(c.Context(), client, &g)
			}
			k := kind.Node()
			return a.getResources(c.Context(), client, k, nil, &g)
		},
	}
	g.output = formatFlag(list)
	list.Flags().StringVarP(&g.selector, "selector", "l", "", "labels: env=prod,tier!=db,owner,!old")
	list.Flags().StringVar(&g.where, "where", "", "CEL: of nodes over node; with --pending or --retired over row, as -o json shows it")
	list.Flags().BoolVarP(&g.all, "all-namespaces", "A", false, "of all namespaces")
	list.Flags().BoolVar(&retired, "retired", false, "machines that are nodes no more, and why")
	list.Flags().IntVar(&g.limit, "limit", 50, "rows at most (0: all)")
	list.Flags().BoolVar(&pending, "pending", false, "machines that asked to join without a token")
	c.AddCommand(token, list, a.nodeAccept(), a.nodeRefuse(), a.nodeCA(), a.nodeRename(), a.nodeReplace(), a.nodeRetire(), a.nodeForgive())
	return c
}

func (a *app) tokenCreate() *cobra.Command {
	var groups, labels []string
	var note, lasts string
	var uses int
	var life lifeFlags
	var output *format
	c := &cobra.Command{
		Use:     "create",
		Short:   "Make a join token and print the line to paste on the machine",
		Example: "  muster node token --groups web,db --for 24h --uses 50",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r := v1.JoinTokenRequest{Namespace: a.ns(), Groups: groups, Note: note, MaxUses: uses}
			var err error
			if r.ExpiresIn, err = lasting("--for", lasts); err != nil {
				return err
			}
			if uses < 0 {
				return model.Errorf(model.Invalid, "--uses %d: want how many machines may join with it", uses).WithHint("0 is any number")
			}
			if r.Labels, err = labelsOf(labels); err != nil {
				return err
			}
			if err := life.into(&r); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			t, err := client.Enrolment.CreateToken(c.Context(), r)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, t)
			}
			for _, g := range groups {
				k := kind.Group().KindInfo
				ns, name := model.SplitRef(t.Namespace, g)
				if _, _, err := client.Resources.Get(c.Context(), k, ns, name); model.ClassOf(err) == model.NotFound {
					fmt.Fprintf(a.Stderr, "%s there is no group %s yet: declare it, so that checks reach these machines\n", a.paint(yellow, "warning:"), clean(g, false))
				}
			}
			fmt.Fprintf(a.Stdout, "On the machine, paste (--service behind it also installs and starts the agent):\n\n  muster-agent join %s\n\n", clean(t.Token, false))
			until := "it does not expire"
			if !t.Expires.IsZero() {
				until = "it expires at " + t.Expires.In(a.Zone).Format("2006-01-02 15:04:05 MST")
			}
			fmt.Fprintf(a.Stdout, "Token %s for namespace %s; %s. Take it back with: muster node token delete %s\n", clean(t.ID, false), clean(t.Namespace, false), until, clean(t.ID, false))
			a.tokenLeads(t.Token)
			return nil
		},
	}
	output = formatFlag(c)
	groupFlags(c, &groups, &labels)
	c.Flags().StringVar(&lasts, "for", "24h", "how long it is valid (0: for ever)")
	c.Flags().IntVar(&uses, "uses", 0, "how many machines may join with it (0: any number)")
	c.Flags().StringVarP(&note, "message", "m", "", "what it is for")
	life.add(c)
	return c
}

// tokenLeads says where machines will look for the server: a token that leads nowhere is
// seen on the machine only, by somebody else.
func (a *app) tokenLeads(text string) {
	token, err := pki.ParseToken(text)
	if err != nil {
		return // an API before us; the agent says what is wrong with it
	}
	fmt.Fprintf(a.Stdout, "Machines look for the server at %s.\n", clean(strings.Join(token.Addresses, ", "), false))
	for _, address := range token.Addresses {
		host, _, _ := net.SplitHostPort(address)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return
		}
	}
	fmt.Fprintf(a.Stderr, "%s only this machine finds it there: start the server with --listen :PORT, or with --advertise NAME\n", a.paint(yellow, "warning:"))
}

// groupFlags say what machines are given that join.
func groupFlags(c *cobra.Command, groups, labels *[]string) {
	c.Flags().StringSliceVar(groups, "groups", nil, "groups that the machines belong to, comma separated")
	c.Flags().StringSliceVar(labels, "labels", nil, "NAME=VALUE that the machines get, comma separated")
}

func labelsOf(pairs []string) (map[string]string, error) {
	var labels map[string]string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, model.Errorf(model.Invalid, "label %q", pair).WithHint("write --labels NAME=VALUE")
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = value
	}
	return labels, nil
}

// lasting reads a duration in seconds; 0: for ever.
func lasting(flag, text string) (int64, error) {
	if text == "0" || text == "" {
		return 0, nil
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, model.Errorf(model.Invalid, "%s: %w", flag, err).WithHint("for example 1h, 30d; 0 is for ever")
	}
	if d < model.Duration(time.Second) || d > model.Duration(longest) {
		return 0, model.Errorf(model.Invalid, "%s %s: want a time from 1s to %s", flag, text, model.Duration(longest)).WithHint("0 is for ever")
	}
	return int64(d) / 1e9, nil
}

// longest is what lasts for a time that it names: ten years.
const longest = 3650 * 24 * time.Hour

func (a *app) tokenList() *cobra.Command {
	var output *format
	var narrow v1.Narrow
	c := &cobra.Command{
		Use: "list", Short: "List join tokens", Args: cobra.NoArgs,
		Example: "  muster node token list",
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			list, err := client.Enrolment.Tokens(c.Context(), narrow)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, list)
			}
			if len(list.Items) == 0 && narrow != (v1.Narrow{}) {
				fmt.Fprintln(a.Stdout, "no join tokens match")
				return nil
			}
			if len(list.Items) == 0 {
				fmt.Fprintln(a.Stdout, "no join tokens: muster node token makes one")
				return nil
			}
			t := newTable("ID", "NAMESPACE", "GROUPS", "USED", "EXPIRES", "MADE", "BY", "FOR")
			for _, j := range list.Items {
				used := strconv.Itoa(j.Uses)
				if j.MaxUses > 0 {
					used += " of " + strconv.Itoa(j.MaxUses)
				}
				t.add(j.ID, j.Namespace, dash(strings.Join(j.Groups, ",")), used, a.until(j.Expires), model.Age(a.Now(), j.Created)+" ago", dash(j.By), dash(j.Note))
			}
			return t.write(a.Env)
		},
	}
	output = formatFlag(c)
	c.Flags().StringVarP(&narrow.Selector, "selector", "l", "", "those that give these labels: env=prod,tier!=db")
	whereFlag(c, &narrow, `row.uses > 0`)
	return c
}

func (a *app) tokenDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete ID...", Short: "Take join tokens back; nodes that joined with them stay", Args: cobra.MinimumNArgs(1),
		Example: "  muster node token delete 38a8ff27335c735e",
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			for _, id := range args {
				if err := client.Enrolment.DeleteToken(c.Context(), id); err != nil {
					return err
				}
				fmt.Fprintf(a.Stdout, "join token %s deleted\n", clean(id, false))
			}
			return nil
		},
	}
}
