package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// Exit codes of status --exit-code.
const (
	exitNearlyWell = 20
	exitNotWell    = 21
)

// statusCommand makes the command muster status.
func statusCommand(s *commandLine) *cobra.Command {
	var exitCode bool
	return s.buildCommand(command{
		use: "status", short: "Get the state of fleet and server, worst first",
		args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&exitCode, "exit-code", false, "exit with 20 if the fleet has only warnings, with 21 if it is not well")
		},
		run: func(c *commandCall) error {
			st, err := c.api.Status(c.ctx, textIf(!c.allNamespaces, c.namespace))
			if err != nil {
				return err
			}
			if err := c.printValue(st, func() { printStatus(c, st) }); err != nil {
				return err
			}
			if code := statusExitCode(st); exitCode && code != 0 {
				return &exitError{code}
			}
			return nil
		},
	})
}

// statusExitCode returns the exit code by which muster status --exit-code reports problems and faults. It tells
// programs whether the fleet is well, nearly well (only warnings or faults) or not well.
func statusExitCode(s v1.Status) int {
	switch {
	case len(s.NotReady) > 0 || s.Silent+s.Unhandled.Critical+s.Unhandled.Unknown > 0:
		return exitNotWell
	case s.Unhandled.Warning > 0 || len(listServerAndAgentFaults(s)) > 0:
		return exitNearlyWell
	}
	return 0
}

// listServerAndAgentFaults lists faults of the server and of agents, such as undelivered notifications, but no
// failing checks.
func listServerAndAgentFaults(s v1.Status) (list []string) {
	if s.Faulty > 0 {
		list = append(list, model.CountNoun(s.Faulty, "node")+" with errors")
	}
	if s.Spooling > 0 {
		list = append(list, model.CountNoun(s.Spooling, "agent")+" with results waiting")
	}
	failing := 0
	for _, u := range s.Unsent {
		failing += u.Failing + u.Dead
	}
	if failing > 0 {
		list = append(list, model.CountNoun(failing, "message")+" not delivered")
	}
	if s.Unnotified.Problems > 0 {
		list = append(list, model.CountNoun(s.Unnotified.Problems, "problem")+" that no handler is notified of")
	}
	if len(s.Warnings) > 0 {
		list = append(list, "warnings of the server")
	}
	return list
}

// printStatusLine prints one line of muster status with a name and its value.
func (c *commandCall) printStatusLine(name, format string, args ...any) {
	c.WriteField(10, name, format, args...)
}

// shownWarnings is how many warnings of the server stand on the screen.
const shownWarnings = 5

// printStatus prints the output of muster status, a summary first and then the details, worst first.
func printStatus(c *commandCall, s v1.Status) {
	c.Wrapf(0, "%s", statusSummary(c, s))
	for _, reason := range s.NotReady {
		c.Wrapf(4, "  %s %s", screen.Cell{Text: "not ready:", Colour: screen.Red}, c.ReplaceProgramName(reason))
	}
	warnings := append(notificationWarnings(c, s), s.Warnings...)
	for _, warning := range warnings[:min(shownWarnings, len(warnings))] {
		c.Wrapf(4, "  %s %s", screen.Warning, c.ReplaceProgramName(warning))
	}
	if more := len(warnings) - shownWarnings; more > 0 {
		c.Printf("  and %d more warnings: muster status -o yaml\n", more)
	}
	if rows := problemRows(c, s); len(rows) > 0 {
		c.Printf("\n")
		_ = screen.NewTable(rows, screen.SplitColumns("STATUS|EVENT|FOR|OUTPUT"), func(row []any) []any { return row }).Write(c.Screen)
		if more := s.Silent - uint64(len(s.SilentNow)); more > 0 {
			c.Wrapf(2, "%d more silent: muster get problems --open --check keepalive%s", more, namespaceFlagOfStatus(c))
		}
		if s.WrongMore > 0 {
			c.Wrapf(2, "%s more: muster get problems --open%s", model.CountNoun(s.WrongMore, "check"), namespaceFlagOfStatus(c))
		}
	}
	if steps := adviseSetup(c, s); steps != nil && statusExitCode(s) == 0 {
		steps.printAdvice(c)
	}
	c.Printf("\n")
	printNodeStatus(c, s)
	printEventStatus(c, s)
	printAgentStatus(c, s)
	printServerStatus(c, s)
	for i, change := range s.LastChange {
		c.printStatusLine(fieldNameOnce(i, "changed"), "%s %s", c.AgeText(change.At), changeText(change))
		s.LastHour.Changes -= 1 + change.More
	}
	if s.LastHour.Changes > 0 {
		c.printStatusLine("", "and %d more in the last hour: muster audit", s.LastHour.Changes)
	}
}

