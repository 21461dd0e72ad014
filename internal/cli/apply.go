package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// applyFlags are those of everything that changes resources.
type applyFlags struct {
	files       []string
	message     string
	dryRun, yes bool
	maxAffected int
	output      *format

	owner                       string
	prune, takeOver, allowEmpty bool
	exitCode                    bool // of a preview: 20 if something waits
}

func (f *applyFlags) add(c *cobra.Command, files, dryRun bool) {
	if files {
		c.Flags().StringArrayVarP(&f.files, "file", "f", nil, "file, folder or - for standard input; may be repeated")
	}
	if dryRun {
		c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would happen and change nothing")
	}
	c.Flags().StringVarP(&f.message, "message", "m", "", "why; kept with the change (MUSTER_MESSAGE)")
	c.Flags().BoolVar(&f.yes, "yes", false, "go ahead however many nodes it lands on")
	c.Flags().IntVar(&f.maxAffected, "max-affected", 0, "refuse what changes more nodes (0: a fifth of all, at least 50)")
	f.output = formatFlag(c)
}

func (a *app) applyCmd() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Make resources so, all of them or none",
		Long: "Makes all resources of files, folders and standard input so, in one transaction, and says\non how many nodes each lands. What lands on more nodes than --max-affected needs --yes.\n\n" +
			"With --owner every resource bears that name in metadata.owner, and what belongs to another\nowner is refused. With --prune, what belongs to the owner and is not in the files is deleted.",
		Example: "  muster apply -f disk.yaml -m \"watch the disks\"\n" +
			"  muster get check disk -o yaml | muster apply -f -\n  muster apply -f ./monitoring --owner team-a --prune",
		RunE: func(c *cobra.Command, files []string) error { return a.apply(c, &f, files) },
	}
	f.add(c, true, true)
	f.addOwner(c)
	return c
}

func (a *app) planCmd() *cobra.Command {
	f := applyFlags{dryRun: true}
	c := &cobra.Command{
		Use:   "plan -f FILE...",
		Short: "Say what apply would do, and on how many nodes",
		Long: "Checks files as apply does and says what would become of each resource, on how many nodes\n" +
			"it would land, and whether apply would refuse it. Changes nothing. muster diff shows the lines.\n" +
			"With --exit-code it ends with 20 if something would change, with the code of the refusal if\napply would refuse it, with 0 if all is so already.",
		Example: "  muster plan -f disk.yaml\n  muster plan -f ./monitoring --owner team-a --prune --exit-code",
		RunE:    func(c *cobra.Command, files []string) error { return a.apply(c, &f, files) },
	}
	f.add(c, true, false)
	f.addOwner(c)
	f.addExitCode(c)
	return c
}

func (a *app) apply(c *cobra.Command, f *applyFlags, files []string) error {
	docs, err := a.documentsOf(c, f, files)
	if err != nil {
		return err
	}
	if f.prune && !f.dryRun {
		preview := *f
		preview.dryRun = true
		planned, err := a.applyDocuments(c, &preview, docs)
		if err != nil {
			return err
		}
		a.printPruned(planned, f.owner)
	}
	applied, err := a.applyDocuments(c, f, docs)
	if err != nil {
		return err
	}
	if err := a.printApplied(applied, *f.output); err != nil || !f.exitCode {
		return err
	}
	return somethingWaits(applied)
}

func (a *app) applyDocuments(c *cobra.Command, f *applyFlags, docs []declaration) (v1.Applied, error) {
	client, err := a.connect()
	if err != nil {
		return v1.Applied{}, err
	}
	request := v1.ApplyRequest{
		DryRun: f.dryRun, Message: a.message(f), MaxAffected: f.maxAffected, Yes: f.yes, Namespace: a.namespace,
		Owner: f.owner, Prune: f.prune, TakeOver: f.takeOver, AllowEmpty: f.allowEmpty,
		Resources: make([]json.RawMessage, len(docs)),
	}
	for i, d := range docs {
		request.Resources[i] = d.body
	}
	return client.Resources.Apply(c.Context(), request)
}

