package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Exit codes of muster run.
const (
	exitNotOK  = 20 // a run ended with another status than OK
	exitNotRun = 21 // a run did not start, or its end is unknown
)

// runFlags are the flags of muster run.
type runFlags struct {
	v1.RunRequest
	command, timeout string
	on, except       []string
	together         bool
}

func runCommand(s *session) *cobra.Command {
	f := &runFlags{}
	return s.build(command{
		use: "run [CHECK]", short: "Run a check or a command now, on many nodes at once",
		long: "Runs a check now on nodes that have it assigned, or a command on any nodes, and shows their output as\n" +
			"it comes. The result of a check counts like every result of it. Checks need the role operator; commands\n" +
			"need a right of their own (muster auth user create --may-run-commands) and are recorded: muster audit\n" +
			"run. Agents may refuse. Ctrl-C cancels what still runs. Exit code: 0 if all is OK, 20 if a status is\n" +
			"not OK, 21 if a run did not start or its end is unknown.",
		example: "  muster run disk --on group:web\n  muster run --command uptime --on group:web,web01\n" +
			"  muster run --command 'systemctl is-active nginx' --on where:'node.labels.env == \"prod\"' --together",
		args: cobra.MaximumNArgs(1), complete: s.completeCheck, flags: f.declare, check: f.check,
		run: func(c *call) error {
			f.Namespace = c.ns()
			p := &runPrinter{call: c, together: f.together, nodes: map[string]*runNode{}}
			if err := c.api.Run(c.ctx, f.RunRequest, p.line); err != nil {
				if nodes := p.running(); len(nodes) > 0 && !c.Format.Machine() {
					c.Notef("cancelled on %s: %s\n", model.CountNoun(len(nodes), "node"), firstNames(nodes))
				}
				return err
			}
			switch n := p.counts; {
			case n.Refused+n.Lost > 0:
				return &exitError{exitNotRun}
			case n.OK < n.Nodes:
				return &exitError{exitNotOK}
			}
			return nil
		},
	})
}

func (f *runFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.command, "command", "", "command line for the shell of the nodes, run as the agent's user")
	flags.StringArrayVar(&f.on, "on", nil, targetsHelp)
	flags.StringArrayVar(&f.except, "except", nil, "nodes to leave out, written as in --on")
	flags.StringVar(&f.timeout, "timeout", "0", "longest time for a command (0: 30s), or for the end of a check (0: the check's own)")
	flags.IntVar(&f.Parallel, "parallel", 50, "nodes at the same time")
	flags.IntVar(&f.MaxOutput, "max-output", model.DefaultOutputBytes, "bytes of output per node")
	flags.BoolVar(&f.together, "together", false, "show equal outputs once, at the end")
	flags.BoolVarP(&f.Yes, "yes", "y", false, "run on more nodes than --max-affected")
	flags.IntVar(&f.MaxAffected, "max-affected", 0, "nodes allowed without --yes (0: a fifth of all, at least 50)")
}

// check turns flags and arguments into the request.
func (f *runFlags) check(c *call) (err error) {
	if f.Targets, err = parseTargets("on", f.on); err != nil {
		return err
	}
	except, err := parseTargets("except", f.except)
	if err != nil {
		return err
	}
	isCommand := c.cmd.Flags().Changed("command")
	switch {
	case len(c.args) == 0 && !isCommand:
		return model.Errorf(model.Invalid, "a check or --command is missing").WithHint("a check: muster run CHECK --on NODE. A command: muster run --command LINE --on NODE")
	case len(c.args) > 0 && isCommand:
		return model.Errorf(model.Invalid, "both a check (%s) and --command", c.args[0]).WithHint("quote a command with blanks: muster run --command 'df /var' --on NODE")
	case isCommand && f.Targets == nil:
		return model.Errorf(model.Invalid, "--on is missing: a command never runs everywhere by accident").WithHint("--on takes %s", targetsHelp)
	case except != nil && f.Targets == nil:
		return model.Errorf(model.Invalid, "--except needs --on").WithHint("--on all, or: --on %s", targetsHelp)
	case isCommand:
		f.Command = &model.Command{Shell: f.command}
	default:
		f.Check = c.args[0]
	}
	if except != nil {
		f.Targets.Except = except
	}
	timeout, err := model.ParseDuration(f.timeout)
	if err != nil {
		return model.Errorf(model.Invalid, "--timeout: %w", err)
	}
	f.TimeoutMs = time.Duration(timeout).Milliseconds()
	return nil
}
