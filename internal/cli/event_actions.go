package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// eventAction is one action of people on events, such as acknowledge or resolve.
type eventAction struct {
	use, alias, short string
	bulk              string // its name in the API
	pastTense         string // its result, for one event and for many
	// act acts on one event; nil: it acknowledges.
	act func(e client.Events, ctx context.Context, namespace, node, check, note string) error
}

// eventVerbs are the actions of muster event.
var eventVerbs = [...]eventAction{
	{"ack", "acknowledge", "Acknowledge problems", "acknowledge", "", nil},
	{"unack", "unacknowledge", "Remove acknowledgements", "unacknowledge", "no longer acknowledged", client.Events.Unacknowledge},
	{"resolve", "", "Set events to OK until their next result", "resolve", "resolved", client.Events.Resolve},
	{"delete", "", "Delete events; the next result creates them again", "delete", "deleted", client.Events.Delete},
}

// eventFlags holds the flags of a command that acts on events, such as muster event acknowledge. The flags may
// select events by a filter instead of by name.
type eventFlags struct {
	v1.BulkRequest
	length model.Duration // of an acknowledgement; 0: until its problem closes
}

// eventCommand makes the command group muster event.
func eventCommand(s *commandLine) *cobra.Command {
	d := command{
		use: "event", short: "Acknowledge, resolve or delete events, or notify of them",
	}
	for _, verb := range eventVerbs {
		d.commands = append(d.commands, eventActionCommand(s, verb))
	}
	d.commands = append(d.commands, eventNotifyCommand(s))
	return s.buildCommand(d)
}

// eventActionCommand makes the command of one action on events, such as muster event acknowledge.
func eventActionCommand(s *commandLine, verb eventAction) *cobra.Command {
	f := &eventFlags{}
	d := command{
		use:   verb.use + " NODE/CHECK... | " + verb.use + " -l LABELS --where CONDITION --status STATUS --check NAME --group NAME",
		short: verb.short, args: cobra.ArbitraryArgs, complete: s.completeEvents,
		flags: func(flags *pflag.FlagSet) {
			f.registerFlags(flags)
			if verb.use == "ack" {
				flags.Var(&durationFlag{&f.length}, "for", "maximum length of the acknowledgement: 30m, 2h, 3d; default: until the problem closes")
			}
		},
		check: f.validate,
		run: func(c *commandCall) error {
			if len(c.args) > 0 {
				return actOnEvents(c, c.args, f.resultText(verb, 1), func(n eventName) error {
					if verb.act == nil {
						return c.api.Events.Acknowledge(c.ctx, n.namespace, n.node, n.check, f.Note, f.untilTime(c))
					}
					return verb.act(c.api.Events, c.ctx, n.namespace, n.node, n.check, f.Note)
				})
			}
			return actOnSelection(c, verb, f)
		},
	}
	if verb.alias != "" {
		d.aliases = []string{verb.alias}
	}
	return s.buildCommand(d)
}

// eventNotifyCommand makes the command muster event notify, which notifies handlers of older problems. Such a problem
// opened before a route matched it.
func eventNotifyCommand(s *commandLine) *cobra.Command {
	var note string
	return s.buildCommand(command{
		use: "notify NODE/CHECK...", short: "Notify handlers of problems that were open before a route took them",
		args: cobra.MinimumNArgs(1), complete: s.completeEvents,
		flags: func(flags *pflag.FlagSet) { registerMessageFlag(flags, &note, "reason, recorded with the action") },
		run: func(c *commandCall) error {
			for _, name := range c.args {
				e, err := c.findEventToChange(name)
				if err != nil {
					return err
				}
				routed, err := c.api.Events.Notify(c.ctx, e.namespace, e.node, e.check, note)
				if err != nil {
					return err
				}
				if printNewlyNotifiedProblems(c, v1.Applied{RoutingEffect: routed}); len(routed.AffectedProblems) == 0 && !routed.TakenLate {
					c.Wrapf(2, "nobody is notified of event %s: its handlers know the problem already, or it has none; see which: %s", e, c.ReplaceProgramName("muster why "+e.String()))
				}
			}
			return nil
		},
	})
}

// registerFlags adds the flags that select events, such as --node and --check, to a command.
func (f *eventFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&f.Selector, "selector", "l", "", "events with these labels of node or problem: env=prod,scope!=notice")
	flags.StringVar(&f.Where, "where", "", "condition on events: CEL over event and node")
	flags.StringVar(&f.Status, "status", "", "events with these statuses: critical,unknown")
	flags.StringVar(&f.Check, "check", "", "events of this check")
	flags.StringVar(&f.Node, "node", "", "events of this node")
	flags.StringVar(&f.Group, "group", "", "events of nodes in this group")
	flags.BoolVar(&f.All, "all", false, "all events of the namespace")
	flags.IntVar(&f.MaxAffected, "max-affected", 0, "largest number of events without --yes (0: a fifth of all, at least 50)")
	flags.BoolVar(&f.Yes, "yes", false, "confirm an action on any number of events")
	flags.BoolVar(&f.DryRun, "dry-run", false, "show the matching events and change nothing")
	registerMessageFlag(flags, &f.Note, "reason, recorded with the action")
}