// printApplied writes one line for each resource: what became of it, where it lands.
func (a *app) printApplied(applied v1.Applied, f format) error {
	if f.machine() {
		return a.printValue(f, applied)
	}
	did := make([]string, len(applied.Outcomes))
	wide := 0
	for i, o := range applied.Outcomes {
		did[i] = clean(refOf(o.Kind, o.Namespace, cmp.Or(o.Was, o.Name))+" "+became(o, applied.DryRun), false)
		wide = max(wide, width(did[i]))
	}
	for i, o := range applied.Outcomes {
		line := did[i] + strings.Repeat(" ", wide-width(did[i])+3) + clean(o.Note, false)
		fmt.Fprintln(a.Stdout, strings.TrimRight(line, " "))
		for _, w := range o.Warnings {
			fmt.Fprintf(a.Stdout, "  %s %s\n", a.paint(yellow, "warning:"), clean(w, false))
		}
	}
	if applied.DryRun {
		fmt.Fprintf(a.Stdout, "dry run: nothing was changed; %s would get a new assignment\n", model.CountNoun(applied.Affected, "node"))
		a.printRefused(applied)
	}
	return nil
}

// became is what became of a resource, or would.
func became(o v1.Outcome, dryRun bool) string {
	op := o.Op
	if o.Was != "" {
		op += " " + o.Name
	}
	if dryRun && o.Op != "unchanged" {
		return "would be " + op
	}
	return op
}

// refOf is how people name a resource: check/disk, or check/shared/disk outside the
// default namespace.
func refOf(kind, namespace, name string) string {
	if namespace != "" && namespace != model.DefaultNamespaceName {
		name = namespace + "/" + name
	}
	return strings.ToLower(kind) + "/" + name
}

func (a *app) diffCmd() *cobra.Command {
	f := applyFlags{dryRun: true}
	c := &cobra.Command{
		Use:   "diff -f FILE...",
		Short: "Show what apply would change",
		Long: "Shows, line by line, what apply would change in what is declared now. Changes nothing.\n" +
			"With --exit-code it ends with 20 if there is a difference, with the code of the refusal if\napply would refuse it, for scripts.",
		Example: "  muster diff -f disk.yaml\n  muster diff -f ./checks --exit-code",
		RunE: func(c *cobra.Command, files []string) error {
			docs, err := a.documentsOf(c, &f, files)
			if err != nil {
				return err
			}
			applied, err := a.applyDocuments(c, &f, docs)
			if err != nil {
				return err
			}
			if !f.output.machine() {
				a.printDiff(applied)
			} else if err := a.printValue(*f.output, applied); err != nil {
				return err
			}
			if !f.exitCode {
				return nil
			}
			return somethingWaits(applied)
		},
	}
	f.add(c, true, false)
	f.addOwner(c)
	f.addExitCode(c)
	return c
}

func (a *app) printDiff(applied v1.Applied) {
	different := false
	for _, o := range applied.Outcomes {
		if o.Op == "unchanged" {
			continue
		}
		different = true
		fmt.Fprintf(a.Stdout, "%s %s   %s\n", refOf(o.Kind, o.Namespace, o.Name), became(o, true), clean(o.Note, false))
		a.printPatch(o.Diff)
	}
	if !different {
		fmt.Fprintln(a.Stdout, "no difference")
	}
	a.printRefused(applied)
}

// printPatch writes a unified difference, coloured where colours are taken.
func (a *app) printPatch(patch string) {
	for line := range strings.Lines(patch) {
		line = clean(strings.TrimRight(line, "\n"), false)
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			continue
		case strings.HasPrefix(line, "+"):
			line = a.paint(green, line)
		case strings.HasPrefix(line, "-"):
			line = a.paint(red, line)
		}
		fmt.Fprintln(a.Stdout, "  "+line)
	}
}
