package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// changeFlags has the flags of every command that changes resources, such as --message and --dry-run.
type changeFlags struct{ v1.ChangeOptions }

// registerFlags adds the flags of commands that change resources, such as --message and --dry-run.
func (f *changeFlags) registerFlags(flags *pflag.FlagSet) {
	registerMessageFlag(flags, &f.Message, "reason, recorded with the change (MUSTER_MESSAGE)")
	flags.BoolVar(&f.DryRun, "dry-run", false, "show the effect and change nothing")
	flags.BoolVar(&f.Yes, "yes", false, "confirm a change of any number of nodes")
	flags.IntVar(&f.MaxAffected, "max-affected", 0, "largest number of affected nodes without --yes (0: a fifth of all, at least 50)")
}

// registerFileFlag adds the flag -f to a command.
func registerFileFlag(flags *pflag.FlagSet, files *[]string) {
	flags.StringArrayVarP(files, "file", "f", nil, "file, folder or - for standard input; may be repeated")
}

// changeOptions converts the flags of a change, such as --dry-run, to the options of the API request. Its
// reason is flag -m, else the first line of MUSTER_MESSAGE; a CI pipeline sets this variable to the subject of
// the commit.
func (s *commandLine) changeOptions(f *changeFlags) v1.ChangeOptions {
	o := f.ChangeOptions
	if o.Message != "" {
		return o
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(s.Getenv("MUSTER_MESSAGE")), "\n")
	const most = 1000 // bytes that the API accepts
	if len(subject) > most {
		subject = strings.ToValidUTF8(subject[:most-len("…")], "") + "…"
	}
	o.Message = strings.TrimSpace(subject)
	return o
}

// applyFlags holds the flags of apply, plan and diff, and the resources from the files of -f.
type applyFlags struct {
	changeFlags
	files                       []string
	owner                       string
	prune, takeOver, allowEmpty bool
	onlyNew                     bool
	exitCode                    bool // of plan and diff: 20 if something would change
	timings                     bool // of plan: the time of each step of the planner
	docs                        []declaredResource
}

// registerFlags adds the flags of muster apply.
func (f *applyFlags) registerFlags(flags *pflag.FlagSet) {
	registerFileFlag(flags, &f.files)
	f.changeFlags.registerFlags(flags)
	flags.StringVar(&f.owner, "owner", "", "owner of the resources: a team or repository; written into metadata.owner")
	flags.BoolVar(&f.prune, "prune", false, "delete resources of --owner that are not in the files")
	flags.BoolVar(&f.onlyNew, "only-new", false, "send no message about problems that are open already; only later ones notify the new handlers")
	flags.BoolVar(&f.takeOver, "take-over", false, "also change resources of another owner")
	flags.BoolVar(&f.allowEmpty, "allow-empty", false, "with --prune: accept files without any resource")
}

// registerPreviewFlags adds the flags of plan and diff, which change nothing on the server.
func (f *applyFlags) registerPreviewFlags(flags *pflag.FlagSet) {
	f.DryRun = true
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.registerFlags(own)
	own.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "dry-run" {
			flags.AddFlag(flag)
		}
	})
	f.DryRun = true // declare reset it to its default
	flags.BoolVar(&f.timings, "timings", false, "also show the time of each step of the planner")
	flags.BoolVar(&f.exitCode, "exit-code", false, "exit with 20 if apply would change a resource")
}

// validate returns an error for contradictory flags, such as --prune without an owner.
func (f *applyFlags) validate(c *commandCall) (err error) {
	switch {
	case f.owner == "" && c.cmd.Flags().Changed("owner"):
		return model.Errorf(model.Invalid, "--owner is empty").WithHint("set the variable of the CI job, or write: --owner team-a")
	case f.prune && f.owner == "":
		return model.Errorf(model.Invalid, "--prune needs --owner").WithHint("%s --prune --owner team-a", c.cmd.CommandPath())
	case f.allowEmpty && !f.prune:
		return model.Errorf(model.Invalid, "--allow-empty is valid only together with --prune").WithHint("leave the flag out")
	}
	f.docs, err = f.readResources(c)
	return err
}

// readResources reads the resources that the files of -f declare. Files without any resource are an error, unless
// --allow-empty is set.
func (f *applyFlags) readResources(c *commandCall) ([]declaredResource, error) {
	paths := append(f.files, c.args...)
	docs, err := c.readFiles(paths)
	switch {
	case err != nil:
		return nil, err
	case len(docs) == 0 && f.prune && !f.allowEmpty:
		return nil, model.Errorf(model.Invalid, "no resources in %s: --prune would delete all resources of owner %s", strings.Join(paths, ", "), f.owner).
			WithHint("check the folder and its checkout. To delete all resources of the owner: --allow-empty")
	case len(docs) == 0 && !f.prune:
		return nil, noResourcesError(paths)
	}
	return docs, findOtherOwners(docs, f.owner).Err()
}

