package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) lintCmd() *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check files as far as that needs no server",
		Long: "Checks fields, units, names, probes and conditions of all files, and names file, line and the\n" +
			"nearest right word for everything that is wrong. Needs no server: put it into your CI.",
		Example: "  muster lint disk.yaml\n  muster lint ./checks",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			docs, err := a.readFiles(append(files, args...))
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s, nothing found\n", count(len(docs), "resource"))
			return nil
		},
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "file, folder or - for standard input; may be repeated")
	return c
}
