package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) explainCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "explain [KIND[.FIELD]]",
		Short:             "Which kinds there are, and which fields they have",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeKinds,
		RunE: func(_ *cobra.Command, args []string) error {
			t := newTable("KIND", "PLURAL", "SHORT", "NAMESPACED")
			for _, k := range model.Kinds() {
				t.add(k.Name, k.Plural, dash(k.Short), fmt.Sprint(k.Namespaced))
			}
			return t.write(a.Env)
		},
	}
}