// statusSummary returns the first line of muster status, about the health of fleet and server.
func statusSummary(c *commandCall, s v1.Status) screen.Cell {
	var failing []string
	for _, part := range []struct {
		n      uint64
		status string
	}{{s.Unhandled.Critical, "critical"}, {s.Unhandled.Unknown, "unknown"}, {s.Unhandled.Warning, "warning"}} {
		if part.n > 0 {
			failing = append(failing, fmt.Sprintf("%d %s", part.n, part.status))
		}
	}
	var parts []string
	if s.Silent > 0 {
		parts = append(parts, model.CountNoun(s.Silent, "node")+" silent")
	}
	if len(failing) > 0 {
		parts = append(parts, model.CountNoun(s.Unhandled.NotOK(), "problem")+" ("+strings.Join(failing, ", ")+")")
	}
	level := statusExitCode(s)
	if level == exitNearlyWell { // in a worse state they stand below
		parts = append(parts, listServerAndAgentFaults(s)...)
	}
	text := strings.Join(parts, "; ")
	text += textIf(s.Silent > 0 && len(parts) == 1 && len(listServerAndAgentFaults(s)) == 0, ", the rest is well")
	switch {
	case level == exitNotWell && len(s.NotReady) > 0:
		return screen.Cell{Text: "The server is not ready.", Colour: screen.Red}
	case level == exitNotWell:
		return screen.Cell{Text: "Not well: " + text + ".", Colour: screen.Red}
	case level == exitNearlyWell:
		return screen.Cell{Text: "Nearly well: " + text + ".", Colour: screen.Yellow}
	}
	if steps := adviseSetup(c, s); steps != nil {
		return screen.Cell{Text: steps.text}
	}
	if s.Handled.Sum() > 0 { // and no other problem: all counts are of handled ones
		return screen.Cell{Text: "All open problems are handled: " + strings.Join(problemCountsText(s), ", ") + ".", Colour: screen.Green}
	}
	return screen.Cell{Text: fmt.Sprintf("All is well: %s, no problem.", model.CountNoun(s.Events, "event")), Colour: screen.Green}
}

// notificationWarnings returns warnings about problems of which nobody is notified, such as without a matching
// route. Failing handlers and problems without a handler are the causes.
func notificationWarnings(c *commandCall, s v1.Status) (list []string) {
	for _, u := range s.Unsent {
		if u.Failing+u.Dead == 0 {
			continue
		}
		flag := textIf(u.Namespace != model.DefaultNamespaceName, " -n "+u.Namespace)
		text := fmt.Sprintf("handler %s fails: %s not delivered, the oldest of %s ago", nameWithNamespace(u.Namespace, u.Handler), model.CountNoun(u.Failing+u.Dead, "message"), model.Age(c.Now(), u.Since))
		text += textIf(u.Dead > 0, c.ReplaceProgramName(fmt.Sprintf(" (%d given up: muster handler dead %s%s)", u.Dead, u.Handler, flag)))
		list = append(list, fmt.Sprintf("%s; last error: %s; %s", text, screen.FirstLine(u.LastError), c.ReplaceProgramName(fmt.Sprintf("try it: muster handler test %s%s", u.Handler, flag))))
	}
	if n := s.Unnotified.Problems; n > 0 {
		list = append(list, fmt.Sprintf("no handler is notified of %s (%s): no route matches, and the checks name no handler; %s",
			model.CountNoun(n, "open problem"), exampleNamesText(s.Unnotified.Examples, n), c.ReplaceProgramName("create a handler that pages: muster handler create --help")))
	}
	return list
}

