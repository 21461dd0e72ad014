package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
)

// command describes one command of the tree.
type command struct {
	use, short, long, example string
	aliases                   []string
	args                      cobra.PositionalArgs // nil: any
	complete                  completion           // of arguments
	flags                     func(*pflag.FlagSet)
	formats                   []string          // of -o, besides table, wide, json and yaml
	noFormat                  bool              // the command has no -o
	check                     func(*call) error // looks at flags and arguments before the command connects
	offline                   bool              // run needs no server: call.api is nil
	run                       func(*call) error // nil: the command prints its help
	commands                  []*cobra.Command  // below this one
}

// call is one run of a command: flags and arguments, the client, and the screen to write to.
type call struct {
	*session
	*screen.Screen
	ctx  context.Context
	cmd  *cobra.Command
	args []string
	api  *client.Client
}

// build makes the cobra command.
func (s *session) build(d command) *cobra.Command {
	c := &cobra.Command{Use: d.use, Short: d.short, Long: d.long, Example: d.example, Aliases: d.aliases, Args: d.args, ValidArgsFunction: d.complete, RunE: helpOf}
	c.AddCommand(d.commands...)
	if d.flags != nil {
		d.flags(c.Flags())
	}
	if d.run == nil {
		return c
	}
	format := screen.Narrow
	if !d.noFormat {
		screen.FormatFlag(c, &format, d.formats...)
	}
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		x := &call{session: s, Screen: s.screen(), ctx: c.Context(), cmd: c, args: args}
		x.Format = format
		if d.check != nil {
			if err := d.check(x); err != nil {
				return err
			}
		}
		if !d.offline {
			if x.api, err = s.connect(); err != nil {
				return err
			}
		}
		return d.run(x)
	}
	return c
}

func helpOf(c *cobra.Command, _ []string) error { return c.Help() }

// show writes value for programs, or calls people.
func (c *call) show(value any, people func() error) error {
	if c.Format.Machine() {
		return c.Value(value)
	}
	return people()
}

// list is one list as every command prints it.
type list[T any] struct {
	value   any // for programs
	items   []T
	columns []screen.Column[T]
	empty   string   // the line in place of a table without rows
	notes   []string // lines below the table; empty ones are left out
}

func (l list[T]) print(c *call) error {
	if c.Format.Machine() {
		return c.Value(l.value)
	}
	if len(l.items) == 0 && l.empty != "" {
		c.Wrapf(2, "%s", l.empty)
	} else if err := screen.Rows(l.items, l.columns...).Write(c.Screen); err != nil {
		return err
	}
	for _, note := range l.notes {
		if note != "" {
			c.Wrapf(2, "%s", note)
		}
	}
	return nil
}

// listFlags are the flags that lists share. Each list declares those that it takes.
type listFlags struct {
	v1.Narrow
	all   bool
	limit int
}

func (f *listFlags) declareAll(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "of all namespaces")
}

func (f *listFlags) declareLimit(flags *pflag.FlagSet, rows int) {
	flags.IntVar(&f.limit, "limit", rows, "rows at most (0: all)")
}

// declareSelector declares -l; of names whose labels it selects by.
func (f *listFlags) declareSelector(flags *pflag.FlagSet, of string) {
	flags.StringVarP(&f.Selector, "selector", "l", "", of+": env=prod,tier!=db,owner,!old")
}

// declareWhere declares --where; over names its variables and gives an example.
func (f *listFlags) declareWhere(flags *pflag.FlagSet, over string) {
	flags.StringVar(&f.Where, "where", "", "CEL over "+over)
}

// narrows reports whether the flags leave rows out, other than by number.
func (f *listFlags) narrows() bool { return f.Narrow != (v1.Narrow{}) }

// overRow are the variables of --where in lists of neither events nor resources.
func overRow(example string) string { return "row, as -o json shows it: " + example }

// messageFlag declares -m, the reason that is recorded.
func messageFlag(flags *pflag.FlagSet, to *string, usage string) {
	flags.StringVarP(to, "message", "m", "", usage)
}