// applyOrPreview sends the resources in the files to the server, to apply or to preview the change. With
// --dry-run the server only returns the effect.
func (f *applyFlags) applyOrPreview(c *commandCall) (v1.Applied, error) {
	request := v1.ApplyRequest{
		ChangeOptions: c.changeOptions(&f.changeFlags), Namespace: c.namespace,
		Owner: f.owner, Prune: f.prune, TakeOver: f.takeOver, AllowEmpty: f.allowEmpty, OnlyNew: f.onlyNew,
		Resources: make([]json.RawMessage, len(f.docs)),
	}
	for i, d := range f.docs {
		request.Resources[i] = d.body
	}
	applied, err := c.api.Resources.Apply(c.ctx, request)
	return applied, locateRefusal(c, f.docs, err)
}

// applyCommand makes the command muster apply, which declares resources.
func applyCommand(s *commandLine) *cobra.Command {
	f := &applyFlags{}
	return s.buildCommand(command{
		use: "apply -f FILE...", oneNamespace: true, short: "Declare resources, all of them or none",
		flags: f.registerFlags, check: f.validate,
		run: func(c *commandCall) error {
			if f.prune && !f.DryRun {
				preview := *f
				preview.DryRun = true
				planned, err := preview.applyOrPreview(c)
				if err != nil {
					return err
				}
				printResourcesToPrune(c, planned, f.owner)
			}
			return c.printApplyResult(f.applyOrPreview(c))
		},
	})
}

// planCommand makes the command muster plan, which shows the effect of apply.
func planCommand(s *commandLine) *cobra.Command {
	return previewCommand(s, command{
		use: "plan -f FILE...", oneNamespace: true, short: "Show the effect of apply: nodes and differences of each check and directive",
	}, printResourceChanges)
}

// diffCommand makes the command muster diff, which shows what an apply would change.
func diffCommand(s *commandLine) *cobra.Command {
	return previewCommand(s, command{
		use: "diff -f FILE...", oneNamespace: true, short: "Show the differences that apply would make",
	}, printResourceDiffs)
}

// previewCommand makes the commands muster plan and muster diff with their common parts. Both show the effect of apply
// without applying it.
func previewCommand(s *commandLine, d command, print func(*commandCall, v1.Applied) error) *cobra.Command {
	f := &applyFlags{}
	d.flags, d.check = f.registerPreviewFlags, f.validate
	d.run = func(c *commandCall) error {
		applied, err := f.applyOrPreview(c)
		if err != nil {
			return err
		}
		if err := print(c, applied); err != nil {
			return err
		}
		if f.timings && !c.Format.IsForPrograms() {
			printTimings(c, applied)
		}
		if !f.exitCode {
			return nil
		}
		return previewExitError(applied)
	}
	return s.buildCommand(d)
}

// printApplyResult prints the changes by the server, or the server's reason for a refusal.
func (c *commandCall) printApplyResult(done v1.Applied, err error) error {
	if err != nil {
		return err
	}
	return printResourceChanges(c, done)
}

// printResourceChanges writes one line per applied resource, with its change and the number of its nodes.
func printResourceChanges(c *commandCall, applied v1.Applied) error {
	if c.Format.IsForPrograms() {
		return c.WriteValue(applied)
	}
	changes := make([]string, len(applied.Outcomes))
	wide := 0
	for i, o := range applied.Outcomes {
		changes[i] = screen.CleanLine(resourceRefText(o.Kind, o.Namespace, cmp.Or(o.Was, o.Name)) + " " + resourceChangeText(o, applied.DryRun))
		wide = max(wide, screen.TextWidth(changes[i]))
	}
	for i, o := range applied.Outcomes {
		line := changes[i]
		line += textIf(o.Note != "", screen.PadToColumn(changes[i], wide+3)+c.ReplaceProgramName(o.Note))
		c.Wrapf(4, "%s", line)
		for _, w := range o.Warnings {
			c.Wrapf(4, "  %s %s", screen.Warning, c.ReplaceProgramName(w))
		}
	}
	printNewlyNotifiedProblems(c, applied)
	for i := range applied.Units {
		printUnitImpact(c, &applied.Units[i])
	}
	if applied.DryRun {
		c.Wrapf(2, "dry run: nothing was changed; %s would get a new assignment", model.CountNoun(applied.Affected, "node"))
		printApplyRefusal(c, applied)
	}
	return nil
}