// problemRows returns the table rows of muster status about open problems, silent nodes first. Silent nodes
// come first, then one row per check with the number of its failing nodes.
func problemRows(c *commandCall, s v1.Status) (rows [][]any) {
	for _, n := range s.SilentNow {
		heard, age := "no heartbeat yet", model.Age(c.Now(), n.Since)
		if !n.LastHeartbeat.IsZero() {
			heard, age = "last heartbeat "+c.DateTimeAndZone(n.LastHeartbeat), model.Age(c.Now(), n.LastHeartbeat)
		}
		rows = append(rows, []any{screen.Cell{Text: "SILENT", Colour: screen.Red}, nameWithNamespace(n.Namespace, n.Node), age, heard})
	}
	for _, w := range s.Wrong {
		name, output := w.Source.String()+" on "+model.CountNoun(w.Nodes, "node"), exampleNamesText(w.Examples, w.Nodes)+": "+outputSummary(w.Output)
		if w.Nodes == 1 {
			name, output = w.Examples[0]+"/"+w.Source.String(), outputSummary(w.Output)
		}
		rows = append(rows, []any{statusCell(w.Status), name, model.Age(c.Now(), w.Since), output})
	}
	return rows
}

// exampleNamesText formats the first of n node names for a message, such as web01, web02, ….
func exampleNamesText[N int | uint64](examples []string, n N) string {
	return strings.Join(examples, ", ") + textIf(n > N(len(examples)), ", …")
}

// nodesWithExamplesText formats a number of nodes with some of their names, such as "37 nodes (web01, web02, …)"
func nodesWithExamplesText(n int, examples []string) string {
	if n == 1 && len(examples) == 1 {
		return "node " + examples[0]
	}
	return fmt.Sprintf("%s (%s)", model.CountNoun(n, "node"), exampleNamesText(examples, n))
}

// printNodeStatus prints the lines of muster status about stopped nodes, and about nodes whose checks have errors
func printNodeStatus(c *commandCall, s v1.Status) {
	if s.Stopped > 0 {
		c.printStatusLine("stopped", "%s, on purpose: no alarm", nodesWithExamplesText(s.Stopped, s.StoppedNow))
	}
	for i, f := range s.Faults {
		c.printStatusLine(fieldNameOnce(i, "errors"), "%s: %s", nodesWithExamplesText(f.Nodes, f.Examples), f.Text)
	}
}

// printEventStatus prints the line of muster status about events by status.
func printEventStatus(c *commandCall, s v1.Status) {
	if s.Events == 0 {
		c.printStatusLine("events", "none yet")
	} else {
		c.printStatusLine("events", "%d: %d critical, %d unknown, %d warning, %d ok%s", s.Events, s.ByStatus.Critical, s.ByStatus.Unknown, s.ByStatus.Warning, s.ByStatus.OK,
			textIf(s.NoProblem > 0, fmt.Sprintf("; %d of them no problem, because too few results failed (alert.failAfter)", s.NoProblem)))
	}
	if len(s.Namespaces) > 0 {
		c.printStatusLine("", "%s; one namespace: -n %s", strings.Join(convertEach(s.Namespaces, namespaceText), ", "), s.Namespaces[0].Namespace)
	}
	problems := fmt.Sprintf("%d open", s.Problems)
	if parts := problemCountsText(s); len(parts) > 1 || s.Handled.Sum() > 0 {
		problems += ": " + strings.Join(parts, ", ")
	}
	problems += textIf(s.LastHour.Opened+s.LastHour.Closed > 0,
		fmt.Sprintf("; in the last hour %d opened, %d closed", s.LastHour.Opened, s.LastHour.Closed))
	c.printStatusLine("problems", "%s", problems)
	waiting := slices.DeleteFunc(slices.Clone(s.Unsent), func(u v1.Unsent) bool { return u.Waiting == 0 })
	for i, u := range waiting {
		text := fmt.Sprintf("%d for handler %s", u.Waiting, nameWithNamespace(u.Namespace, u.Handler))
		text += textIf(c.Now().Sub(u.Since) >= time.Second, ", the oldest waits for "+model.Age(c.Now(), u.Since))
		text += textIf(u.Failing > 0, fmt.Sprintf("; %d failed", u.Failing))
		c.printStatusLine(fieldNameOnce(i, "messages"), "%s", text)
	}
}

