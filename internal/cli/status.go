package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Exit codes of status --exit-code.
const (
	nearlyWell = 20
	notWell    = 21
)

func (a *app) statusCmd() *cobra.Command {
	var exitCode bool
	var output *format
	c := &cobra.Command{
		Use:   "status",
		Short: "Is all well? Worst first",
		Long: "Answers on its first line whether all is well. Below it: what is not OK, check by check; nodes that\n" +
			"are silent, and those that cannot do what they should; agents, messages, disk; and what was\n" +
			"changed last.",
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
			if code := howWell(s); err == nil && exitCode && code != 0 {
				return &exitError{code}
			}
			return err
		},
	}
	output = formatFlag(c)
	c.Flags().BoolVar(&exitCode, "exit-code", false, "end with 20 if it is nearly well (warnings), with 21 if it is not")
	return c
}

// howWell is 0, nearlyWell or notWell.
func howWell(s v1.Status) int {
	switch {
	case len(s.NotReady) > 0 || s.Silent+s.ByStatus.Critical+s.ByStatus.Unknown > 0:
		return notWell
	case s.ByStatus.Warning > 0 || len(concerns(s)) > 0:
		return nearlyWell
	}
	return 0
}

// concerns are what is not well beside events.
func concerns(s v1.Status) (list []string) {
	if s.Faulty > 0 {
		list = append(list, model.CountNoun(s.Faulty, "node")+" with errors")
	}
	if s.Spooling > 0 {
		list = append(list, model.CountNoun(s.Spooling, "agent")+" with results waiting")
	}
	failing := 0
	for _, u := range s.Unsent {
		failing += u.Failing
	}
	if failing > 0 {
		list = append(list, model.CountNoun(failing, "message")+" not delivered")
	}
	if len(s.Warnings) > 0 {
		list = append(list, "the server warns")
	}
	return list
}

// warningsShown is how many warnings fit on the screen beside the rest.
const warningsShown = 5

// printStatus answers on the first line; below it, what to look at first.
func (a *app) printStatus(server string, s v1.Status) {
	w := a.Stdout
	a.wrapped(a.verdict(s), 0)
	for _, why := range s.NotReady {
		a.wrapped("  "+a.paint(red, "not ready:")+" "+clean(why, false), 4)
	}
	for _, warning := range s.Warnings[:min(warningsShown, len(s.Warnings))] {
		a.wrapped("  "+a.paint(yellow, "warning:")+" "+clean(warning, false), 4)
	}
	if more := len(s.Warnings) - warningsShown; more > 0 {
		fmt.Fprintf(w, "  and %d more warnings: muster status -o yaml\n", more)
	}
	if len(s.Wrong) > 0 {
		fmt.Fprintln(w)
		_ = a.wrongTable(s.Wrong).write(a.Env)
		if s.WrongMore > 0 {
			fmt.Fprintf(w, "%s more: muster get events --status critical,unknown,warning%s\n", model.CountNoun(s.WrongMore, "check"), a.scope())
		}
	}
	if began := a.beginning(s); began != nil && howWell(s) == 0 {
		began.write(w)
	}
	fmt.Fprintln(w)
	a.statusOfNodes(s)
	a.statusOfEvents(s)
	a.statusOfAgents(s)
	a.statusOfServer(server, s)
	for i, c := range s.LastChange {
		name := ""
		if i == 0 {
			name = "changed"
		}
		a.line(name, "%s", a.changeLine(c))
		s.LastHour.Changes -= 1 + c.More
	}
	if s.LastHour.Changes > 0 {
		a.line("", "and %d more in the last hour: muster audit", s.LastHour.Changes)
	}
}

// wrongTable shows what is not OK: one line for one cause, however many nodes it has.
func (a *app) wrongTable(list []v1.Wrong) *table {
	t := newTable("STATUS", "WHAT", "FOR", "OUTPUT")
	for _, x := range list {
		what, output := x.Check, summary(x.Output)
		if x.Nodes == 1 {
			what = x.Examples[0] + "/" + x.Check
		} else {
			what += " on " + model.CountNoun(x.Nodes, "node")
			more := ""
			if x.Nodes > uint64(len(x.Examples)) {
				more = ", …"
			}
			output = strings.Join(x.Examples, ", ") + more + ": " + output
		}
		t.add(statusCell(x.Status), what, model.Age(a.Now(), x.Since), output)
	}
	return t
}

