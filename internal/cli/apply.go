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

// changeFlags are the flags of every command that changes resources.
type changeFlags struct {
	message     string
	dryRun, yes bool
	maxAffected int
}

func (f *changeFlags) declare(flags *pflag.FlagSet) {
	messageFlag(flags, &f.message, "reason, recorded with the change (MUSTER_MESSAGE)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the effect and change nothing")
	flags.BoolVar(&f.yes, "yes", false, "confirm a change of any number of nodes")
	flags.IntVar(&f.maxAffected, "max-affected", 0, "largest number of affected nodes without --yes (0: a fifth of all, at least 50)")
}

// fileFlag declares -f.
func fileFlag(flags *pflag.FlagSet, files *[]string) {
	flags.StringArrayVarP(files, "file", "f", nil, "file, folder or - for standard input; may be repeated")
}

// reason returns -m, else the first line of MUSTER_MESSAGE: in a pipeline the subject of the commit.
func (s *session) reason(f *changeFlags) string {
	if f.message != "" {
		return f.message
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(s.Getenv("MUSTER_MESSAGE")), "\n")
	const most = 1000 // bytes that the API accepts
	if len(subject) > most {
		subject = strings.ToValidUTF8(subject[:most-len("…")], "") + "…"
	}
	return strings.TrimSpace(subject)
}

type applyFlags struct {
	changeFlags
	files                       []string
	owner                       string
	prune, takeOver, allowEmpty bool
	exitCode                    bool // of plan and diff: 20 if something would change
	docs                        []declaration
}

func (f *applyFlags) declare(flags *pflag.FlagSet) {
	fileFlag(flags, &f.files)
	f.changeFlags.declare(flags)
	flags.StringVar(&f.owner, "owner", "", "owner of the resources: a team or repository; written into metadata.owner")
	flags.BoolVar(&f.prune, "prune", false, "delete resources of --owner that are not in the files")
	flags.BoolVar(&f.takeOver, "take-over", false, "also change resources of another owner")
	flags.BoolVar(&f.allowEmpty, "allow-empty", false, "with --prune: accept files without any resource")
}

// declarePreview declares the flags of plan and diff, which never change anything.
func (f *applyFlags) declarePreview(flags *pflag.FlagSet) {
	f.dryRun = true
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.declare(own)
	own.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "dry-run" {
			flags.AddFlag(flag)
		}
	})
	f.dryRun = true // declare reset it to its default
	flags.BoolVar(&f.exitCode, "exit-code", false, "exit with 20 if apply would change a resource")
}

// check refuses contradictory flags before it reads the files: in a pipeline an empty variable must not prune the
// resources of everybody.
func (f *applyFlags) check(c *call) (err error) {
	switch {
	case f.owner == "" && c.cmd.Flags().Changed("owner"):
		return model.Errorf(model.Invalid, "--owner is empty").WithHint("is a variable of the CI job unset? Write: --owner team-a")
	case f.prune && f.owner == "":
		return model.Errorf(model.Invalid, "--prune needs --owner").WithHint("%s --prune --owner team-a", c.cmd.CommandPath())
	case f.allowEmpty && !f.prune:
		return model.Errorf(model.Invalid, "--allow-empty needs --prune").WithHint("leave it out")
	}
	f.docs, err = f.read(c)
	return err
}

// read reads the files. Files without any resource are an error, unless --allow-empty is set.
func (f *applyFlags) read(c *call) ([]declaration, error) {
	paths := append(f.files, c.args...)
	docs, err := c.readFiles(paths)
	switch {
	case err != nil:
		return nil, err
	case len(docs) == 0 && f.prune && !f.allowEmpty:
		return nil, model.Errorf(model.Invalid, "no resources in %s: --prune would delete all resources of owner %s", strings.Join(paths, ", "), f.owner).
			WithHint("check the folder and its checkout. To delete all resources of the owner: --allow-empty")
	case len(docs) == 0 && !f.prune:
		return nil, noResources(paths)
	}
	return docs, ownerFlaws(docs, f.owner).Err()
}

// send applies the resources, or previews that.
func (f *applyFlags) send(c *call) (v1.Applied, error) {
	request := v1.ApplyRequest{
		DryRun: f.dryRun, Message: c.reason(&f.changeFlags), MaxAffected: f.maxAffected, Yes: f.yes, Namespace: c.namespace,
		Owner: f.owner, Prune: f.prune, TakeOver: f.takeOver, AllowEmpty: f.allowEmpty,
		Resources: make([]json.RawMessage, len(f.docs)),
	}
	for i, d := range f.docs {
		request.Resources[i] = d.body
	}
	return c.api.Resources.Apply(c.ctx, request)
}

func applyCommand(s *session) *cobra.Command {
	f := &applyFlags{}
	return s.build(command{
		use: "apply -f FILE...", short: "Declare resources, all of them or none",
		flags: f.declare, check: f.check,
		run: func(c *call) error {
			if f.prune && !f.dryRun {
				preview := *f
				preview.dryRun = true
				planned, err := preview.send(c)
				if err != nil {
					return err
				}
				printPruned(c, planned, f.owner)
			}
			return c.applied(f.send(c))
		},
	})
}

func planCommand(s *session) *cobra.Command {
	return previewCommand(s, command{
		use: "plan -f FILE...", short: "Show the effect of apply and the number of affected nodes",
	}, printApplied)
}

func diffCommand(s *session) *cobra.Command {
	return previewCommand(s, command{
		use: "diff -f FILE...", short: "Show the differences that apply would make",
	}, printDiff)
}