// problemCountsText formats the numbers of open problems by handling, such as "2 silenced", each problem
// counted once.
func problemCountsText(s v1.Status) (parts []string) {
	if s.Silent > 0 {
		parts = append(parts, model.CountNoun(s.Silent, "silent node"))
	}
	for _, part := range []struct {
		n    uint64
		text string
	}{{s.Unhandled.NotOK(), "unhandled"}, {s.Handled.Acknowledged, "acknowledged"}, {s.Handled.Silenced, "silenced"},
		{s.Handled.Maintenance, "in maintenance"}, {s.Handled.Dependent, "behind a failed dependency"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}
	return parts
}

// printAgentStatus prints the lines of muster status about agents. They count connected and reconnecting agents, and
// agents that send stored results.
func printAgentStatus(c *commandCall, s v1.Status) {
	switch {
	case c.namespace != "":
		c.printStatusLine("nodes", "%d in namespace %s", s.Nodes, c.namespace)
	case s.Nodes == 0 && s.Connected == 0:
		c.printStatusLine("agents", "none has joined")
	default:
		text := fmt.Sprintf("%d connected of %s", s.Connected, model.CountNoun(s.Nodes, "node"))
		if up := s.Now.Sub(s.Started); up < model.DefaultReconnectGrace && s.Connected < s.Nodes {
			text += fmt.Sprintf("; the server started %s ago, agents are reconnecting", model.TimeSpan(up))
		}
		c.printStatusLine("agents", "%s", text)
	}
	if s.Spooling > 0 {
		parts := convertEach(s.SpoolingNow, func(x v1.Agent) string {
			st := x.Session.Stats
			return fmt.Sprintf("%s (%d, the oldest for %s)", nameWithNamespace(x.Namespace, x.Name), st.Spooled, model.TimeSpan(time.Duration(st.OldestSeconds)*time.Second))
		})
		c.printStatusLine("behind", "results wait on %s: %s; muster get agents --spooling%s", model.CountNoun(s.Spooling, "agent"), strings.Join(parts, ", "), namespaceFlagOfStatus(c))
	}
	if s.Pending > 0 {
		c.printStatusLine("pending", "%s asking to join: muster node list --pending", model.CountNoun(s.Pending, "machine"))
	}
}

// usualLag is how many commits are always on their way from the journal to the view.
const usualLag = 10

// printServerStatus prints the lines of muster status about the server, such as journal, queues and backups.
func printServerStatus(c *commandCall, s v1.Status) {
	if j := s.Journal; j.BudgetBytes > 0 {
		text := fmt.Sprintf("%s of %s (%d %%)", model.Size(j.SizeBytes).Approximate(), model.Size(j.BudgetBytes).Approximate(), j.SizeBytes*100/j.BudgetBytes)
		if j.FreeBytes > 0 {
			text += fmt.Sprintf("; %s free on its disk", model.Size(j.FreeBytes).Approximate())
			text += textIf(j.FreeBytes < j.BudgetBytes-j.SizeBytes, ", less than the journal may still use")
		}
		text += textIf(j.DataFreeBytes > 0, fmt.Sprintf("; %s free for the data folder", model.Size(j.DataFreeBytes).Approximate()))
		c.printStatusLine("journal", "%s", text)
		if j.BehindCommits > usualLag || j.QueuedBytes > 0 && j.Blocked != "" {
			c.printStatusLine("", "%s wait for a commit; events are %s behind", model.Size(j.QueuedBytes).Approximate(), model.CountNoun(j.BehindCommits, "commit"))
		}
	}
	if r := s.Reactions; r.Waiting > 0 || r.Rederiving {
		lag := model.TimeSpan(time.Duration(r.BehindSeconds * float64(time.Second)))
		text := fmt.Sprintf("%s not recorded yet, the oldest waits for %s", model.CountNoun(r.Waiting, "change"), lag)
		if r.Rederiving {
			text = fmt.Sprintf("%s behind: rebuilding changes from %s of the journal", lag, model.Size(r.BehindBytes).Approximate())
		}
		c.printStatusLine("history", "%s", text)
	}
	if load, err := c.api.ValueLoad(c.ctx); err == nil && load.Rate > 0 { // a user without the right sees the other lines
		text := fmt.Sprintf("%.0f per second", load.Rate)
		if i := slices.IndexFunc(load.Costs, func(cost v1.ValueCost) bool { return cost.Kind == "item" }); i >= 0 {
			text += fmt.Sprintf("; most time: %s, %s of a CPU (muster debug values)", costName(load.Costs[i].Template, load.Costs[i].Name), cpuPercentText(load.Costs[i].Seconds))
		}
		c.printStatusLine("values", "%s", text)
	}
	c.printStatusLine("server", "%s, %s, up %s", c.api.Server(), s.Server, model.Age(s.Now, s.Started))
}

// namespaceFlagOfStatus returns the flag -A or -n NAMESPACE for commands that muster status suggests. The
// command then covers the same namespaces as the running muster status.
func namespaceFlagOfStatus(c *commandCall) string {
	if c.namespace == "" {
		return " -A"
	}
	return " -n " + c.namespace
}

// setupAdvice holds the commands that muster status suggests for the setup of a new server.
type setupAdvice struct {
	text string
	next [][2]string // command and purpose
}

// adviseSetup returns the commands that muster status suggests for the setup of a new server. If the server
// already checks machines, it returns nil.
func adviseSetup(c *commandCall, s v1.Status) *setupAdvice {
	var next [][2]string
	const starter, starterPurpose = "muster apply -f docs/examples/starter.yaml", "declares eight checks, and a route into a log file"
	switch {
	case s.Nodes == 0 && c.namespace != "":
		return &setupAdvice{"No nodes in namespace " + c.namespace + ".", [][2]string{{"muster get nodes -A", "lists the nodes of all namespaces"}}}
	case s.Nodes == 0:
		if s.Pending > 0 {
			next = append(next, [2]string{"muster node list --pending", "lists machines that ask to join"})
		}
		next = append(next, [2]string{"muster node token", "prints the command for a machine that joins"})
		if s.NoChecks {
			next = append(next, [2]string{starter, starterPurpose})
		}
		return &setupAdvice{"The server is well, and watches no machine yet.", next}
	case s.NoChecks:
		return &setupAdvice{fmt.Sprintf("The server watches %s, and no checks are declared yet.", model.CountNoun(s.Nodes, "machine")),
			[][2]string{{starter, starterPurpose}, {"muster explain check", "explains how to write a check"}}}
	case s.NoResults:
		return &setupAdvice{fmt.Sprintf("The server watches %s; the first results are on their way.", model.CountNoun(s.Nodes, "machine")),
			[][2]string{{"muster get events -w", "shows the results as they arrive"}, {"muster why NODE/CHECK", "shows why a result is missing"}}}
	}
	return nil
}

// printAdvice prints the advised commands with their purposes, in two columns.
func (s *setupAdvice) printAdvice(c *commandCall) {
	wide := 0
	for i := range s.next {
		s.next[i][0] = c.ReplaceProgramName(s.next[i][0])
		wide = max(wide, len(s.next[i][0]))
	}
	c.Printf("\n")
	for _, n := range s.next {
		c.Printf("  %-*s   %s\n", wide, n[0], n[1])
	}
}
