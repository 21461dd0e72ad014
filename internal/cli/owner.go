package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// addOwner adds the flags of a folder that belongs to somebody.
func (f *applyFlags) addOwner(c *cobra.Command) {
	c.Flags().StringVar(&f.owner, "owner", "", "whose the resources are: a team, a repository; written on each as metadata.owner")
	c.Flags().BoolVar(&f.prune, "prune", false, "delete what belongs to --owner and is not in the files; what others own stays")
	c.Flags().BoolVar(&f.takeOver, "take-over", false, "also take what belongs to another owner")
	c.Flags().BoolVar(&f.allowEmpty, "allow-empty", false, "with --prune: the files declare nothing, and that is meant so")
}

func (f *applyFlags) addExitCode(c *cobra.Command) {
	c.Flags().BoolVar(&f.exitCode, "exit-code", false, "end with 20 if something would change")
}

// check refuses flags that do not fit together, before any file is read: in a pipeline an
// empty variable must not become "everybody's".
func (f *applyFlags) check(c *cobra.Command) error {
	switch {
	case f.owner == "" && c.Flags().Changed("owner"):
		return model.Errorf(model.Invalid, "--owner is empty").WithHint("is a variable of the pipeline not set? write: --owner team-a")
	case f.prune && f.owner == "":
		return model.Errorf(model.Invalid, "--prune: what to delete is not said: whose?").WithHint("%s --prune --owner team-a", c.CommandPath())
	case f.allowEmpty && !f.prune:
		return model.Errorf(model.Invalid, "--allow-empty is for --prune").WithHint("leave it out")
	}
	return nil
}

// documentsOf reads what the files declare. None is an error, unless --allow-empty says
// that it is meant so.
func (a *app) documentsOf(c *cobra.Command, f *applyFlags, files []string) ([]declaration, error) {
	if err := f.check(c); err != nil {
		return nil, err
	}
	paths := append(f.files, files...)
	docs, err := a.readFiles(paths)
	switch {
	case err != nil:
		return nil, err
	case len(docs) == 0 && f.prune && !f.allowEmpty:
		return nil, model.Errorf(model.Invalid, "%s holds no resource: with --prune all that %s owns would be deleted", strings.Join(paths, ", "), f.owner).
			WithHint("is it the right folder, and checked out? if all of it is to go: --allow-empty")
	case len(docs) == 0 && !f.prune:
		return nil, noResource(paths)
	}
	return docs, foreign(docs, f.owner).Err()
}

// foreign finds resources whose files say another owner.
func foreign(docs []declaration, owner string) (flaws model.Flaws) {
	for _, d := range docs {
		if says := d.located.Metadata.Owner; owner != "" && says != "" && says != owner {
			flaws = append(flaws, d.located.Locate(&model.Flaw{Field: "metadata.owner", Text: fmt.Sprintf("says %s, and --owner is %s", says, owner),
				Hint: "remove the line, or move the file to the folder of " + says}))
		}
	}
	return flaws
}

// message is why: -m, or in a pipeline the first line of MUSTER_MESSAGE, such as the
// subject of a commit.
func (a *app) message(f *applyFlags) string {
	if f.message != "" {
		return f.message
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(a.Getenv("MUSTER_MESSAGE")), "\n")
	const most = 1000 // bytes, as the API takes them
	if len(subject) > most {
		subject = strings.ToValidUTF8(subject[:most-len("…")], "") + "…"
	}
	return strings.TrimSpace(subject)
}

// printPruned says what is about to be deleted, before it is.
func (a *app) printPruned(planned v1.Applied, owner string) {
	var lines []string
	for _, o := range planned.Outcomes {
		if o.Op == "deleted" {
			lines = append(lines, "  "+clean(refOf(o.Kind, o.Namespace, o.Name)+"   "+o.Note, false))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(a.Stderr, "pruning %s of %s:\n%s\n", model.CountNoun(len(lines), "resource"), clean(owner, false), strings.Join(lines, "\n"))
	}
}

// printRefused says why apply would not do what was previewed.
func (a *app) printRefused(applied v1.Applied) {
	if r := applied.Refused; r != nil {
		fmt.Fprintf(a.Stdout, "%s %s\n", a.paint(red, "apply would refuse this:"), clean(r.Detail, false))
		if r.Hint != "" {
			fmt.Fprintf(a.Stdout, "  %s\n", clean(r.Hint, false))
		}
	}
}

// somethingWaits is the exit code of a preview: of the refusal, or 20 if something would change.
func somethingWaits(applied v1.Applied) error {
	if r := applied.Refused; r != nil {
		for class := model.Internal; class <= model.Stale; class++ {
			if class.Label() == r.Class {
				return &exitError{class.Exit()}
			}
		}
	}
	for _, o := range applied.Outcomes {
		if o.Op != "unchanged" {
			return &exitError{20}
		}
	}
	return nil
}
