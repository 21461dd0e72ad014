package cli

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// listPending lists machines that ask to join. The whole key has a line of its own: people compare
// it by eye with the key that the machine shows.
func listPending(c *call, g *getFlags) error {
	l, err := c.api.Enrolment.Pending(c.ctx, g.Narrow)
	if err != nil {
		return err
	}
	return c.show(l, func() error { printPending(c, l.Items, g.narrows()); return nil })
}

func printPending(c *call, machines []v1.Pending, narrowed bool) {
	switch {
	case len(machines) == 0 && narrowed:
		c.Printf("no pending machine matches\n")
		return
	case len(machines) == 0:
		c.Printf("no machine asks to join. On a machine: muster-agent join --server HOST:PORT\n")
		return
	}
	returning := 0
	unknown := "" // the key of the first machine that was never a node
	for _, p := range machines {
		c.Printf("%s  from %s, pending for %s\n", screen.Cell{Text: p.Name, Colour: screen.Bold}, p.Whence, model.Age(c.Now(), p.Since))
		c.status("  key", "%s", p.Key)
		if r := p.Returns; r != nil {
			returning++
			c.status("  was", "%s, node %s, by its certificate of %s", refOf("Node", r.Namespace, p.Name), r.UID, r.Certified.Local().Format(time.DateTime))
		} else if unknown == "" {
			unknown = p.Key[:16]
		}
		if len(p.Facts) > 0 {
			c.status("  facts", "%s", shortPairs(p.Facts))
		}
		if len(p.Labels) > 0 {
			c.status("  labels", "%s", shortPairs(p.Labels))
		}
		if len(p.Groups) > 0 {
			c.status("  groups", "%s", strings.Join(p.Groups, ", "))
		}
	}
	c.Printf("\n")
	if returning > 0 {
		were := " were nodes"
		if returning == 1 {
			were = " was a node"
		}
		c.Printf("%s of this server, which lost its record: muster node accept --all-returning   (first refuse machines that were retired since the backup)\n", model.CountNoun(returning, "machine")+were)
	}
	if unknown != "" {
		c.Printf("If the machine shows the same key: muster node accept %s   (else: muster node refuse %s)\n", unknown, unknown)
	}
}

// shortPairs returns NAME=VALUE in one line, with long values cut.
func shortPairs(pairs map[string]string) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		words = append(words, k+"="+screen.Cut(pairs[k], 41))
	}
	return strings.Join(words, ", ")
}

func nodeAcceptCommand(s *session) *cobra.Command {
	var f joinFlags
	var name string
	var all bool
	var labels map[string]string
	return s.build(command{
		use: "accept NAME|KEY | --all-returning", short: "Accept a machine that asked to join without a token", args: cobra.MaximumNArgs(1), noFormat: true,
		long: "Makes a machine a node that asked with muster-agent join --server, without a token. Name it by its name,\n" +
			"or by the first 16 or more digits of its key. The machine shows its key, too: compare them, because\n" +
			"anybody can claim a name.\n\n" +
			"--all-returning accepts all machines with a certificate of this server that the server does not know,\n" +
			"because its data is from an older backup. They keep their ids, so that nothing in their spools is lost.\n" +
			"Groups and labels of operators and tokens are gone with the data: set them with --groups and --labels.",
		example: "  muster node list --pending\n  muster node accept web07 --groups web\n  muster node accept 3f2a91bc77e012d4 --name web07\n  muster node accept --all-returning",
		flags: func(flags *pflag.FlagSet) {
			f.declare(flags)
			flags.StringVar(&name, "name", "", "name of the node (default: the machine's wish)")
			flags.BoolVar(&all, "all-returning", false, "all machines that were nodes, and that the server does not know")
		},
		check: func(c *call) (err error) {
			if labels, err = f.labelMap(); err != nil {
				return err
			}
			if all == (len(c.args) == 1) || all && name != "" {
				return model.Errorf(model.Invalid, "expected a name or key, or --all-returning without --name").WithHint("list pending machines: muster node list --pending")
			}
			return nil
		},
		run: func(c *call) error {
			if all {
				return acceptReturning(c, v1.PendingReturning{Groups: f.groups, Labels: labels})
			}
			m, err := c.api.Enrolment.Accept(c.ctx, v1.PendingAccept{Which: c.args[0], Name: name, Namespace: c.namespace, Groups: f.groups, Labels: labels})
			if err != nil {
				return err
			}
			c.Printf("%s accepted; the machine asks again within half a minute and joins\n", refOf("Node", m.Namespace, m.Name))
			return nil
		},
	})
}

func acceptReturning(c *call, r v1.PendingReturning) error {
	done, err := c.api.Enrolment.AcceptReturning(c.ctx, r)
	if err != nil {
		return err
	}
	for _, m := range done.Items {
		c.Printf("%s accepted again\n", refOf("Node", m.Namespace, m.Name))
	}
	for _, l := range done.Left {
		c.Printf("%s still pending: %s\n", l.Name, l.Why)
		if l.Hint != "" {
			c.Printf("  %s\n", l.Hint)
		}
	}
	if len(done.Items)+len(done.Left) == 0 {
		c.Printf("no pending machine was a node. A refused agent asks again about every half minute: muster node list --pending\n")
	}
	return nil
}

func nodeRefuseCommand(s *session) *cobra.Command {
	var reason string
	return s.build(command{
		use: "refuse NAME|KEY", short: "Refuse a machine that asked to join without a token, for good", args: cobra.ExactArgs(1), noFormat: true,
		long:    "Refuses a machine that asked with muster-agent join --server, and its key for good. With a join token it\nmay still join.",
		example: "  muster node refuse 3f2a91bc77e012d4 -m \"not one of ours\"",
		flags:   func(flags *pflag.FlagSet) { messageFlag(flags, &reason, "reason; the machine shows it") },
		run: func(c *call) error {
			m, err := c.api.Enrolment.Refuse(c.ctx, v1.PendingRefuse{Which: c.args[0], Reason: reason})
			if err != nil {
				return err
			}
			c.Printf("%s with the key %s refused\n", m.Name, m.Key)
			return nil
		},
	})
}

func nodeCACommand(s *session) *cobra.Command {
	return s.build(command{
		use: "ca", short: "Print the hash of the server's CA, for machines that join without a token", args: cobra.NoArgs,
		example: "  muster node ca",
		run: func(c *call) error {
			ca, err := c.api.Enrolment.Authority(c.ctx)
			if err != nil {
				return err
			}
			return c.show(ca, func() error {
				if len(ca.Addresses) == 0 {
					return model.Errorf(model.Internal, "the server has no address for agents").WithHint("start the server with --listen :PORT, or with --advertise NAME")
				}
				c.Printf("%s\n\nOn a machine: muster-agent join --server %s --ca-hash %s\n", ca.Hash, ca.Addresses[0], ca.Hash)
				return nil
			})
		},
	})
}
