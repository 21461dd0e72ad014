package cli

import (
	"fmt"
	"strings"
	"time"

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
		Long: "Answers on its first line whether all is well. Below it: the worst events, nodes that are\n" +
			"silent, problems, agents, disk, and what was changed last.",
		Example: "  muster status\n  muster status --exit-code && echo all is well",
		Args:    cobra.NoArgs,
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
	return len(s.NotReady) == 0 && len(s.Warnings) == 0 && wrong(s.ByStatus) == 0
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
		if n := wrong(s.ByStatus) - s.Silent; n > uint64(len(s.Worst)) {
			fmt.Fprintf(w, "%d more: muster get events --status critical,unknown,warning%s\n", n-uint64(len(s.Worst)), a.scope())
		}
	}
	fmt.Fprintln(w)
	if s.Silent > 0 {
		a.line("silent", "%s", a.silent(s))
	}
	a.line("events", "%d: %d critical, %d unknown, %d warning, %d ok", s.Events, s.ByStatus.Critical, s.ByStatus.Unknown, s.ByStatus.Warning, s.ByStatus.OK)
	if len(s.Rooms) > 0 {
		names := make([]string, len(s.Rooms))
		for i, r := range s.Rooms {
			names[i] = roomText(r)
		}
		a.line("", "%s; of one of them: -n %s", strings.Join(names, ", "), s.Rooms[0].Namespace)
	}
	problems := fmt.Sprintf("%d open", s.Problems)
	if s.LastHour.Opened+s.LastHour.Closed > 0 {
		problems += fmt.Sprintf("; in the last hour %d opened, %d closed", s.LastHour.Opened, s.LastHour.Closed)
	}
	a.line("problems", "%s", problems)
	if a.namespace == "" {
		a.line("agents", "%d connected of %s", s.Connected, count(s.Nodes, "node"))
	} else {
		a.line("nodes", "%d in namespace %s", s.Nodes, a.namespace)
	}
	if s.Journal.BudgetBytes > 0 {
		disk := ""
		if s.Journal.FreeBytes > 0 {
			disk = fmt.Sprintf("; %s free on its disk", model.Size(s.Journal.FreeBytes).About())
		}
		a.line("journal", "%s of %s (%d %%)%s", model.Size(s.Journal.SizeBytes).About(), model.Size(s.Journal.BudgetBytes).About(), s.Journal.SizeBytes*100/s.Journal.BudgetBytes, disk)
	}
	if s.Reactions.Waiting > 0 {
		a.line("history", "%s not recorded yet, the oldest of %s ago", count(s.Reactions.Waiting, "change"), span(time.Duration(s.Reactions.BehindSeconds*float64(time.Second))))
	}
	a.line("server", "%s, %s, up %s", server, s.Server, age(s.Now, s.Started))
	for i, c := range s.LastChange {
		name := ""
		if i == 0 {
			name = "changed"
		}
		a.line(name, "%s", a.changeLine(c))
	}
	if more := s.LastHour.Changes - len(s.LastChange); more > 0 {
		a.line("", "and %d more in the last hour: muster audit", more)
	}
}

// line is one fact of status.
func (a *app) line(name, format string, args ...any) {
	fmt.Fprintf(a.Stdout, "%-10s %s\n", name, clean(fmt.Sprintf(format, args...), false))
}

// scope are the words that make a list cover what status covered.
func (a *app) scope() string {
	if a.namespace == "" {
		return " -A"
	}
	return " -n " + a.namespace
}

// silent names nodes of which nothing is heard.
func (a *app) silent(s v1.Status) string {
	names := make([]string, len(s.SilentNow))
	for i, e := range s.SilentNow {
		if names[i] = e.Node; e.Namespace != model.DefaultNamespaceName {
			names[i] = e.Namespace + "/" + e.Node
		}
		names[i] += " for " + age(a.Now(), e.Changed)
	}
	text := count(s.Silent, "node") + ": " + strings.Join(names, ", ")
	if more := s.Silent - uint64(len(names)); more > 0 {
		text += fmt.Sprintf(" and %d more: muster get events --check keepalive --status critical%s", more, a.scope())
	}
	return text
}

// verdict is the first line: whether all is well, in one sentence.
func (a *app) verdict(s v1.Status) string {
	by := s.ByStatus
	by.Critical -= min(by.Critical, s.Silent) // they are told apart
	var bad []string
	for _, part := range []struct {
		n    uint64
		what string
	}{{by.Critical, "critical"}, {by.Unknown, "unknown"}, {by.Warning, "warning"}} {
		if part.n > 0 {
			bad = append(bad, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	events := count(s.Events, "event")
	how := strings.Join(bad, ", ") + " of " + events
	if silent := count(s.Silent, "node") + " silent"; s.Silent > 0 && len(bad) > 0 {
		how += "; " + silent
	} else if s.Silent > 0 {
		how = silent + ", the rest is well"
	}
	switch {
	case len(s.NotReady) > 0:
		return a.paint(red, "The server is not ready.")
	case s.Silent+by.Critical+by.Unknown > 0:
		return a.paint(red, "Not well: "+how+".")
	case len(bad) > 0:
		return a.paint(yellow, "Nearly well: "+how+".")
	case len(s.Warnings) > 0:
		return a.paint(yellow, "Nearly well: the server warns.")
	case s.Events == 0 && s.Nodes == 0:
		return "Nothing is watched yet: no machine has joined. Type: muster node token"
	case s.Events == 0:
		return "Nothing is watched yet: no result has come in. Type: muster get nodes -A, or muster explain check"
	}
	return a.paint(green, fmt.Sprintf("All is well: %s, none is wrong.", events))
}

func severalNamespaces(events []v1.Event) bool {
	for _, e := range events {
		if e.Namespace != events[0].Namespace || e.Namespace != model.DefaultNamespaceName {
			return true
		}
	}
	return false
}
