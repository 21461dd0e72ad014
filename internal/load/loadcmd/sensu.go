package loadcmd

import (
	"strings"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/subject"
)

// backend finds the running Sensu backend, or bridge of Muster, at the addresses of --server.
func (o *runner) backend(c *load.Config) (*play.Found, *subject.Subject, error) {
	server := ""
	if o.cmd.Flags().Changed("server") {
		server = c.Server
	}
	found, err := o.sensu.Find(c.Scenario, server, func() (*client.Client, error) {
		api, _, err := login(o.cmd, "")
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
	o.say("%s: %s, against %s", c.Scenario.FullTitle(), c.Scenario.Brief(), server)
	return found, &subject.Subject{Admin: c.AdminURL}, nil
}
