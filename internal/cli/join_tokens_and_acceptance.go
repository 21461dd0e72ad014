package cli

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// joinTokenCommand makes the command group muster node token, which manages join tokens. A machine needs a join token
// to join.
func joinTokenCommand(s *commandLine) *cobra.Command {
	create := joinTokenCreateCommand(s)
	token := s.buildCommand(create)
	token.Use, token.Short = "token", "Create, list and delete join tokens"
	token.Long = "Print the command to paste on a machine that joins. The command shows the token once; list shows its\nuses, delete revokes it."
	token.AddCommand(s.buildCommand(joinTokenCreateCommand(s)), joinTokenListCommand(s), joinTokenDeleteCommand(s))
	return token
}

// joinTokenFlags has the flags of muster node token.
type joinTokenFlags struct {
	joinFlags
	token                 v1.JoinTokenRequest // without lifetime and labels, which request adds
	life                  model.Lifecycle
	lifetime, forgetAfter string
}

// registerFlags adds the flags of muster node token create.
func (f *joinTokenFlags) registerFlags(flags *pflag.FlagSet) {
	f.joinFlags.registerFlags(flags)
	flags.StringVar(&f.lifetime, "for", "24h", "lifetime of the token (0: without end)")
	flags.IntVar(&f.token.MaxUses, "uses", 0, "number of machines that may join with the token (0: any number)")
	registerMessageFlag(flags, &f.token.Note, "purpose of the token")
	flags.BoolVar(&f.token.Replace, "replace", false, "a machine takes over the node with its name, if this node has no session")
	flags.BoolVar(&f.life.Ephemeral, "ephemeral", false, "remove nodes that had no session for --forget-after")
	flags.StringSliceVar(&f.life.Handlers, "notify", nil, "handlers to notify when an ephemeral node is removed")
	flags.StringVar(&f.forgetAfter, "forget-after", "", "longest time without a session for an ephemeral node (default 1h)")
}

// buildRequest converts flags and arguments to the API request for a join token.
func (f *joinTokenFlags) buildRequest(namespace string) (r v1.JoinTokenRequest, err error) {
	r = f.token
	r.Namespace, r.Groups = namespace, f.groups
	if r.ExpiresIn, err = parseLifetime("--for", f.lifetime); err != nil {
		return r, err
	}
	if r.MaxUses < 0 {
		return r, model.Errorf(model.Invalid, "--uses %d: expected a number of machines", r.MaxUses).WithHint("0: any number")
	}
	if r.Labels, err = f.parseLabels(); err != nil {
		return r, err
	}
	if !f.life.Ephemeral && len(f.life.Handlers) > 0 {
		return r, model.Errorf(model.Invalid, "--notify is valid only together with --ephemeral").WithHint("muster node token --ephemeral --notify %s", f.life.Handlers[0])
	}
	if f.forgetAfter != "" {
		if f.life.ForgetAfter, err = model.ParseDuration(f.forgetAfter); err != nil {
			return r, model.Errorf(model.Invalid, "--forget-after: %w", err).WithHint("for example 30m, 1h")
		}
		if !f.life.Ephemeral {
			return r, model.Errorf(model.Invalid, "--forget-after is valid only together with --ephemeral").WithHint("muster node token --ephemeral --forget-after %s", f.forgetAfter)
		}
	}
	if f.life.Ephemeral {
		r.Lifecycle = &f.life
	}
	return r, nil
}

// joinTokenCreateCommand makes the command muster node token create, which prints the command for a joining machine.
func joinTokenCreateCommand(s *commandLine) command {
	f := &joinTokenFlags{}
	var r v1.JoinTokenRequest
	return command{
		use: "create", oneNamespace: true, short: "Create a join token and print the command for the machine", args: cobra.NoArgs,
		flags: f.registerFlags,
		check: func(c *commandCall) (err error) { r, err = f.buildRequest(c.objectNamespace()); return err },
		run: fetchAndPrint(func(c *commandCall) (v1.JoinToken, error) {
			r.Namespace = c.objectNamespace() // now with the context's
			return c.api.Enrolment.CreateToken(c.ctx, r)
		}, func(c *commandCall, t v1.JoinToken) { printJoinToken(c, &t, f.groups) }),
	}
}

// printJoinToken prints the command that joins a machine with a new token.
func printJoinToken(c *commandCall, t *v1.JoinToken, groups []string) {
	for _, g := range groups {
		namespace, name := model.SplitRef(t.Namespace, g)
		if _, _, err := c.api.Resources.Get(c.ctx, kind.Group().KindInfo, namespace, name); model.ClassOf(err) == model.NotFound {
			c.Notef(2, "%s group %s does not exist yet. Declare it, or these machines get no checks from it", screen.Warning, g)
		}
	}
	c.Printf("Paste on the machine (with --service the command also installs and starts the agent):\n\n  muster-agent join %s\n\n", t.Token)
	expires := "it does not expire"
	if !t.Expires.IsZero() {
		expires = "it expires at " + c.DateTimeAndZone(t.Expires)
	}
	c.Wrapf(2, "Token %s for namespace %s; %s. Revoke it: muster node token delete %s", t.ID, t.Namespace, expires, t.ID)
	printTokenAddresses(c, t.Token)
}