// printUnitImpact prints the nodes that would get, lose or change a check, policy directive or Template. It also
// prints the differences of its definition.
func printUnitImpact(c *commandCall, u *v1.UnitImpact) {
	var parts []string
	for _, p := range []struct {
		verb  string
		nodes int
	}{{"appears", u.Gets}, {"disappears", u.Loses}, {"changes", u.Changes}} {
		if p.nodes > 0 {
			parts = append(parts, p.verb+" on "+model.CountNoun(p.nodes, "node"))
		}
	}
	text := strings.Join(u.Nodes, ", ")
	if all := u.Gets + u.Loses + u.Changes; all > len(u.Nodes) {
		text += ", …"
	}
	c.Wrapf(4, "%s", screen.CleanLine(resourceRefText(u.Kind, u.Namespace, u.Name)+" "+strings.Join(parts, ", ")+": "+text))
	for _, line := range u.Differences {
		c.Printf("    %s\n", screen.CleanLine(line))
	}
	if len(u.Steps) > 0 {
		c.Wrapf(6, "    in steps: %s", screen.CleanLine(strings.Join(u.Steps, ", ")))
	}
}

// printTimings prints how long each step of the server's preview took, such as compiling the changed resources.
func printTimings(c *commandCall, applied v1.Applied) {
	for _, step := range applied.Timings {
		c.Printf("%10.3f ms  %s\n", float64(step.Microseconds)/1000, step.Step)
	}
}

// printNewlyNotifiedProblems prints the handlers to be notified of already open problems after a change of
// routes. The problems were already open before the change.
func printNewlyNotifiedProblems(c *commandCall, applied v1.Applied) {
	for _, t := range applied.AffectedProblems {
		var handlers []string
		for _, ref := range t.Handlers {
			namespace, name, _ := strings.Cut(ref, "/")
			handlers = append(handlers, nameWithNamespace(namespace, name))
		}
		namespace, name, _ := strings.Cut(t.Route, "/")
		who, notifies, notified := strings.Join(handlers, ", "), " notifies ", " is notified"
		if applied.DryRun {
			notifies, notified = " would notify ", " would be notified"
		}
		if t.Route != "" {
			who = "route " + nameWithNamespace(namespace, name) + notifies + who
		} else {
			who += notified
		}
		text := model.CountNoun(t.Problems, "open problem") + ": " + who
		told := t.Problems - t.OnHold - t.Notified
		if told == 0 {
			text += " of none of them now"
		} else if told < t.Problems {
			text += fmt.Sprintf(" of %d of them", told)
		}
		if told > 0 {
			text += textIf(!applied.DryRun, " at "+c.TimeOfDay(t.At)) + ", in one message"
		}
		if through := strings.Join(handlers, ", "); t.Notified == t.Problems {
			text += ": already notified through " + through
		} else if t.Notified > 0 {
			text += fmt.Sprintf("; %d of them already notified through %s", t.Notified, through)
		}
		switch {
		case told > 0 && applied.DryRun:
			text += textIf(c.cmd.Flags().Lookup("only-new") != nil, "; to notify nobody of them: --only-new")
		case applied.DryRun || t.OnHold == 0:
		case told == 0 && t.Notified == 0:
			text += "; the reason, and the command that notifies: muster why NODE/CHECK"
		default:
			text += "; the reason for the others: muster why NODE/CHECK"
		}
		c.Wrapf(2, "%s", c.ReplaceProgramName(text))
	}
	if applied.TakenLate {
		c.Wrapf(2, "! history is behind: handlers are notified of the open problems that this change affects after history has caught up (muster status)")
	}
}

// resourceChangeText returns the change of a resource in words, such as "created" or "would be renamed shop01"
func resourceChangeText(o v1.Outcome, dryRun bool) string {
	op := o.Op
	op += textIf(o.Was != "", " "+o.Name)
	if dryRun && o.Op != "unchanged" {
		return "would be " + op
	}
	return op
}

// printResourceDiffs writes the differences that apply would make, for each resource.
func printResourceDiffs(c *commandCall, applied v1.Applied) error {
	if c.Format.IsForPrograms() {
		return c.WriteValue(applied)
	}
	different := false
	for _, o := range applied.Outcomes {
		if o.Op != "unchanged" {
			different = true
			c.Wrapf(2, "%s %s   %s", resourceRefText(o.Kind, o.Namespace, o.Name), resourceChangeText(o, true), o.Note)
			printPatch(c, o.Diff)
		}
	}
	if !different {
		c.Printf("no difference\n")
	}
	printApplyRefusal(c, applied)
	return nil
}

