package loadcmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/subject"
)

// backend finds the running Sensu backend, or bridge of Muster, at the addresses of --server.
func (o *options) backend(cmd *cobra.Command, c *load.Config, say func(string, ...any)) (*play.Found, *subject.Subject, error) {
	server := ""
	if cmd.Flags().Changed("server") {
		server = c.Server
	}
	found, err := o.sensu.Find(c.Scenario, server, func() (*client.Client, error) {
		api, _, err := login(cmd, "")
		return api, err
	})
	if err == nil {
		err = load.TargetPlays(c.Scenario, found.Target)
	}
	if err == nil {
		c.ServerPID, err = serverPID(o.pid)
	}
	if err != nil {
		return nil, nil, err
	}
	c.AdminURL, c.Server = strings.TrimSuffix(c.AdminURL, "/"), strings.Join(found.Hosts, ",")
	say("%s: %s, against %s", c.Scenario.FullTitle(), c.Scenario.Brief(), server)
	return found, &subject.Subject{Admin: c.AdminURL}, nil
}
