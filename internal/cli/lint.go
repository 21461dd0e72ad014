package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) lintCmd() *cobra.Command {
	var files []string
	var owner string
	var output *format
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check files as far as that needs no server",
		Long: "Checks fields, units, names, probes and conditions of all files, folders with all that is in\n" +
			"them, and names file, line and the nearest right word for everything that is wrong. Needs no\nserver: put it into your CI.",
		Example: "  muster lint disk.yaml\n  muster lint ./checks\n  muster lint ./checks -o json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			paths := append(files, args...)
			docs, err := a.readFiles(paths)
			if err == nil && len(docs) == 0 {
				err = noResource(paths)
			}
			if err == nil {
				err = foreign(docs, owner).Err()
			}
			if output.machine() {
				return a.printFlaws(*output, err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s, no errors\n", model.CountNoun(len(docs), "resource"))
			for _, note := range a.sensuNotes(docs) {
				fmt.Fprintln(a.Stdout, note)
			}
			return nil
		},
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "file, folder or - for standard input; may be repeated")
	c.Flags().StringVar(&owner, "owner", "", "whose the resources are: a file that says another owner is wrong")
	output = formatFlag(c)
	return c
}

// printFlaws is what is wrong, for programs: a list, empty if nothing is.
func (a *app) printFlaws(f format, err error) error {
	found, other := flawed(err)
	if other != nil {
		return other
	}
	if found == nil {
		found = model.Flaws{}
	}
	if perr := a.printValue(f, found); perr != nil || len(found) == 0 {
		return perr
	}
	return &exitError{model.Invalid.Exit()}
}