// printResourcesToPrune lists the resources that --prune is about to delete.
func printResourcesToPrune(c *commandCall, planned v1.Applied, owner string) {
	var lines []string
	for _, o := range planned.Outcomes {
		if o.Op == "deleted" {
			lines = append(lines, screen.CleanLine("  "+resourceRefText(o.Kind, o.Namespace, o.Name)+"   "+o.Note))
		}
	}
	if len(lines) > 0 {
		c.Notef(2, "pruning %s of owner %s:\n%s", model.CountNoun(len(lines), "resource"), owner, screen.PaintedText(strings.Join(lines, "\n")))
	}
}

// printApplyRefusal writes the reason why the server would refuse to apply the previewed change
func printApplyRefusal(c *commandCall, applied v1.Applied) {
	if r := applied.Refused; r != nil {
		c.Wrapf(2, "%s %s", screen.Cell{Text: "apply would refuse this change:", Colour: screen.Red}, r.Detail)
		if r.Hint != "" {
			c.Printf("  %s\n", r.Hint)
		}
	}
}

// previewExitError returns the error with the exit code of plan or diff, which tells whether anything would
// change. It is the error's own code if apply would be refused, 20 if apply would change something, and else 0.
func previewExitError(applied v1.Applied) error {
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

// editCommand makes the command muster edit.
func editCommand(s *commandLine) *cobra.Command {
	f := &changeFlags{}
	var k kind.Kind
	var name string
	return s.buildCommand(command{
		use: "edit KIND NAME", short: "Edit a resource in $EDITOR and apply it",
		args: cobra.RangeArgs(1, 2), complete: s.completeObjects(1), flags: f.registerFlags,
		check: func(c *commandCall) (err error) {
			var word string
			if word, name, err = c.kindAndName(c.cmd, c.args); err == nil {
				k, err = c.findKind(word)
			}
			return err
		},
		run: func(c *commandCall) error { return editResource(c, k, name, f) },
	})
}

// editResource opens a resource in the editor and applies the edited text. The text stays in its file until the
// server took it; the ETag of the first read makes a concurrent change a conflict.
func editResource(c *commandCall, k kind.Kind, name string, f *changeFlags) error {
	namespace, name, err := c.findObject(k.KindInfo, name)
	if err != nil {
		return err
	}
	data, tag, err := c.api.Resources.Get(c.ctx, k.KindInfo, namespace, name)
	if err != nil {
		return err
	}
	before, err := document.YAML(data)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "muster-edit-*.yaml")
	if err != nil {
		return fmt.Errorf("create the file to edit: %w", err)
	}
	path := file.Name()
	_, err = file.Write(before)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the file to edit: %w", err)
	}
	if err := c.Edit(path); err != nil {
		_ = os.Remove(path)
		return model.Errorf(model.Invalid, "the editor failed: %w", err).WithHint("set EDITOR to another editor")
	}
	after, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the edited file: %w", err)
	}
	if bytes.Equal(after, before) {
		_ = os.Remove(path)
		c.Printf("no change\n")
		return nil
	}
	applied, err := replaceWithEditedText(c, k, f, path, data, after, tag)
	if err != nil {
		c.Notef(2, "your text is saved in %s. Correct the file, then: muster apply -f %s", path, path)
		return err
	}
	_ = os.Remove(path)
	return printResourceChanges(c, applied)
}

// replaceWithEditedText replaces a resource by the text that the user edited. Kind, name and namespace must be
// unchanged.
func replaceWithEditedText(
	c *commandCall, k kind.Kind, f *changeFlags, path string, before, after []byte, tag string,
) (v1.Applied, error) {
	docs, err := c.decodeDocuments(path, after)
	if err != nil {
		return v1.Applied{}, err
	}
	if len(docs) != 1 {
		return v1.Applied{}, model.Errorf(model.Invalid, "file %s has %s, expected exactly one resource", path, model.CountNoun(len(docs), "resource"))
	}
	old, err := c.Kinds.DecodeResource(before)
	if err != nil {
		return v1.Applied{}, err
	}
	if refToResource(&docs[0].located.Resource) != refToResource(old) {
		return v1.Applied{}, model.Errorf(model.Invalid, "kind, name and namespace cannot be edited").WithHint("declare a new resource: muster apply -f %s", path)
	}
	return c.api.Resources.Put(c.ctx, k.KindInfo, old.Metadata.Namespace, old.Metadata.Name, docs[0].body, tag, c.changeOptions(f))
}
