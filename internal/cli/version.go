package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/version"
)

func (a *app) versionCmd() *cobra.Command {
	var output *format
	c := &cobra.Command{
		Use: "version", Short: "Which build this is, and which the server is", Args: cobra.NoArgs,
		Example: "  muster version -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			builds := map[string]any{"client": version.Get()}
			client, err := a.connect()
			var server version.Info
			if err == nil {
				if server, err = client.Version(c.Context()); err == nil {
					builds["server"] = server
				}
			}
			if output.machine() {
				return a.printValue(*output, builds)
			}
			fmt.Fprintf(a.Stdout, "client  %s\n", version.Get())
			if err == nil {
				fmt.Fprintf(a.Stdout, "server  %s\n", server)
			} else {
				fmt.Fprintf(a.Stdout, "server  not asked: %s\n", clean(firstLine(err.Error()), false))
			}
			return nil
		},
	}
	output = formatFlag(c)
	return c
}
