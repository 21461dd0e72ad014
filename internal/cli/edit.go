package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

func editCommand(s *session) *cobra.Command {
	f := &changeFlags{}
	var k kind.Kind
	var names []string
	return s.build(command{
		use: "edit KIND NAME", short: "Edit a resource in $EDITOR and apply it",
		long:    "Opens a resource in $VISUAL or $EDITOR and applies the saved text. If the server refuses it, the text\nstays in a file; a change that somebody else made meanwhile is never overwritten.",
		example: "  muster edit check disk -m \"less noise\"",
		args:    cobra.RangeArgs(1, 2), complete: s.completeObjects(1), flags: f.declare,
		check: func(c *call) (err error) {
			var word string
			if word, names, err = c.kindAndNames(c.cmd, c.args); err != nil {
				return err
			}
			if len(names) != 1 {
				return c.missingName(c.cmd, word)
			}
			k, err = c.kindOf(word)
			return err
		},
		run: func(c *call) error { return editResource(c, k, names[0], f) },
	})
}

// editResource edits and replaces one resource. The text stays in its file until the server took it;
// the ETag of the first read makes a concurrent change a conflict.
func editResource(c *call, k kind.Kind, name string, f *changeFlags) error {
	data, tag, err := c.api.Resources.Get(c.ctx, k.KindInfo, c.ns(), name)
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
		return model.Errorf(model.Invalid, "the editor failed: %w", err).WithHint("set EDITOR to another one")
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
		c.Notef("your text is in %s. Correct it there, then: muster apply -f %s\n", path, path)
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
	old, err := decodeEnvelope(before)
	if err != nil {
		return v1.Applied{}, err
	}
	edited, err := decodeEnvelope(docs[0].body)
	if err != nil {
		return v1.Applied{}, err
	}
	if edited.ref() != old.ref() {
		return v1.Applied{}, model.Errorf(model.Invalid, "kind, name and namespace cannot be edited").WithHint("declare a new resource: muster apply -f %s", path)
	}
	return c.api.Resources.Put(c.ctx, k.KindInfo, c.ns(), name, docs[0].body, tag, c.reason(f), f.maxAffected, f.dryRun, f.yes)
}
