package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// How muster run ends where not all is OK.
const (
	exitNotOK  = 20 // somewhere it ended with another status
	exitNotRun = 21 // somewhere nothing ran, or its end was not heard
)

func (a *app) runCmd() *cobra.Command {
	var r v1.RunRequest
	var output *format
	var command, timeout string
	var on, except []string
	var together bool
	c := &cobra.Command{
		Use:   "run [CHECK]",
		Short: "Run a check or a command now, on many nodes at once",
		Long: "Runs a check now on nodes to which it is assigned, or a command on any, and shows what each writes\n" +
			"as it writes it. A check's result goes the way of all its results. Running checks takes the role\n" +
			"operator; running commands takes a right of its own (muster auth user create --may-run-commands)\n" +
			"and is recorded: muster audit run. Agents may be set to refuse. Ctrl-C ends on the nodes what still\n" +
			"runs. It ends with 0 if all is OK, 20 if somewhere the status was another, 21 if somewhere\n" +
			"nothing ran or the end was not heard.",
		Example: "  muster run disk --on group:web\n  muster run --command uptime --on group:web,web01\n" +
			"  muster run --command 'systemctl is-active nginx' --on where:'node.labels.env == \"prod\"' --together",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeChecks,
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if r.Targets, err = targetsOn("on", on); err != nil {
				return err
			}
			but, err := targetsOn("except", except)
			if err != nil {
				return err
			}
			given := c.Flags().Changed("command")
			switch {
			case len(args) == 0 && !given:
				return model.Errorf(model.Invalid, "what shall run is missing").WithHint("a check: muster run CHECK --on NODE; a command: muster run --command LINE --on NODE")
			case len(args) > 0 && given:
				return model.Errorf(model.Invalid, "both a check (%s) and a command", args[0]).WithHint("a command with blanks stands in quotes: muster run --command 'df /var' --on NODE")
			case given && r.Targets == nil:
				return model.Errorf(model.Invalid, "--on is missing: nobody runs a command everywhere by mistake").WithHint("--on takes %s", onHelp)
			case but != nil && r.Targets == nil:
				return model.Errorf(model.Invalid, "--except needs --on").WithHint("--on all, or: --on %s", onHelp)
			case given:
				r.Command = &model.Command{Shell: command}
			default:
				r.Check = args[0]
			}
			if but != nil {
				r.Targets.Except = but
			}
			lasts, err := model.ParseDuration(timeout)
			if err != nil {
				return model.Errorf(model.Invalid, "--timeout: %w", err)
			}
			r.TimeoutMs = time.Duration(lasts).Milliseconds()
			client, err := a.connect()
			if err != nil {
				return err
			}
			r.Namespace = a.ns()
			shown := &runShown{app: a, format: *output, together: together, nodes: map[string]*runNode{}}
			if err := client.Run(c.Context(), r, shown.line); err != nil {
				shown.broken()
				return err
			}
			return shown.result()
		},
	}
	output = formatFlag(c)
	flags := c.Flags()
	flags.StringVar(&command, "command", "", "a line for the shell of the nodes, as the agent's user")
	flags.StringArrayVar(&on, "on", nil, onHelp)
	flags.StringArrayVar(&except, "except", nil, "nodes that are left out, written as in --on")
	flags.StringVar(&timeout, "timeout", "0", "how long a command may run (0: 30s), or the end of a check is waited for (0: as the check says)")
	flags.IntVar(&r.Parallel, "parallel", 50, "nodes at the same time")
	flags.IntVar(&r.MaxOutput, "max-output", model.DefaultOutputBytes, "bytes of output of each node")
	flags.BoolVar(&together, "together", false, "show equal outputs once, at the end")
	flags.BoolVarP(&r.Yes, "yes", "y", false, "run on more nodes than --max-affected")
	flags.IntVar(&r.MaxAffected, "max-affected", 0, "nodes that may be meant without --yes (0: a fifth of all, at least 50)")
	return c
}

// completeChecks offers checks.
func (a *app) completeChecks(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	k := kind.Check().KindInfo
	if len(args) > 0 {
		return nil, noFiles
	}
	return a.completeNames(k)(c, args, typed)
}

// result ends a run that showed all there is to say.
func (s *runShown) result() error {
	switch c := s.counts; {
	case c.Refused+c.Lost > 0:
		return &exitError{exitNotRun}
	case c.OK < c.Nodes:
		return &exitError{exitNotOK}
	}
	return nil
}

// broken says how far it came, for whoever stopped it.
func (s *runShown) broken() {
	if n := len(s.going()); n > 0 && !s.format.machine() {
		fmt.Fprintf(s.Stderr, "taken back on %s: %s\n", model.CountNoun(n, "node"), some(s.going()))
	}
}
