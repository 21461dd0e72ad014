package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) lintCmd() *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check files as far as that needs no server",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			docs, err := a.readFiles(append(files, args...))
			if err != nil {
				return err
			}
			for _, d := range docs {
				o, err := decodeObject(d.body)
				if err != nil {
					return model.Errorf(model.Invalid, "%s: %w", d.place, err)
				}
				if _, err := model.DecodeSpec(o.Kind, o.Spec); err != nil {
					return model.Errorf(model.Invalid, "%s: %w", d.place, err)
				}
			}
			fmt.Fprintf(a.Stdout, "%s, nothing found\n", count(len(docs), "resource"))
			return nil
		},
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "file, folder or - for standard input; may be repeated")
	return c
}
