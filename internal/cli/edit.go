package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) editCmd() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "edit KIND NAME",
		Short: "Change a resource in $EDITOR and apply it",
		Long: "Opens a resource in $VISUAL or $EDITOR and applies what you save. If it is refused, your\n" +
			"text is kept; if somebody else changed the resource meanwhile, nothing is overwritten.",
		Example:           "  muster edit check disk -m \"less noise\"",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeObjects(1),
		RunE: func(c *cobra.Command, args []string) error {
			kind, names, err := a.kindAndNames(c, args)
			if err != nil {
				return err
			}
			if len(names) != 1 {
				return a.noName(c, kind)
			}
			return a.edit(c, kind, names[0], &f)
		},
	}
	f.add(c, false, true)
	return c
}

// edit keeps the text until it is applied: what was refused lies in the file that
// the error names. What somebody else changed meanwhile is a conflict.
func (a *app) edit(c *cobra.Command, kind, name string, f *applyFlags) error {
	k, err := a.kindOf(kind)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	data, tag, err := client.Resources.Get(c.Context(), k.KindInfo, a.ns(), name)
	if err != nil {
		return err
	}
	before, err := document.YAML(data)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "muster-edit-*.yaml")
	if err != nil {
		return fmt.Errorf("make file to edit: %w", err)
	}
	path := file.Name()
	_, err = file.Write(before)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write file to edit: %w", err)
	}
	if err := a.Edit(path); err != nil {
		_ = os.Remove(path)
		return model.Errorf(model.Invalid, "the editor failed: %w", err).WithHint("set EDITOR to the one you like")
	}
	after, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read edited file: %w", err)
	}
	if bytes.Equal(after, before) {
		_ = os.Remove(path)
		fmt.Fprintln(a.Stdout, "no change")
		return nil
	}
	docs, err := a.splitDocuments(path, after)
	if err == nil && len(docs) != 1 {
		err = model.Errorf(model.Invalid, "%s holds %s, not one", path, model.CountNoun(len(docs), "resource"))
	}
	if err == nil {
		o, derr := decodeObject(docs[0].body)
		old, _ := decodeObject(data)
		if derr == nil && (o.Kind != old.Kind || o.Metadata.Name != old.Metadata.Name || o.Metadata.Namespace != old.Metadata.Namespace) {
			err = model.Errorf(model.Invalid, "kind, name and namespace cannot be edited").WithHint("make a new resource: muster apply -f %s", path)
		} else if derr == nil {
			applied, perr := client.Resources.Put(c.Context(), k.KindInfo, a.ns(), name, docs[0].body, tag, a.message(f), f.maxAffected, f.dryRun, f.yes)
			if perr == nil {
				_ = os.Remove(path)
				return a.printApplied(applied, *f.output)
			}
			err = perr
		} else {
			err = derr
		}
	}
	fmt.Fprintf(a.Stderr, "your text is kept in %s; mend it there, then: muster apply -f %s\n", path, path)
	return err
}

// editor opens $VISUAL, $EDITOR or what the system has.
func (e *Env) editor(path string) error {
	words := strings.Fields(e.Getenv("VISUAL"))
	if len(words) == 0 {
		words = strings.Fields(e.Getenv("EDITOR"))
	}
	if len(words) == 0 {
		words = []string{"vi"}
		if runtime.GOOS == "windows" {
			words = []string{"notepad"}
		}
	}
	command := exec.Command(words[0], append(words[1:], path)...)
	command.Stdin, command.Stdout, command.Stderr = e.Stdin, e.Stdout, e.Stderr
	return command.Run()
}
