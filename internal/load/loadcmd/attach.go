package loadcmd

import (
	"context"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
)

// attach uses the server that --server names. One that muster load prepare has prepared is
// told by --data; any other is prepared through its API.
func (o *options) attach(ctx context.Context, cmd *cobra.Command, c *load.Config, say func(string, ...any)) (*subject.Subject, error) {
	if _, _, err := net.SplitHostPort(c.Server); err != nil {
		return nil, model.Errorf(model.Invalid, "--server %q: want HOST:PORT", c.Server).WithHint("--server muster.example.org:8443")
	}
	pid, err := findServer(o.pid)
	if err != nil {
		return nil, err
	}
	server := &subject.Subject{TLS: c.Server, Plain: o.plain, Admin: strings.TrimSuffix(c.AdminURL, "/")}
	c.ServerPID = pid
	if cmd.Flags().Changed("data") {
		if err := o.comparable(c.AdminURL); err != nil {
			return nil, err
		}
		server.Data = o.data
		authority, err := server.Authority()
		if err != nil {
			return nil, err
		}
		if c.TLS, err = simulated.Certificates(authority); err != nil {
			return nil, err
		}
	} else {
		if server.API, _, err = login(cmd, ""); err != nil {
			return nil, otherServer(c.Server, "its machines are made through its API, and no login to that can be used", err)
		}
		say("preparing %s through its API, %s", c.Server, server.API.Server())
		c.Bare = load.Resident()
		if c.Members, c.TLS, err = server.Join(ctx, c.Scenario, o.identities, say); err != nil {
			if model.ClassOf(err) == model.Unavailable && ctx.Err() == nil {
				err = otherServer(c.Server, "the login is to "+server.API.Server(), err)
			}
			return nil, err
		}
	}
	if o.plain == "" {
		for i := range c.Scenario.Agents {
			c.Scenario.Agents[i].TLS = true
		}
	}
	return server, nil
}

// comparable refuses a run whose ledger would have nothing beside it, unless that is meant.
func (o *options) comparable(admin string) error {
	if admin != "" || o.uncompared {
		return nil
	}
	return model.Errorf(model.Invalid, "nobody could say whether the server holds what it acknowledged: there is no --admin").
		WithHint("--admin http://127.0.0.1:8444 (its listen-admin); --uncompared if the answers alone are to count")
}

// otherServer says that --server names the agents' listener, and that its API is known by a
// login to the same server.
func otherServer(address, what string, err error) error {
	host, _, cut := net.SplitHostPort(address)
	if cut != nil {
		host = address
	}
	why, _, _ := strings.Cut(err.Error(), "\n") // what to type there is of the other server
	return model.Errorf(model.ClassOf(err), "--server %s: %s: %s", address, what, why).WithHint("muster login https://%s (its API), or --data with the server's folder", net.JoinHostPort(host, "8443"))
}
