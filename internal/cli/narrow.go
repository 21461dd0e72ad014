package cli

import (
	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// whereFlag is --where of a list whose rows are neither events nor resources.
func whereFlag(c *cobra.Command, n *v1.Narrow, example string) {
	c.Flags().StringVar(&n.Where, "where", "", "CEL over row, as -o json shows it: "+example)
}

// narrow is what picks rows of lists that have no filter of their own.
func (g *getFlags) narrow() v1.Narrow { return v1.Narrow{Selector: g.selector, Where: g.where} }
