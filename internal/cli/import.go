package cli

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
)

func importCommand(s *session) *cobra.Command {
	return s.build(command{
		use: "import", short: "Convert the resources of another system", example: "  muster import sensu sensu.yaml --out muster.yaml",
		commands: []*cobra.Command{importSensuCommand(s)},
	})
}

func importSensuCommand(s *session) *cobra.Command {
	var out string
	var strict bool
	return s.build(command{
		use: "sensu FILE...", short: "Convert the output of sensuctl dump",
		long: "Reads files of sensuctl dump and sensuctl create (YAML, wrapped-json) and writes Muster's resources:\n" +
			"checks, handlers, filters, mutators, pipelines, hooks, silences, entities and namespaces. Standard\n" +
			"error lists everything that was not carried over, or changed. Nothing is sent to a server: read the\nresult, then muster apply.",
		example: "  sensuctl dump all --all-namespaces --format yaml --file sensu.yaml\n  muster import sensu sensu.yaml --out muster.yaml\n  muster plan -f muster.yaml\n  muster apply -f muster.yaml -m \"from Sensu\"",
		args:    cobra.MinimumNArgs(1), offline: true,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&out, "out", "", "write the resources to this file instead of standard output")
			flags.BoolVar(&strict, "strict", false, "exit with 20 if something was not carried over")
		},
		run: func(c *call) error {
			files, err := readSensuFiles(c)
			if err != nil {
				return err
			}
			result, err := sensuimport.Import(files, c.Kinds, c.Now())
			if err != nil {
				return err
			}
			if err := printImport(c, result, out); err != nil {
				return err
			}
			if strict && result.LostCount() > 0 {
				return &exitError{20}
			}
			return nil
		},
	})
}

// readSensuFiles reads the files of the arguments undecoded.
func readSensuFiles(c *call) (files []sensuimport.File, err error) {
	for _, path := range c.args {
		var data []byte
		name := path
		if path == "-" {
			name = "standard input"
			data, err = readInput(c.Stdin)
		} else if data, err = os.ReadFile(path); os.IsNotExist(err) {
			err = noFile(path)
		}
		if err != nil {
			return nil, err
		}
		if len(data) > maxFile {
			return nil, model.Errorf(model.TooLarge, "%s is larger than %s", name, model.Size(maxFile)).WithHint("dump one namespace, or one type, at a time: sensuctl dump checks --namespace NAME …")
		}
		files = append(files, sensuimport.File{Name: name, Data: data})
	}
	return files, nil
}

// printImport writes the resources to out or standard output, the notes to standard error.
func printImport(c *call, result *sensuimport.Result, out string) error {
	if c.Format == screen.JSON {
		return c.Value(result)
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
		if note.Lost {
			mark = "!"
		}
		c.Notef("%s %s: %s: %s\n", mark, note.Where, note.What, note.Text)
	}
	c.Notef("%s of Sensu became %s", model.CountNoun(result.Read, "resource"), model.CountNoun(len(result.Resources), "resource"))
	if n := result.LostCount(); n > 0 {
		c.Notef("; %s not carried over, marked !", model.CountNoun(n, "thing"))
	}
	c.Notef("\n")
	if out != "" {
		c.Notef("review it, then: muster plan -f %s\n", out)
	}
	return nil
}
