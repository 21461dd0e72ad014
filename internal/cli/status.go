package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) statusCmd() *cobra.Command {
	var exitCode bool
	var output *format
	c := &cobra.Command{
		Use:   "status",
		Short: "Is all well? Worst first",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			s, err := client.Status(c.Context(), a.namespace)
			if err != nil {
				return err
			}
			if output.machine() {
				err = a.printValue(*output, s)
			} else {
				a.printStatus(client.Server(), s)
			}
			if err == nil && exitCode && !allWell(s) {
				return &exitError{20}
			}
			return err
		},
	}
	output = formatFlag(c)
	c.Flags().BoolVar(&exitCode, "exit-code", false, "end with 20 if anything is wrong")
	return c
}

func allWell(s v1.Status) bool {
	return len(s.NotReady) == 0 && len(s.Warnings) == 0 && s.ByStatus.Warning+s.ByStatus.Critical+s.ByStatus.Unknown == 0
}

// printStatus answers on the first line; below it, what to look at first.
func (a *app) printStatus(server string, s v1.Status) {
	w := a.Stdout
	fmt.Fprintln(w, a.verdict(s))
	for _, why := range s.NotReady {
		fmt.Fprintf(w, "  %s %s\n", a.paint(red, "not ready:"), clean(why, false))
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "  %s %s\n", a.paint(yellow, "warning:"), clean(warning, false))
	}
	if len(s.Worst) > 0 {
		fmt.Fprintln(w)
		f := format("table")
		_ = a.eventTable(s.Worst, &getFlags{output: &f, all: a.namespace == "" && severalNamespaces(s.Worst)}).write(a.Env)
		if wrong := s.ByStatus.Warning + s.ByStatus.Critical + s.ByStatus.Unknown; wrong > uint64(len(s.Worst)) {
			fmt.Fprintf(w, "%d more: muster get events --status critical,unknown,warning -A\n", wrong-uint64(len(s.Worst)))
		}
	}
	fmt.Fprintln(w)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", name, clean(fmt.Sprintf(format, args...), false))
	}
	line("events", "%d: %d critical, %d unknown, %d warning, %d ok", s.Events, s.ByStatus.Critical, s.ByStatus.Unknown, s.ByStatus.Warning, s.ByStatus.OK)
	line("problems", "%d open", s.Problems)
	line("agents", "%d connected of %s", s.Connected, count(s.Nodes, "node"))
	if s.Journal.BudgetBytes > 0 {
		line("journal", "%s of %s (%d %%)", size(s.Journal.SizeBytes), size(s.Journal.BudgetBytes), s.Journal.SizeBytes*100/s.Journal.BudgetBytes)
	}
	if s.Reactions.Waiting > 0 {
		line("history", "%s not recorded yet", count(s.Reactions.Waiting, "change"))
	}
	line("server", "%s, %s, up %s", server, s.Server, age(s.Now, s.Started))
	for i, c := range s.LastChange {
		name := ""
		if i == 0 {
			name = "changed"
		}
		line(name, "%s", a.changeLine(c))
	}
}

// verdict is the first line: whether all is well, in one sentence.
func (a *app) verdict(s v1.Status) string {
	var wrong []string
	for _, part := range []struct {
		n    uint64
		what string
	}{{s.ByStatus.Critical, "critical"}, {s.ByStatus.Unknown, "unknown"}, {s.ByStatus.Warning, "warning"}} {
		if part.n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	switch {
	case len(s.NotReady) > 0:
		return a.paint(red, "The server is not ready.")
	case s.ByStatus.Critical+s.ByStatus.Unknown > 0:
		return a.paint(red, fmt.Sprintf("Not well: %s of %s.", strings.Join(wrong, ", "), count(s.Events, "event")))
	case len(wrong) > 0 || len(s.Warnings) > 0:
		if len(wrong) == 0 {
			return a.paint(yellow, "Nearly well: the server warns.")
		}
		return a.paint(yellow, fmt.Sprintf("Nearly well: %s of %s.", strings.Join(wrong, ", "), count(s.Events, "event")))
	case s.Events == 0:
		return "Nothing is watched yet: no result has come in. Type: muster doctor, or muster explain check"
	}
	return a.paint(green, fmt.Sprintf("All is well: %s, none is wrong.", count(s.Events, "event")))
}

func severalNamespaces(events []v1.Event) bool {
	for _, e := range events {
		if e.Namespace != events[0].Namespace || e.Namespace != model.DefaultNamespaceName {
			return true
		}
	}
	return false
}
