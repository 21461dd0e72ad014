package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// auditCommand makes the command muster audit, which lists recorded changes.
func auditCommand(s *commandLine) *cobra.Command {
	f := listFlags{}
	var diff bool
	var kind, name string
	return s.buildCommand(command{
		use: "audit [KIND [NAME]]", short: "List recorded changes with author, time, address and reason, newest first",
		args: cobra.MaximumNArgs(2), complete: s.completeObjects(1),
		flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&f.limit, "limit", 20, "maximum number of changes (0: all)")
			f.registerWhere(flags, whereRowHelp(`row.user == "ann"`))
			flags.BoolVar(&diff, "diff", false, "show the differences")
		},
		check: func(c *commandCall) error {
			if f.limit < 0 {
				return model.Errorf(model.Invalid, "--limit %d: expected a number of changes, or 0 for all", f.limit)
			}
			if len(c.args) == 0 {
				return nil
			}
			word, names, err := c.kindAndNames(c.cmd, c.args)
			if err != nil {
				return err
			}
			if len(names) > 0 {
				name = names[0]
			}
			if kind = word; word == "run" { // recorded like a change, but no kind of resource
				return nil
			}
			k, err := c.findKind(word)
			kind = k.Name
			return err
		},
		run: func(c *commandCall) error {
			namespace := textIf(!c.allNamespaces, c.namespace)
			if at, bare, named := strings.Cut(name, "/"); named {
				if err := c.checkNamespaceFlag(at, name); err != nil {
					return err
				}
				namespace, name = at, bare
			}
			items, next, err := client.Pages(f.limit, func(size int, after string) ([]v1.Change, string, error) {
				page, err := c.api.Resources.Changes(c.ctx, kind, namespace, name, min(size, 200), after, f.RowFilter)
				return page.Items, page.Next, err
			})
			if err != nil {
				return err
			}
			return c.printValue(v1.ChangeList{Items: items, Next: next}, func() {
				if len(items) == 0 {
					c.Printf("%s\n", noChangesText(kind, namespace, name))
				}
				for _, changes := range groupChangesByRevision(items) {
					printChangesOfRevision(c, changes, diff, f.limit)
				}
				if next != "" {
					byServer := slices.ContainsFunc(items, func(change v1.Change) bool { return change.User == "server" })
					c.Wrapf(2, "older changes exist: --limit %d%s", f.limit*5, textIf(byServer && f.Where == "", `; without changes by the server: --where 'row.user != "server"'`))
				}
			})
		},
	})
}

// noChangesText returns the line that muster audit prints if no changes are recorded.
func noChangesText(kind, namespace, name string) string {
	return "no recorded changes" + textIf(kind != "", " of "+strings.TrimSuffix(resourceRefText(kind, "", name), "/")) +
		textIf(namespace != "", " in namespace "+namespace)
}

// groupChangesByRevision groups audit records by revision, because all changes of one transaction have the same
// revision. The changes of one command so stay together.
func groupChangesByRevision(changes []v1.Change) (groups [][]v1.Change) {
	for i, c := range changes {
		if i == 0 || c.Revision != changes[i-1].Revision {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], c)
	}
	return groups
}

// printChangesOfRevision prints the audit records of one revision, the changes by a single command. A single
// change is one line; several stand below a line with their author.
func printChangesOfRevision(c *commandCall, changes []v1.Change, diff bool, most int) {
	head := changes[0]
	if len(changes) == 1 {
		c.Wrapf(8, "%6d  %s  %s", head.Revision, c.DateAndTime(head.At), changeText(head))
		if diff {
			printPatch(c, head.Diff)
		}
		return
	}
	c.Wrapf(8, "%6d  %s  %s", head.Revision, c.DateAndTime(head.At), appendReason(changeAuthor(head)+" changed "+model.CountNoun(len(changes), "resource"), head))
	for i, change := range changes {
		if i == most && most > 0 {
			c.Printf("        and %d more\n", len(changes)-most)
			return
		}
		c.Printf("        %s\n", changeActionText(change))
		if diff {
			printPatch(c, change.Diff)
		}
	}
}