// previewCommand completes a command that previews apply and prints the effect.
func previewCommand(s *session, d command, print func(*call, v1.Applied) error) *cobra.Command {
	f := &applyFlags{}
	d.flags, d.check = f.declarePreview, f.check
	d.run = func(c *call) error {
		applied, err := f.send(c)
		if err != nil {
			return err
		}
		if err := print(c, applied); err != nil || !f.exitCode {
			return err
		}
		return previewExit(applied)
	}
	return s.build(d)
}

// applied prints a change that was made or refused.
func (c *call) applied(done v1.Applied, err error) error {
	if err != nil {
		return err
	}
	return printApplied(c, done)
}

// printApplied writes one line per resource: its change, and the nodes that it lands on.
func printApplied(c *call, applied v1.Applied) error {
	if c.Format.Machine() {
		return c.Value(applied)
	}
	changes := make([]string, len(applied.Outcomes))
	wide := 0
	for i, o := range applied.Outcomes {
		changes[i] = screen.Clean(refOf(o.Kind, o.Namespace, cmp.Or(o.Was, o.Name)) + " " + outcomeText(o, applied.DryRun))
		wide = max(wide, screen.Width(changes[i]))
	}
	for i, o := range applied.Outcomes {
		line := changes[i]
		line += textIf(o.Note != "", screen.Pad(changes[i], wide+3)+o.Note)
		c.Printf("%s\n", line)
		for _, w := range o.Warnings {
			c.Printf("  %s %s\n", screen.Warning, w)
		}
	}
	if applied.DryRun {
		c.Printf("dry run: nothing was changed; %s would get a new assignment\n", model.CountNoun(applied.Affected, "node"))
		printRefusal(c, applied)
	}
	return nil
}

// outcomeText returns the change of a resource: created, would be renamed shop01.
func outcomeText(o v1.Outcome, dryRun bool) string {
	op := o.Op
	op += textIf(o.Was != "", " "+o.Name)
	if dryRun && o.Op != "unchanged" {
		return "would be " + op
	}
	return op
}

func printDiff(c *call, applied v1.Applied) error {
	if c.Format.Machine() {
		return c.Value(applied)
	}
	different := false
	for _, o := range applied.Outcomes {
		if o.Op != "unchanged" {
			different = true
			c.Printf("%s %s   %s\n", refOf(o.Kind, o.Namespace, o.Name), outcomeText(o, true), o.Note)
			printPatch(c, o.Diff)
		}
	}
	if !different {
		c.Printf("no difference\n")
	}
	printRefusal(c, applied)
	return nil
}

// printPruned lists the resources that --prune is about to delete.
func printPruned(c *call, planned v1.Applied, owner string) {
	var lines []string
	for _, o := range planned.Outcomes {
		if o.Op == "deleted" {
			lines = append(lines, screen.Clean("  "+refOf(o.Kind, o.Namespace, o.Name)+"   "+o.Note))
		}
	}
	if len(lines) > 0 {
		c.Notef("pruning %s of owner %s:\n%s\n", model.CountNoun(len(lines), "resource"), owner, screen.Painted(strings.Join(lines, "\n")))
	}
}

// printRefusal writes the reason why apply would refuse the previewed change.
func printRefusal(c *call, applied v1.Applied) {
	if r := applied.Refused; r != nil {
		c.Printf("%s %s\n", screen.Cell{Text: "apply would refuse this change:", Colour: screen.Red}, r.Detail)
		if r.Hint != "" {
			c.Printf("  %s\n", r.Hint)
		}
	}
}

// previewExit returns the exit code of a preview: of the refusal, or 20 if something would change.
func previewExit(applied v1.Applied) error {
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

func editCommand(s *session) *cobra.Command {
	f := &changeFlags{}
	var k kind.Kind
	var name string
	return s.build(command{
		use: "edit KIND NAME", short: "Edit a resource in $EDITOR and apply it",
		args: cobra.RangeArgs(1, 2), complete: s.completeObjects(1), flags: f.declare,
		check: func(c *call) (err error) {
			var word string
			if word, name, err = c.kindAndName(c.cmd, c.args); err == nil {
				k, err = c.kindOf(word)
			}
			return err
		},
		run: func(c *call) error { return editResource(c, k, name, f) },
	})
}

// editResource edits and replaces one resource. The text stays in its file until the server took it;
// the ETag of the first read makes a concurrent change a conflict.
func editResource(c *call, k kind.Kind, name string, f *changeFlags) error {
	data, tag, err := c.api.Resources.Get(c.ctx, k.KindInfo, c.objectNamespace(), name)
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
	applied, err := putEdited(c, k, name, f, path, data, after, tag)
	if err != nil {
		c.Notef("your text is in %s. Correct the file, then: muster apply -f %s\n", path, path)
		return err
	}
	_ = os.Remove(path)
	return printApplied(c, applied)
}

// putEdited replaces a resource by the edited text, which must be the same resource.
func putEdited(c *call, k kind.Kind, name string, f *changeFlags, path string, before, after []byte, tag string) (v1.Applied, error) {
	docs, err := c.decode(path, after)
	if err != nil {
		return v1.Applied{}, err
	}
	if len(docs) != 1 {
		return v1.Applied{}, model.Errorf(model.Invalid, "%s has %s, expected one", path, model.CountNoun(len(docs), "resource"))
	}
	old, err := c.Kinds.DecodeResource(before)
	if err != nil {
		return v1.Applied{}, err
	}
	if resourceRef(&docs[0].located.Resource) != resourceRef(old) {
		return v1.Applied{}, model.Errorf(model.Invalid, "kind, name and namespace cannot be edited").WithHint("declare a new resource: muster apply -f %s", path)
	}
	return c.api.Resources.Put(c.ctx, k.KindInfo, c.objectNamespace(), name, docs[0].body, tag, c.reason(f), f.maxAffected, f.dryRun, f.yes)
}