func (a *app) statusOfNodes(s v1.Status) {
	if s.Silent > 0 {
		a.line("silent", "%s", a.silent(s))
	}
	if s.Stopped > 0 {
		a.line("stopped", "%s, on the machine or with it; no alarm comes of that", nodesText(s.Stopped, s.StoppedNow))
	}
	for i, f := range s.Faults {
		name := ""
		if i == 0 {
			name = "errors"
		}
		a.line(name, "%s: %s", nodesText(f.Nodes, f.Examples), f.Text)
	}
}

func (a *app) statusOfAgents(s v1.Status) {
	if a.namespace != "" {
		a.line("nodes", "%d in namespace %s", s.Nodes, a.namespace)
	} else if s.Nodes == 0 && s.Connected == 0 {
		a.line("agents", "none has joined")
	} else {
		text := fmt.Sprintf("%d connected of %s", s.Connected, model.CountNoun(s.Nodes, "node"))
		if up := s.Now.Sub(s.Started); up < model.DefaultReconnectGrace && s.Connected < s.Nodes {
			text += fmt.Sprintf("; the server started %s ago, they are coming back", model.TimeSpan(up))
		}
		a.line("agents", "%s", text)
	}
	if s.Spooling > 0 {
		parts := make([]string, len(s.SpoolingNow))
		for i, x := range s.SpoolingNow {
			st := x.Session.Stats
			parts[i] = fmt.Sprintf("%s (%d, the oldest for %s)", qualified(x.Namespace, x.Name), st.Spooled, model.TimeSpan(time.Duration(st.OldestSeconds)*time.Second))
		}
		a.line("behind", "results wait on %s: %s; muster get agents --spooling%s", model.CountNoun(s.Spooling, "agent"), strings.Join(parts, ", "), a.scope())
	}
	if s.Pending > 0 {
		a.line("pending", "%s to be accepted: muster node list --pending", model.CountNoun(s.Pending, "machine"))
	}
}

func (a *app) statusOfEvents(s v1.Status) {
	if s.Events == 0 {
		a.line("events", "none yet")
	} else {
		a.line("events", "%d: %d critical, %d unknown, %d warning, %d ok", s.Events, s.ByStatus.Critical, s.ByStatus.Unknown, s.ByStatus.Warning, s.ByStatus.OK)
	}
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
	for i, u := range s.Unsent {
		name := ""
		if i == 0 {
			name = "messages"
		}
		text := fmt.Sprintf("%d for handler %s, the oldest waits for %s", u.Waiting, qualified(u.Namespace, u.Handler), model.Age(a.Now(), u.Since))
		if u.Failing > 0 {
			text += fmt.Sprintf("; %d tried in vain: %s", u.Failing, firstLine(u.LastError))
		}
		a.line(name, "%s", text)
	}
}

func (a *app) statusOfServer(server string, s v1.Status) {
	if j := s.Journal; j.BudgetBytes > 0 {
		text := fmt.Sprintf("%s of %s (%d %%)", model.Size(j.SizeBytes).Approximate(), model.Size(j.BudgetBytes).Approximate(), j.SizeBytes*100/j.BudgetBytes)
		if j.FreeBytes > 0 {
			text += fmt.Sprintf("; %s free on its disk", model.Size(j.FreeBytes).Approximate())
			if j.FreeBytes < j.BudgetBytes-j.SizeBytes {
				text += ", less than it may grow"
			}
		}
		if j.DataFreeBytes > 0 {
			text += fmt.Sprintf("; %s free for the data folder", model.Size(j.DataFreeBytes).Approximate())
		}
		a.line("journal", "%s", text)
		if j.BehindCommits > behindShown || j.QueuedBytes > 0 && j.Blocked != "" {
			a.line("", "%s wait to be kept; events are %s behind", model.Size(j.QueuedBytes).Approximate(), model.CountNoun(j.BehindCommits, "commit"))
		}
	}
	if r := s.Reactions; r.Waiting > 0 || r.Rederiving {
		ago := model.TimeSpan(time.Duration(r.BehindSeconds * float64(time.Second)))
		text := fmt.Sprintf("%s not recorded yet, the oldest of %s ago", model.CountNoun(r.Waiting, "change"), ago)
		if r.Rederiving {
			text = fmt.Sprintf("%s behind: changes are made again from %s of the journal", ago, model.Size(r.BehindBytes).Approximate())
		}
		a.line("history", "%s", text)
	}
	a.line("server", "%s, %s, up %s", server, s.Server, model.Age(s.Now, s.Started))
}

