package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/agent/collect"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/promimport"
	"github.com/muster-fleet/muster/internal/rudderimport"
	"github.com/muster-fleet/muster/internal/sensuimport"
	"github.com/muster-fleet/muster/internal/zabbiximport"
)

// maxFile limits one file, in bytes.
const maxFile = 32 << 20

// declaredResource is one resource from a YAML or JSON file, with the line and column of each field.
type declaredResource struct {
	body    json.RawMessage
	located *kind.LocatedResource
}

// readFiles reads the resources in files, folders and standard input (-), and returns all errors in the files.
// An empty list of paths and a resource that is declared twice are errors.
func (s *commandLine) readFiles(paths []string) ([]declaredResource, error) {
	if len(paths) == 0 {
		return nil, model.Errorf(model.Invalid, "the name of the file to read is missing: -f FILE").WithHint("a file, a folder, or - for standard input: -f disk.yaml")
	}
	var r fileReader
	r.commandLine = s
	for _, path := range paths {
		if err := r.readPath(path); err != nil {
			return nil, err
		}
	}
	if flaws := append(r.flaws, r.findDuplicates()...); len(flaws) > 0 {
		return nil, flaws.Err()
	}
	return r.docs, r.compileDirectives().Err()
}

// readFilesWithResources reads files and folders like readFiles, and returns an error if no resource is found. Files
// without any resource are an error.
func (s *commandLine) readFilesWithResources(paths []string) ([]declaredResource, error) {
	docs, err := s.readFiles(paths)
	if err == nil && len(docs) == 0 {
		err = noResourcesError(paths)
	}
	return docs, err
}

// noResourcesError returns the error for files that declare no resource.
func noResourcesError(paths []string) error {
	hint := "an example: muster explain check"
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			hint = "in folders only .yaml, .yml and .json files count, none with a leading dot; " + hint
			break
		}
	}
	return model.Errorf(model.Invalid, "no resources in %s", strings.Join(paths, ", ")).WithHint("%s", hint)
}

// fileReader collects the resources of many files, and all errors in the files. People so see all errors at once.
type fileReader struct {
	*commandLine
	docs  []declaredResource
	flaws model.Flaws
}

// findDuplicates returns an error for each resource that the files declare more than once.
func (r *fileReader) findDuplicates() (flaws model.Flaws) {
	places := map[string]*model.Flaw{}
	for _, d := range r.docs {
		declared := &d.located.Resource
		ref := declaredRef(r.commandLine, declared)
		f := d.located.Locate(&model.Flaw{Field: "metadata.name"})
		if first := places[ref]; first != nil {
			f.Text, f.Hint = ref+" is declared twice", fmt.Sprintf("first in %s:%d; keep one of them", first.File, first.Line)
			flaws = append(flaws, f)
			continue
		}
		places[ref] = f
	}
	return flaws
}

// declaredRef returns the name of a declared resource in messages of the server, such as directive/sshd.
func declaredRef(s *commandLine, r *model.Resource) string {
	return resourceRefText(r.Kind, cmp.Or(r.Metadata.Namespace, s.objectNamespace()), r.Metadata.Name)
}

// compileDirectives returns an error for each directive whose values do not fit its technique. It leaves out directives
// whose technique is not in the files.
func (r *fileReader) compileDirectives() (flaws model.Flaws) {
	techniques := map[string]*model.TechniqueSpec{}
	for _, d := range r.docs {
		if spec, ok := d.located.Spec.(*model.TechniqueSpec); ok {
			techniques[declaredRef(r.commandLine, &d.located.Resource)] = spec
		}
	}
	for _, d := range r.docs {
		spec, ok := d.located.Spec.(*model.DirectiveSpec)
		if !ok {
			continue
		}
		namespace, name := model.SplitRef(cmp.Or(d.located.Metadata.Namespace, r.objectNamespace()), spec.Technique)
		technique := techniques[resourceRefText("Technique", namespace, name)]
		if technique == nil || len(flaws) >= model.MaxFlaws {
			continue
		}
		if _, err := policy.Compile(technique, spec.Parameters); err != nil {
			e := model.Errorf(model.Invalid, "%w", err)
			errors.As(err, &e)
			flaws = append(flaws, d.located.Locate(&model.Flaw{Field: e.Field, Text: e.Message, Hint: e.Hint}))
		}
	}
	return flaws
}

