package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/model"
)

func lintCommand(s *session) *cobra.Command {
	var files []string
	var owner string
	return s.build(command{
		use: "lint FILE...", short: "Check files without a server",
		long:    "Checks fields, units, names, probes and conditions of files and folders, and reports file, line and the\nnearest right word of every error. Needs no server: run it in CI.",
		example: "  muster lint disk.yaml\n  muster lint ./checks\n  muster lint ./checks -o json",
		args:    cobra.ArbitraryArgs, offline: true,
		flags: func(flags *pflag.FlagSet) {
			fileFlag(flags, &files)
			flags.StringVar(&owner, "owner", "", "owner of the resources: a file that names another owner is an error")
		},
		run: func(c *call) error {
			docs, err := c.readSomeFiles(append(files, c.args...))
			if err == nil {
				err = ownerFlaws(docs, owner).Err()
			}
			if c.Format.Machine() {
				return printFlaws(c, err)
			}
			if err != nil {
				return err
			}
			c.Printf("%s, no errors\n", model.CountNoun(len(docs), "resource"))
			for _, note := range c.sensuNotes(docs) {
				c.Printf("%s\n", note)
			}
			return nil
		},
	})
}

// printFlaws writes the flaws of files as a list, which is empty for good files.
func printFlaws(c *call, err error) error {
	flaws, other := splitFlaws(err)
	if other != nil {
		return other
	}
	if flaws == nil {
		flaws = model.Flaws{}
	}
	if err := c.Value(flaws); err != nil || len(flaws) == 0 {
		return err
	}
	return &exitError{model.Invalid.Exit()}
}