// validate returns an error if a command has both event names and selecting flags, or neither
func (f *eventFlags) validate(c *commandCall) error {
	path, selects := c.cmd.CommandPath(), f.All || f.Selector+f.Where+f.Status+f.Check+f.Node+f.Group != ""
	switch {
	case len(c.args) > 0 && selects:
		return model.Errorf(model.Invalid, "event names cannot be combined with -l, --where, --status, --check, --node, --group or --all").WithHint("%s --check disk, or %s NODE/CHECK...", path, path)
	case len(c.args) > 0 && f.DryRun:
		return model.Errorf(model.Invalid, "--dry-run works only with flags that select events, not with event names").WithHint("see the event: muster describe event %s", c.args[0])
	case len(c.args) == 0 && !selects:
		return model.Errorf(model.Invalid, "the names of the events are missing").WithHint("%s NODE/CHECK..., or -l, --where, --status, --check, --group; all of the namespace: --all", path)
	}
	return nil
}

// resultText formats the result of an action in the past tense, such as "acknowledged for 2h".
func (f *eventFlags) resultText(verb eventAction, n int) string {
	switch {
	case verb.pastTense != "":
		return verb.pastTense
	case f.length > 0:
		return "acknowledged for " + f.length.String()
	case n == 1:
		return "acknowledged until its problem closes"
	}
	return "acknowledged until their problems close"
}

// untilTime returns the end of an acknowledgement, or zero for an acknowledgement without an end.
func (f *eventFlags) untilTime(c *commandCall) (until time.Time) {
	if f.length > 0 {
		until = c.Now().Add(time.Duration(f.length))
	}
	return until
}

// actOnEvents performs an action on each named event. It stops at the first failure.
func actOnEvents(c *commandCall, names []string, done string, act func(eventName) error) error {
	events := make([]eventName, len(names)) // all names are found before the first action
	for i, name := range names {
		var err error
		if events[i], err = c.findEventToChange(name); err != nil {
			return err
		}
	}
	for i, n := range events {
		if err := act(n); err != nil {
			return err
		}
		c.Printf("event %s %s\n", names[i], done)
	}
	return nil
}

// actOnSelection performs one action on all events that the flags select, after printing the selection. One
// request has all events.
func actOnSelection(c *commandCall, verb eventAction, f *eventFlags) error {
	r := f.BulkRequest
	var err error
	if r.Namespace, err = c.cutNamespacePrefix(&r.Group, &r.Node, &r.Check); err != nil {
		return err
	}
	r.Until = f.untilTime(c)
	if !r.DryRun && !c.Format.IsForPrograms() {
		preview := r
		preview.DryRun = true
		found, err := c.api.Events.Bulk(c.ctx, verb.bulk, preview)
		if err != nil {
			return err
		}
		if printMatchingEvents(c, &found, c.allNamespaces); found.Matched == 0 {
			return nil
		}
	}
	done, err := c.api.Events.Bulk(c.ctx, verb.bulk, r)
	const repeat = "repeat the command: it skips finished events"
	if !r.DryRun && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)) { // the server died meanwhile
		return model.Errorf(model.Unavailable, "the server did not answer; it may have changed some of the events").WithHint("when the server is back, %s", repeat)
	}
	if err != nil {
		return err
	}
	err = c.printValue(done, func() {
		if r.DryRun {
			printMatchingEvents(c, &done, c.allNamespaces)
			c.Printf("dry run: nothing was changed\n")
		} else {
			printBulkResult(c, &done, f.resultText(verb, done.Done))
		}
	})
	if err != nil {
		return err
	}
	for _, left := range done.Skipped {
		if left.Failed {
			return model.Errorf(model.Unavailable, "the action failed for %s of %d: %s", model.CountNoun(left.Count, "event"), done.Matched, left.Reason).WithHint("%s", repeat)
		}
	}
	return nil
}

// printMatchingEvents prints the events that an action would change.
func printMatchingEvents(c *commandCall, found *v1.BulkDone, all bool) {
	switch found.Matched {
	case 0:
		c.Printf("no matching event needs this action\n")
		return
	case 1:
		c.Printf("1 event matches:\n")
	default:
		c.Printf("%d events match:\n", found.Matched)
	}
	for _, e := range found.First {
		status := statusCell(e.Status)
		c.Printf("  %s%s%s\n", status, screen.PadToColumn(status.Text, len("CRITICAL")+1), bulkEventName(e, all))
	}
	if more := found.Matched - len(found.First); more > 0 {
		c.Printf("  and %d more\n", more)
	}
}

