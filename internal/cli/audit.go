package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) auditCmd() *cobra.Command {
	var output *format
	var limit int
	var diff bool
	var narrow v1.Narrow
	c := &cobra.Command{
		Use:     "audit [KIND [NAME]]",
		Short:   "Who changed what, when, whence and why; newest first",
		Long:    "Shows every recorded change of resources, users and tokens, and what was run: who, when, from where, why and,\nwith --diff, the difference. What one command changed stands together.",
		Example: "  muster audit\n  muster audit check disk --diff\n  muster audit run",
		Args:    cobra.MaximumNArgs(2), ValidArgsFunction: a.completeObjects(1),
		RunE: func(c *cobra.Command, args []string) error {
			var kind, name string
			if len(args) > 0 {
				word, names, err := a.kindAndNames(c, args)
				if err != nil {
					return err
				}
				if kind = word; word != "run" { // what people ran is no kind of resource
					k, err := a.kindOf(word)
					if err != nil {
						return err
					}
					kind = k.Name
				}
				if len(names) > 0 {
					name = names[0]
				}
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if limit < 1 {
				return model.Errorf(model.Invalid, "--limit %d: want at least 1", limit)
			}
			var list v1.ChangeList
			for after := ""; len(list.Items) < limit; after = list.Next {
				page, err := client.Resources.Changes(c.Context(), kind, a.namespace, name, min(limit-len(list.Items), 200), after, narrow)
				if err != nil {
					return err
				}
				list.Items, list.Next = append(list.Items, page.Items...), page.Next
				if page.Next == "" {
					break
				}
			}
			if output.machine() {
				return a.printValue(*output, list)
			}
			if len(list.Items) == 0 {
				fmt.Fprintln(a.Stdout, noChanges(kind, a.namespace, name))
			}
			for _, one := range byRevision(list.Items) {
				a.printRevision(one, diff, limit)
			}
			if list.Next != "" {
				fmt.Fprintf(a.Stdout, "there are older ones: --limit %d\n", limit*5)
			}
			return nil
		},
	}
	output = formatFlag(c)
	c.Flags().IntVar(&limit, "limit", 20, "changes at most")
	whereFlag(c, &narrow, `row.user == "ann"`)
	c.Flags().BoolVar(&diff, "diff", false, "show the differences")
	return c
}

func noChanges(kind, namespace, name string) string {
	text := "no change is recorded"
	if kind != "" {
		text += " of " + strings.TrimSuffix(refOf(kind, "", name), "/")
	}
	if namespace != "" {
		text += " in namespace " + namespace
	}
	return clean(text, false)
}

// byRevision puts what was changed by one command together.
func byRevision(changes []v1.Change) (list [][]v1.Change) {
	for i, c := range changes {
		if i == 0 || c.Revision != changes[i-1].Revision {
			list = append(list, nil)
		}
		list[len(list)-1] = append(list[len(list)-1], c)
	}
	return list
}

// printRevision is one line for one change; many changes of one revision stand below
// a line that says who made them.
func (a *app) printRevision(changes []v1.Change, diff bool, most int) {
	c := changes[0]
	head := fmt.Sprintf("%6d  %s  ", c.Revision, c.At.In(a.Zone).Format("2006-01-02 15:04:05"))
	if len(changes) == 1 {
		fmt.Fprintln(a.Stdout, head+clean(a.changeText(c), false))
		if diff {
			a.printPatch(c.Diff)
		}
		return
	}
	fmt.Fprintln(a.Stdout, head+clean(whoDid(c)+" changed "+model.CountNoun(len(changes), "resource")+why(c), false))
	for i, c := range changes {
		if i == most {
			fmt.Fprintf(a.Stdout, "        and %d more\n", len(changes)-most)
			return
		}
		fmt.Fprintf(a.Stdout, "        %s\n", clean(doneTo(c), false))
		if diff {
			a.printPatch(c.Diff)
		}
	}
}

// done is what was done: created, updated, deleted.
func done(op string) string { return strings.TrimSuffix(op, "e") + "ed" }

// whoDid is who, from where and on whose behalf: pipeline from 10.0.0.7 for team-a.
func whoDid(c v1.Change) string {
	text := c.User
	if c.Whence != "" && c.Whence != "local" {
		text += " from " + c.Whence
	}
	if c.Owner != "" {
		text += " for " + c.Owner
	}
	return text
}

func why(c v1.Change) string {
	if c.Message != "" {
		return ": " + c.Message
	}
	return ""
}

// changeText is a change in one line: admin from 10.0.0.7 updated check/disk: why.
func (a *app) changeText(c v1.Change) string {
	if c.Kind == "run" {
		return whoDid(c) + " ran " + c.Message
	}
	return whoDid(c) + " " + doneTo(c) + why(c)
}

// doneTo is what was done to what: updated check/disk, renamed node/web01 to shop01.
func doneTo(c v1.Change) string {
	if c.Was != "" {
		return done(c.Op) + " " + refOf(c.Kind, c.Namespace, c.Was) + " to " + c.Name
	}
	text := done(c.Op) + " " + refOf(c.Kind, c.Namespace, c.Name)
	if c.More > 0 {
		text += fmt.Sprintf(" and %d more", c.More)
	}
	return text
}

func (a *app) changeLine(c v1.Change) string {
	return model.Age(a.Now(), c.At) + " ago " + a.changeText(c)
}