// behindShown is how many commits are on their way all the time.
const behindShown = 10

// line is one fact of status.
func (a *app) line(name, format string, args ...any) {
	a.wrapped(fmt.Sprintf("%-10s %s", name, clean(fmt.Sprintf(format, args...), false)), 11)
}

// wrapped prints a line; on a terminal that is too narrow, several, all but the first
// indented. What may be painted is at its beginning. What is to be typed stays on one line
// where it fits on one.
func (a *app) wrapped(text string, indent int) {
	for a.Width > 0 && visible(text) > a.Width {
		at := breakAt(text, indent, a.Width, true)
		if at < 0 {
			at = breakAt(text, indent, a.Width, false)
		}
		if at < 0 {
			break
		}
		fmt.Fprintln(a.Stdout, strings.TrimRight(text[:at], " "))
		text = strings.Repeat(" ", indent) + text[at+1:]
	}
	fmt.Fprintln(a.Stdout, text)
}

// breakAt is the last blank at which a line may end; -1: there is none.
func breakAt(text string, indent, room int, whole bool) int {
	at := -1
	for i := range text {
		if text[i] != ' ' || i <= indent || visible(text[:i]) > room {
			continue
		}
		command := strings.LastIndex(text[:i+1], "muster ")
		if whole && command >= 0 && !strings.ContainsAny(text[command:i], ";,:()") {
			continue // within a command
		}
		at = i
	}
	return at
}

// visible is the width of a text without its colours.
func visible(text string) int {
	for _, colour := range [...]string{red, yellow, green, plain} {
		text = strings.ReplaceAll(text, colour, "")
	}
	return width(text)
}

// qualified is a name, with its namespace where that is not default.
func qualified(namespace, name string) string {
	if namespace == model.DefaultNamespaceName {
		return name
	}
	return namespace + "/" + name
}

// nodesText names some nodes: node web01; 37 nodes (web01, web02, web03, …).
func nodesText(n int, examples []string) string {
	if n == 1 && len(examples) == 1 {
		return "node " + examples[0]
	}
	more := ""
	if n > len(examples) {
		more = ", …"
	}
	return fmt.Sprintf("%s (%s%s)", model.CountNoun(n, "node"), strings.Join(examples, ", "), more)
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
		names[i] = qualified(e.Namespace, e.Node) + " for " + model.Age(a.Now(), e.Changed)
	}
	text := model.CountNoun(s.Silent, "node") + ": " + strings.Join(names, ", ")
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
	events := model.CountNoun(s.Events, "event")
	var how []string
	if len(bad) > 0 {
		how = append(how, strings.Join(bad, ", ")+" of "+events)
	}
	if s.Silent > 0 {
		how = append(how, model.CountNoun(s.Silent, "node")+" silent")
	}
	level := howWell(s)
	if level == nearlyWell { // else they stand below what is worse
		how = append(how, concerns(s)...)
	}
	text := strings.Join(how, "; ")
	if s.Silent > 0 && len(how) == 1 && len(concerns(s)) == 0 {
		text += ", the rest is well"
	}
	switch level {
	case notWell:
		if len(s.NotReady) > 0 {
			return a.paint(red, "The server is not ready.")
		}
		return a.paint(red, "Not well: "+text+".")
	case nearlyWell:
		return a.paint(yellow, "Nearly well: "+text+".")
	}
	if began := a.beginning(s); began != nil {
		return began.text
	}
	return a.paint(green, fmt.Sprintf("All is well: %s, none is wrong.", events))
}