// locateRefusal adds file, line and column to an error of the server about one of the resources. It returns another
// error unchanged.
func locateRefusal(c *commandCall, docs []declaredResource, err error) error {
	var e *model.Error
	if !errors.As(err, &e) || e.Resource == "" {
		return err
	}
	for _, d := range docs {
		if declaredRef(c.commandLine, &d.located.Resource) == e.Resource {
			at := d.located.Locate(&model.Flaw{Field: e.Field})
			return &model.Error{Class: e.Class, Message: (&model.Flaw{File: at.File, Line: at.Line, Column: at.Column, Text: e.Message}).Error(), Hint: e.Hint}
		}
	}
	return err
}

// readPath reads a file, a folder or standard input. Its error ends the reading; flaws of a file do not.
func (r *fileReader) readPath(path string) error {
	if info, err := os.Stat(path); path != "-" && err == nil && info.IsDir() {
		return r.readFolder(path)
	}
	name, data, err := r.readFile(path)
	if err != nil {
		return err
	}
	docs, err := r.decodeDocuments(name, data)
	flaws, err := flawsOf(err)
	r.docs, r.flaws = append(r.docs, docs...), append(r.flaws, flaws...)
	return err
}

// readFolder reads a folder and its subfolders, sorted by name. Files and folders that begin with a dot are left out.
// A link to a folder is an error: --prune would delete the resources behind it.
func (r *fileReader) readFolder(root string) error {
	root = strings.TrimRight(root, "/") + "/" // follows a link that root itself is
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if path != root && d.Type()&fs.ModeSymlink != 0 {
			if info, err := os.Stat(path); err != nil {
				return err
			} else if info.IsDir() {
				return model.Errorf(model.Invalid, "%s is a symbolic link to a folder; symbolic links are not followed", path).
					WithHint("name the folder too: -f %s -f %s, or remove the link", root, path)
			}
		}
		switch strings.ToLower(filepath.Ext(path)) {
		case ".yaml", ".yml", ".json":
			if !d.IsDir() {
				return r.readPath(path)
			}
		}
		return nil
	})
}

// readFile reads a file, or standard input for "-", and returns the name of the file for messages
func (s *commandLine) readFile(path string) (name string, data []byte, err error) {
	if path == "-" {
		if data, err = io.ReadAll(io.LimitReader(s.Stdin, maxFile+1)); err != nil {
			err = fmt.Errorf("read standard input: %w", err)
		}
		return "standard input", data, err
	}
	if data, err = os.ReadFile(path); errors.Is(err, fs.ErrNotExist) {
		err = model.Errorf(model.NotFound, "file %s does not exist", path).WithHint("list the folder: ls %s", filepath.Dir(path))
	}
	return path, data, err
}

// decodeDocuments decodes the resources of a YAML or JSON text. A document may also be a list of resources, like the
// output of muster get. Its error has every flaw that shows without a server, with file and line.
func (s *commandLine) decodeDocuments(name string, data []byte) ([]declaredResource, error) {
	if len(data) > maxFile {
		return nil, model.Errorf(model.TooLarge, "%s is larger than %s", name, model.Size(maxFile))
	}
	list, err := s.Kinds.Read(name, data)
	if err != nil {
		return nil, err
	}
	docs := make([]declaredResource, len(list))
	for i := range list {
		body, err := json.Marshal(&list[i].Resource)
		if err != nil {
			return nil, model.Errorf(model.Invalid, "%s: %w", name, err)
		}
		docs[i] = declaredResource{body, &list[i]}
	}
	return docs, nil
}

// flawsOf extracts from an error the list of flaws (errors in files), or returns the error unchanged.
func flawsOf(err error) (model.Flaws, error) {
	var flaws model.Flaws
	if errors.As(err, &flaws) {
		return flaws, nil
	}
	return nil, err
}

// findOtherOwners returns an error for each resource in the files with an owner other than the flag --owner.
func findOtherOwners(docs []declaredResource, owner string) (flaws model.Flaws) {
	for _, d := range docs {
		if o := d.located.Metadata.Owner; owner != "" && o != "" && o != owner {
			flaws = append(flaws, d.located.Locate(&model.Flaw{Field: "metadata.owner", Text: fmt.Sprintf("is %s, but --owner is %s", o, owner),
				Hint: "remove the line, or move the file to the folder of " + o}))
		}
	}
	return flaws
}

