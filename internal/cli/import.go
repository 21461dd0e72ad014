package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

func (a *app) importCmd() *cobra.Command {
	c := &cobra.Command{Use: "import", Short: "Turn another system's resources into Muster's", Example: "  muster import sensu sensu.yaml --out muster.yaml"}
	c.AddCommand(a.importSensuCmd())
	return c
}

func (a *app) importSensuCmd() *cobra.Command {
	var out string
	var strict bool
	var output *format
	c := &cobra.Command{
		Use:   "sensu FILE...",
		Short: "Read what sensuctl dump wrote",
		Long: "Reads files of sensuctl dump and sensuctl create (YAML, wrapped-json) and writes Muster's resources:\n" +
			"checks, handlers, filters, mutators, pipelines, hooks, silences, entities and namespaces. What was\n" +
			"not carried, and what was carried in another way than one might think, is said line by line on\nstandard error. Nothing is sent anywhere: look at it, then muster apply.",
		Example: "  sensuctl dump all --all-namespaces --format yaml --file sensu.yaml\n  muster import sensu sensu.yaml --out muster.yaml\n  muster plan -f muster.yaml\n  muster apply -f muster.yaml -m \"from Sensu\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := a.readRaw(args)
			if err != nil {
				return err
			}
			result, err := sensuimport.Import(files, kind.All(), a.Now())
			if err != nil {
				return err
			}
			if err := a.printImport(result, out, *output); err != nil {
				return err
			}
			if strict && result.LostCount() > 0 {
				return &exitError{20}
			}
			return nil
		},
	}
	output = formatFlag(c)
	flags := c.Flags()
	flags.StringVar(&out, "out", "", "write the resources to this file, in place of standard output")
	flags.BoolVar(&strict, "strict", false, "end with 20 when something was not carried")
	return c
}

// readRaw reads files as they are, and standard input ("-").
func (a *app) readRaw(paths []string) (files []sensuimport.File, err error) {
	for _, path := range paths {
		var data []byte
		name := path
		if path == "-" {
			name = "standard input"
			data, err = io.ReadAll(io.LimitReader(a.Stdin, maxInput+1))
		} else if data, err = os.ReadFile(path); os.IsNotExist(err) {
			err = model.Errorf(model.NotFound, "there is no file %s", path).WithHint("what is there: ls %s", filepath.Dir(path))
		}
		if err != nil {
			return nil, err
		}
		if len(data) > maxInput {
			return nil, model.Errorf(model.TooLarge, "%s is larger than %s", name, model.Size(maxInput)).WithHint("dump one namespace, or one type, at a time: sensuctl dump checks --namespace NAME …")
		}
		files = append(files, sensuimport.File{Name: name, Data: data})
	}
	return files, nil
}

func (a *app) printImport(result *sensuimport.Result, path string, f format) error {
	if f.machine() && f != "yaml" {
		return a.printValue(f, result)
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
		if err := writeYAML(&text, body); err != nil {
			return err
		}
	}
	if text.Len() > 0 && !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
		text.WriteByte('\n')
	}
	if path != "" {
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil { // handlers have secrets
			return err
		}
	} else if _, err := a.Stdout.Write(text.Bytes()); err != nil {
		return err
	}
	for _, note := range result.Notes {
		mark := " "
		if note.Lost {
			mark = "!"
		}
		fmt.Fprintf(a.Stderr, "%s %s: %s: %s\n", mark, note.Where, note.What, note.Text)
	}
	fmt.Fprintf(a.Stderr, "%s of Sensu's became %s", model.CountNoun(result.Read, "resource"), model.CountNoun(len(result.Resources), "resource"))
	if n := result.LostCount(); n > 0 {
		fmt.Fprintf(a.Stderr, "; %s not carried, marked !", model.CountNoun(n, "thing"))
	}
	fmt.Fprintln(a.Stderr)
	if path != "" {
		fmt.Fprintf(a.Stderr, "look at it, then: muster plan -f %s\n", path)
	}
	return nil
}