// changeAuthor formats user, address and owner of an audit record, such as "pipeline from 10.0.0.7 for team-a".
func changeAuthor(c v1.Change) string {
	return c.User + textIf(c.Address != "" && c.Address != "local", " from "+c.Address) + textIf(c.Owner != "", " for "+c.Owner)
}

// appendReason appends to a line of muster audit the reason that the author of the change gave.
func appendReason(text string, c v1.Change) string {
	return text + textIf(c.Message != "", ": "+c.Message)
}

// changeText formats an audit record as one line. Example: "admin from 10.0.0.7 updated check/disk: less noise".
func changeText(c v1.Change) string {
	if c.Kind == "run" {
		return changeAuthor(c) + " ran " + c.Message
	}
	return appendReason(changeAuthor(c)+" "+changeActionText(c), c)
}

// changeActionText formats the action and object of an audit record, such as "updated check/disk".
func changeActionText(c v1.Change) string {
	verb := strings.TrimSuffix(c.Op, "e") + "ed"
	if c.Was != "" {
		return verb + " " + resourceRefText(c.Kind, c.Namespace, c.Was) + " to " + c.Name
	}
	return verb + " " + resourceRefText(c.Kind, c.Namespace, c.Name) + textIf(c.More > 0, fmt.Sprintf(" and %d more", c.More))
}

// printPatch prints the differences of a change (a unified diff) in colours. Lines with file names are left out.
func printPatch(c *commandCall, patch string) {
	for line := range strings.Lines(patch) {
		cell := screen.Cell{Text: strings.TrimRight(line, "\n")}
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			continue
		case strings.HasPrefix(line, "+"):
			cell.Colour = screen.Green
		case strings.HasPrefix(line, "-"):
			cell.Colour = screen.Red
		}
		c.Printf("  %s\n", cell)
	}
}

// whyCommand makes the command muster why, which traces a check from its declaration to its notifications.
func whyCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "why NODE[/CHECK|/ITEM]", short: "Trace a check on a node, from its declaration to its notifications, or an item, from its source to its value",
		args: cobra.ExactArgs(1), complete: s.completeEvents,
		run: fetchAndPrint(func(c *commandCall) (t v1.Trace, err error) {
			n, err := c.findNodeOrEvent(c.args[0])
			if err == nil {
				t, err = c.api.Events.Trace(c.ctx, n.namespace, n.node, n.check)
			}
			if model.ClassOf(err) == model.NotFound && strings.Contains(c.args[0], "/") {
				if of, ok, _ := traceItem(c, c.args[0]); ok {
					return of, nil
				}
			}
			return t, err
		}, printCheckTrace),
	})
}

// printCheckTrace prints for muster why each step by which a check on a node leads to notifications. Below each
// step stand its causes, indented.
func printCheckTrace(c *commandCall, trace v1.Trace) {
	c.Printf("%s in namespace %s\n\n", trace.Node+textIf(trace.Check != "", "/"+trace.Check), trace.Namespace)
	last := ""
	for _, link := range trace.Links {
		printTraceStep(c, fmt.Sprintf("%-10s", textIf(link.Name != last, link.Name)), link)
		last = link.Name
	}
	for _, text := range definitionTexts(trace.Definition) {
		if text[1] != "" {
			printTraceStep(c, fmt.Sprintf("%-10s", text[0]), v1.Link{Holds: true, Text: text[1]})
		}
	}
}

// printTraceStep prints one step of a check's trace, with its causes indented below.
func printTraceStep(c *commandCall, before string, link v1.Link) {
	text := screen.Cell{Text: "  " + link.Text}
	if !link.At.IsZero() {
		text.Text += " " + c.TimeAndAge(link.At)
	}
	if !link.Holds {
		text = screen.Cell{Text: "! " + strings.TrimPrefix(text.Text, "  "), Colour: screen.Red}
	}
	c.Wrapf(len(before)+3, "%s %s", screen.PaintedText(before), text)
	for _, under := range link.Steps {
		printTraceStep(c, strings.Repeat(" ", len(before)+2), under)
	}
}