// sensuNotes returns one note per file with resources of Sensu kinds. Such kinds exist only for users of Sensu.
func (s *commandLine) sensuNotes(docs []declaredResource) (notes []string) {
	parts, files := map[string][]string{}, []string{}
	for _, d := range docs {
		k, _ := s.Kinds.Lookup(d.located.Kind)
		part := k.FromSensu(d.located.Spec)
		if part == "" {
			continue
		}
		file := d.located.File
		if len(parts[file]) == 0 {
			files = append(files, file)
		}
		if !strings.Contains(strings.Join(parts[file], ", "), part) {
			parts[file] = append(parts[file], part)
		}
	}
	for _, file := range files {
		notes = append(notes, fmt.Sprintf("%s: Sensu kinds: %s. They work as in Sensu; Muster's own kind for notifications is Route (%s)",
			file, strings.Join(parts[file], ", "), model.SensuKindsPage))
	}
	return notes
}

// buildImport makes a subcommand of muster import from a function to convert files of another program to
// resources. smaller says how to make smaller files if they are too large. Nil extensions: no argument is a
// folder.
func (s *commandLine) buildImport(d command, smaller string, extensions []string, convert func(*commandCall, []conversion.File) (*importOutput, error)) *cobra.Command {
	var out string
	var strict bool
	own := d.flags
	d.args, d.offline = cobra.MinimumNArgs(1), true
	d.flags = func(flags *pflag.FlagSet) {
		flags.StringVar(&out, "out", "", "write the resources to this file instead of standard output")
		flags.BoolVar(&strict, "strict", false, "exit with 20 if a part was not converted")
		if own != nil {
			own(flags)
		}
	}
	d.run = func(c *commandCall) (err error) {
		if extensions != nil {
			if c.args, err = filesIn(c.args, extensions...); err != nil {
				return err
			}
		}
		files, err := readImportFiles(c, smaller)
		if err != nil {
			return err
		}
		text, err := convert(c, files)
		if err != nil {
			return err
		}
		return printImport(c, text, out, strict)
	}
	return s.buildCommand(d)
}

// importSensuCommand makes the command muster import sensu, which converts a dump of sensuctl.
func importSensuCommand(s *commandLine) *cobra.Command {
	return s.buildImport(command{use: "sensu FILE...", short: "Convert the output of sensuctl dump"},
		"dump each namespace or each type alone: sensuctl dump checks --namespace NAME …", nil, func(c *commandCall, files []conversion.File) (*importOutput, error) {
			result, err := sensuimport.Import(files, c.Kinds, c.Now())
			if err != nil {
				return nil, err
			}
			return &importOutput{value: result, Result: &result.Result, read: model.CountNoun(result.Read, "resource") + " of Sensu"}, nil
		})
}

// importZabbixCommand makes the command muster import zabbix, which converts exports of templates.
func importZabbixCommand(s *commandLine) *cobra.Command {
	return s.buildImport(command{use: "zabbix FILE...", short: "Convert templates that Zabbix exported as YAML"},
		"export fewer templates at a time", nil, func(c *commandCall, files []conversion.File) (*importOutput, error) {
			result, err := zabbiximport.Import(files, zabbiximport.Options{Kinds: c.Kinds, CheckKey: collect.Check})
			if err != nil {
				return nil, err
			}
			n := &result.Counts
			text := &importOutput{value: result, Result: &result.Result, read: fmt.Sprintf(
				"%s of Zabbix (%d of %s, %d of %s, %d of %s, %d of %s)", model.CountNoun(n.Templates, "template"), n.ImportedItems, model.CountNoun(n.Items, "item"),
				n.ImportedSteps, model.CountNoun(n.Steps, "step"), n.ImportedTriggers, model.CountNoun(n.Triggers, "trigger"), n.ImportedRules, model.CountNoun(n.Rules, "discovery rule"))}
			if n.Sources.Collected < n.ImportedItems+n.ImportedRules {
				text.after = fmt.Sprintf("of the items and rules, the agent collects %d, the server computes %d, trappers send %d, %d have no values here (notCollected)", n.Sources.Collected, n.Sources.Computed, n.Sources.Trapper, n.Sources.Idle)
			}
			return text, nil
		})
}

// importPrometheusCommand makes the command muster import prometheus, which converts rules files.
func importPrometheusCommand(s *commandLine) *cobra.Command {
	return s.buildImport(command{use: "prometheus FILE...", short: "Convert rules files of Prometheus"},
		"divide the file", nil, func(c *commandCall, files []conversion.File) (*importOutput, error) {
			result, err := promimport.Import(files, c.Kinds)
			if err != nil {
				return nil, err
			}
			return &importOutput{value: result, Result: &result.Result, read: model.CountNoun(result.Groups, "group") + " of " + model.CountNoun(result.Rules, "rule")}, nil
		})
}