// printTokenAddresses prints the server addresses in a join token, at which agents reach the server. It warns
// if only the server's machine can reach them.
func printTokenAddresses(c *commandCall, text string) {
	token, err := pki.ParseToken(text)
	if err != nil {
		return // of another version; the agent reports it
	}
	c.Wrapf(2, "Machines connect to the server at %s.", strings.Join(token.Addresses, ", "))
	for _, address := range token.Addresses {
		host, _, _ := net.SplitHostPort(address)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return
		}
	}
	c.Notef(2, "%s only this machine can reach this address. Start the server with --listen :PORT, or with --advertise NAME", screen.Warning)
}

// joinTokenListCommand makes the command muster node token list.
func joinTokenListCommand(s *commandLine) *cobra.Command {
	f := listFlags{}
	return s.buildCommand(command{
		use: "list", formats: []string{"name"}, short: "List join tokens", args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			f.registerSelector(flags, "tokens with these labels for their machines")
			f.registerWhere(flags, whereRowHelp("row.uses > 0"))
		},
		run: readAndPrintList(func(c *commandCall) (listOutput[v1.JoinToken], error) {
			l, err := c.api.Enrolment.Tokens(c.ctx, f.RowFilter)
			empty := "no join tokens. Create one: muster node token"
			if f.hasFilter() {
				empty = "no join tokens match"
			}
			return listOutput[v1.JoinToken]{
				value: l, items: l.Items, empty: empty, columns: screen.SplitColumns("ID|NAMESPACE|GROUPS|USED|EXPIRES|CREATED|BY|FOR"),
				row: func(t v1.JoinToken) []any {
					used := strconv.Itoa(t.Uses)
					used += textIf(t.MaxUses != 0, " of "+strconv.Itoa(t.MaxUses))
					return []any{t.ID, t.Namespace, strings.Join(t.Groups, ","), used, c.TimeUntil(t.Expires), c.AgeText(t.Created), t.By, t.Note}
				},
			}, err
		}),
	})
}

// joinTokenDeleteCommand makes the command muster node token delete.
func joinTokenDeleteCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "delete ID...", short: "Revoke join tokens; nodes that joined with them stay", args: cobra.MinimumNArgs(1), noFormat: true,
		run: forEachArgument(func(c *commandCall, id string) error { return c.api.Enrolment.DeleteToken(c.ctx, id) }, "join token %s deleted"),
	})
}

// listPendingMachines lists the machines that wait for a person to accept or refuse their join request. The
// whole key has a line of its own: people compare it by eye with the key that the machine shows.
func listPendingMachines(c *commandCall, g *getFlags) error {
	l, err := c.api.Enrolment.Pending(c.ctx, g.RowFilter)
	if err != nil {
		return err
	}
	return c.printValue(l, func() { printPendingMachines(c, l.Items, g.hasFilter()) })
}

// printPendingMachines prints the waiting machines, and the commands for their acceptance.
func printPendingMachines(c *commandCall, machines []v1.Pending, narrowed bool) {
	switch {
	case len(machines) == 0 && narrowed:
		c.Printf("no pending machine matches\n")
		return
	case len(machines) == 0:
		c.Wrapf(2, "no machine asks to join. On a machine: muster-agent join --server HOST:PORT")
		return
	}
	returning := 0
	unknown := "" // the key of the first machine that was never a node
	for _, p := range machines {
		c.Wrapf(2, "%s  from %s, pending for %s", screen.Cell{Text: p.Name, Colour: screen.Bold}, p.Address, model.Age(c.Now(), p.Since))
		c.printStatusLine("  key", "%s", p.Key)
		if r := p.Returns; r != nil {
			returning++
			c.printStatusLine("  was", "%s, node %s, according to its certificate of %s", resourceRefText("Node", r.Namespace, p.Name), r.UID, r.Certified.Local().Format(time.DateTime))
		} else if unknown == "" {
			unknown = p.Key[:16]
		}
		for _, line := range [...][2]string{{"  facts", shortLabelsText(p.Facts)}, {"  labels", shortLabelsText(p.Labels)},
			{"  groups", strings.Join(p.Groups, ", ")}} {
			if line[1] != "" {
				c.printStatusLine(line[0], "%s", line[1])
			}
		}
	}
	c.Printf("\n")
	if returning > 0 {
		were := " were nodes"
		if returning == 1 {
			were = " was a node"
		}
		c.Wrapf(2, "%s of this server; the server lost the record: muster node accept --all-returning   (first refuse machines that were retired since the backup)", model.CountNoun(returning, "machine")+were)
	}
	if unknown != "" {
		c.Wrapf(2, "If the machine shows the same key: muster node accept %s   (else: muster node refuse %s)", unknown, unknown)
	}
}