// bulkEventName returns the name of an event as NODE/CHECK. In a list of all namespaces, its namespace comes first.
func bulkEventName(e v1.BulkEvent, all bool) string {
	name := e.Node + "/" + e.Check
	if all {
		name = e.Namespace + "/" + name
	}
	return name
}

// printBulkResult prints the number of events that an action changed, and the reasons for skipped events.
func printBulkResult(c *commandCall, done *v1.BulkDone, result string) {
	c.Printf("%s %s\n", model.CountNoun(done.Done, "event"), result)
	for _, left := range done.Skipped {
		names := convertEach(left.First, func(e v1.BulkEvent) string { return bulkEventName(e, false) })
		if left.Count > len(names) {
			names = append(names, "…")
		}
		c.Wrapf(2, "! %d skipped, because %s: %s", left.Count, left.Reason, strings.Join(names, ", "))
	}
}

// statusCell returns a table cell with a status in its colour
func statusCell(s model.Status) screen.Cell {
	switch s {
	case model.OK:
		return screen.Cell{Text: "OK", Colour: screen.Green}
	case model.Warning:
		return screen.Cell{Text: "WARNING", Colour: screen.Yellow}
	case model.Critical:
		return screen.Cell{Text: "CRITICAL", Colour: screen.Red}
	}
	return screen.Cell{Text: s.String(), Colour: screen.Purple}
}

// outputSummary returns the first line of a check's output, without performance data.
func outputSummary(output string) string {
	text, _, _ := strings.Cut(screen.FirstLine(output), "|")
	return strings.TrimSpace(text)
}

// outputText returns the first line of a check's output, without performance data unless -o wide is set.
func outputText(c *commandCall, output string) string {
	if c.Format == screen.Wide {
		return screen.FirstLine(output)
	}
	return outputSummary(output)
}

// statusLetters formats statuses as one letter each, oldest first, such as ooowwc. The letters stand for OK, WARNING,
// CRITICAL and UNKNOWN.
func statusLetters(statuses []int) string {
	var b strings.Builder
	for _, s := range statuses {
		if 0 <= s && s < 4 {
			b.WriteByte("owcu"[s])
		}
	}
	return screen.DashIfEmpty(b.String())
}

// holdText formats the reasons, such as a silence, why notifications about an open problem wait. An example is
// a silence; without a reason the text is empty.
func holdText(c *commandCall, p *v1.OpenProblem) string {
	if p == nil || !p.Closed.IsZero() {
		return ""
	}
	until := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return ", for " + model.TimeSpan(t.Sub(c.Now()))
	}
	var parts []string
	if ack := p.Ack; ack.Active(c.Now()) {
		parts = append(parts, "acknowledged by "+strings.TrimSuffix(ack.By+": "+ack.Note, ": ")+until(ack.Until))
	}
	for _, h := range p.Holds {
		parts = append(parts, h.Text()+until(h.Until))
	}
	return strings.Join(parts, "; ")
}

// maxHeldText bounds the column HELD of tables.
const maxHeldText = 40

// heldCell returns the table cell of the column HELD with the reasons why notifications wait. The text is cut
// to maxHeldText columns, except with -o wide.
func heldCell(c *commandCall, p *v1.OpenProblem) string {
	text := holdText(c, p)
	if c.Format == screen.Wide {
		return text
	}
	return screen.CutToWidth(text, maxHeldText)
}

// historyEntryText describes one entry of an event's history, such as a status change, as a sentence.
func historyEntryText(e v1.Entry) string {
	output := screen.FirstLine(e.Output)
	switch e.Kind {
	case "lost":
		if e.Count == 0 {
			return "the agent reports: " + output
		}
		return fmt.Sprintf("the agent lost %s: %s", model.CountNoun(e.Count, "result"), output)
	case "late":
		return fmt.Sprintf("late result of %s: %s %s", e.Executed.UTC().Format(time.RFC3339), e.Status, output)
	}
	if words := entryWords[e.Kind]; words != "" {
		return words + ": " + output
	}
	if e.Previous == nil {
		return fmt.Sprintf("%s, the first result: %s", e.Status, output)
	}
	return fmt.Sprintf("%s, was %s: %s", e.Status, *e.Previous, output)
}

// entryWords are the words of entries by their kind.
var entryWords = map[string]string{
	"acknowledged": "acknowledged by", "unacknowledged": "acknowledgement removed by", "flapping": "flapping",
	"steady": "no longer flapping", "text": "new output", "forgotten": "the node was removed",
}