// importRudderCommand makes the command muster import rudder, which converts techniques, directives, rules and groups.
func importRudderCommand(s *commandLine) *cobra.Command {
	var bridge bool
	return s.buildImport(command{use: "rudder FILE|DIR...", short: "Convert techniques (YAML), directives, rules, groups, parameters and schedules (JSON of the API) of Rudder",
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&bridge, "bridge", false, "Rudder's agents go on to run the directives, and Muster judges their reports")
		}}, "divide the file", []string{".yml", ".yaml", ".json"}, func(c *commandCall, files []conversion.File) (*importOutput, error) {
		result, err := rudderimport.Import(files, rudderimport.Options{Kinds: c.Kinds, Bridge: bridge, Now: c.Now()})
		if err != nil {
			return nil, err
		}
		n := &result.Counts
		return &importOutput{value: result, Result: &result.Result, read: fmt.Sprintf("%s (%d of %s), %s, %s and %s of Rudder",
			model.CountNoun(n.Techniques, "technique"), n.ImportedMethods, model.CountNoun(n.Methods, "method"), model.CountNoun(n.Directives, "directive"), model.CountNoun(n.Rules, "rule"), model.CountNoun(n.Groups, "group"))}, nil
	})
}

// filesIn replaces each folder in a list of paths by the folder's files with certain name endings, sorted.
func filesIn(paths []string, extensions ...string) (files []string, err error) {
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			files = append(files, path) // reading reports an error
			continue
		}
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && slices.Contains(extensions, filepath.Ext(name)) {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, model.Errorf(model.Invalid, "the folder has no files that end with %s", strings.Join(extensions, ", "))
	}
	return files, nil
}

// readImportFiles reads the files to import. For a file that is too large, hint tells how to make smaller files.
func readImportFiles(c *commandCall, hint string) (files []conversion.File, err error) {
	for _, path := range c.args {
		name, data, err := c.readFile(path)
		if err != nil {
			return nil, err
		}
		if len(data) > maxFile {
			return nil, model.Errorf(model.TooLarge, "%s is larger than %s", name, model.Size(maxFile)).WithHint("%s", hint)
		}
		files = append(files, conversion.File{Name: name, Data: data})
	}
	return files, nil
}

// importOutput is the result of muster import, the converted resources with notes for people. It has the
// converted resources as YAML, and notes about parts that were not converted.
type importOutput struct {
	*conversion.Result
	value any    // for JSON
	read  string // the read resources
	after string // a line after the counts
}

// printImport writes the resources to out or standard output, the notes to standard error.
func printImport(c *commandCall, result *importOutput, out string, strict bool) error {
	if c.Format == screen.JSON {
		if err := c.WriteValue(result.value); err != nil {
			return err
		}
		return strictError(result, strict)
	}
	var text bytes.Buffer
	for i, r := range result.Resources {
		if i > 0 {
			text.WriteString("---\n")
		}
		body, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := screen.WriteYAML(&text, body); err != nil {
			return err
		}
	}
	if text.Len() > 0 && !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
		text.WriteByte('\n')
	}
	if out != "" {
		if err := os.WriteFile(out, text.Bytes(), 0o600); err != nil { // private: handlers have secrets
			return err
		}
	} else if _, err := c.Out.Write(text.Bytes()); err != nil {
		return err
	}
	for _, note := range result.Notes {
		mark := " "
		if note.NotImported {
			mark = "!"
		}
		c.Notef(2, "%s %s: %s: %s", mark, note.Where, note.Subject, note.Text)
	}
	lost := ""
	if n := result.LostCount(); n > 0 {
		lost = "; " + model.CountNoun(n, "thing") + " not converted, marked !"
	}
	c.Notef(2, "%s became %s%s", result.read, model.CountNoun(len(result.Resources), "resource"), lost)
	if result.after != "" {
		c.Notef(2, "%s", result.after)
	}
	if out != "" && len(result.Resources) > 0 {
		c.Notef(2, "review it, then: muster plan -f %s", out)
	}
	return strictError(result, strict)
}

// strictError returns the error of the flag --strict if a part of the files was not imported.
func strictError(result *importOutput, strict bool) error {
	if strict && result.LostCount() > 0 {
		return &exitError{20}
	}
	return nil
}