// shortLabelsText returns labels as NAME=VALUE in one line, with long values cut.
func shortLabelsText(pairs map[string]string) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		words = append(words, k+"="+screen.CutToWidth(pairs[k], 41))
	}
	return strings.Join(words, ", ")
}

// nodeAcceptCommand makes the command muster node accept, which accepts waiting machines.
func nodeAcceptCommand(s *commandLine) *cobra.Command {
	var f joinFlags
	var name string
	var all bool
	var labels map[string]string
	return s.buildCommand(command{
		use: "accept NAME|KEY | --all-returning", oneNamespace: true, short: "Accept a machine that asked to join without a token", args: cobra.MaximumNArgs(1), noFormat: true,
		flags: func(flags *pflag.FlagSet) {
			f.registerFlags(flags)
			flags.StringVar(&name, "name", "", "name of the node (default: the name that the machine asks for)")
			flags.BoolVar(&all, "all-returning", false, "all former nodes that the server does not know")
		},
		check: func(c *commandCall) (err error) {
			if labels, err = f.parseLabels(); err != nil {
				return err
			}
			if all == (len(c.args) == 1) || all && name != "" {
				return model.Errorf(model.Invalid, "expected the name or key of one machine, or --all-returning without --name").WithHint("list pending machines: muster node list --pending")
			}
			return nil
		},
		run: func(c *commandCall) error {
			if all {
				return acceptReturningMachines(c, v1.PendingReturning{Groups: f.groups, Labels: labels})
			}
			m, err := c.api.Enrolment.Accept(c.ctx, v1.PendingAccept{Machine: c.args[0], Name: name, Namespace: c.namespace, Groups: f.groups, Labels: labels})
			if err != nil {
				return err
			}
			c.Wrapf(2, "%s accepted; the machine asks again within half a minute and joins", resourceRefText("Node", m.Namespace, m.Name))
			return nil
		},
	})
}

// acceptReturningMachines accepts all pending machines that prove to be former nodes, such as after a restored
// backup.
func acceptReturningMachines(c *commandCall, r v1.PendingReturning) error {
	done, err := c.api.Enrolment.AcceptReturning(c.ctx, r)
	if err != nil {
		return err
	}
	for _, m := range done.Items {
		c.Printf("%s accepted again\n", resourceRefText("Node", m.Namespace, m.Name))
	}
	for _, l := range done.NotAccepted {
		c.Printf("%s still pending: %s\n", l.Name, l.Reason)
		if l.Hint != "" {
			c.Printf("  %s\n", l.Hint)
		}
	}
	if len(done.Items)+len(done.NotAccepted) == 0 {
		c.Wrapf(2, "no pending machine was a node. A refused agent asks again about every half minute: muster node list --pending")
	}
	return nil
}

// nodeRefuseCommand makes the command muster node refuse, which refuses a waiting machine permanently.
func nodeRefuseCommand(s *commandLine) *cobra.Command {
	var reason string
	return s.buildCommand(command{
		use: "refuse NAME|KEY", short: "Refuse a machine that asked to join without a token, permanently", args: cobra.ExactArgs(1), noFormat: true,
		flags: func(flags *pflag.FlagSet) { registerMessageFlag(flags, &reason, "reason; the machine shows it") },
		run: func(c *commandCall) error {
			m, err := c.api.Enrolment.Refuse(c.ctx, v1.PendingRefuse{Machine: c.args[0], Reason: reason})
			if err != nil {
				return err
			}
			c.Printf("%s with the key %s refused\n", m.Name, m.Key)
			return nil
		},
	})
}

// nodeCACommand makes the command muster node ca, which prints the hash of the server's certificate authority
// (CA).
func nodeCACommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "ca", short: "Print the hash of the server's CA, for machines that join without a token", args: cobra.NoArgs,
		run: func(c *commandCall) error {
			ca, err := c.api.Enrolment.Authority(c.ctx)
			if err != nil {
				return err
			}
			if len(ca.Addresses) == 0 && !c.Format.IsForPrograms() {
				return model.Errorf(model.Internal, "the server has no address at which agents can connect").WithHint("start the server with --listen :PORT, or with --advertise NAME")
			}
			return c.printValue(ca, func() {
				c.Printf("%s\n\nOn a machine: muster-agent join --server %s --ca-hash %s\n", ca.Hash, ca.Addresses[0], ca.Hash)
			})
		},
	})
}
