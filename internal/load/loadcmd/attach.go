package loadcmd

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
)

// attach uses the server of --server. --data names the folder of a server that muster load prepare has prepared; any other
// server is prepared through its API.
func (o *runner) attach(ctx context.Context, c *load.Config) (*subject.Subject, error) {
	if _, _, err := net.SplitHostPort(c.Server); err != nil {
		return nil, model.Errorf(model.Invalid, "--server %q: want HOST:PORT", c.Server).WithHint("--server muster.example.org:8443")
	}
	pid, err := serverPID(o.pid)
	if err != nil {
		return nil, err
	}
	server := &subject.Subject{TLS: c.Server, Plain: o.plain, Admin: strings.TrimSuffix(c.AdminURL, "/")}
	c.ServerPID = pid
	if o.cmd.Flags().Changed("data") {
		if c.AdminURL == "" && !o.uncompared {
			return nil, model.Errorf(model.Invalid, "--admin is missing: without it the ledger is not compared with the server's event states").
				WithHint("--admin http://127.0.0.1:8444 (its listen-admin); --uncompared if the answers alone are to count")
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
		if server.API, _, err = login(o.cmd, ""); err != nil {
			return nil, otherServer(c.Server, "its API creates the machines, and there is no login to it", err)
		}
		o.say("preparing %s through its API, %s", c.Server, server.API.Server())
		c.Bare = load.Resident()
		if c.Members, c.TLS, err = server.Join(ctx, c.Scenario, o.identities, o.say); err != nil {
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

// otherServer returns the error of an API that is not that of --server, the listener of agents. The hint of err is left out: it
// may name the --server of other commands, an API.
func otherServer(address, what string, err error) error {
	message := err.Error()
	if inner := (*model.Error)(nil); errors.As(err, &inner) {
		message = inner.Message
	}
	return model.Errorf(model.ClassOf(err), "--server %s: %s: %s", address, what, message).WithHint("muster login to the API of that server, or --data with its folder")
}

// serverPID returns a function with the present process of the server: a number, or read from a file; nil means
// unknown.
func serverPID(pid string) (func() int, error) {
	if pid == "" {
		return nil, nil
	}
	if n, err := strconv.Atoi(pid); err == nil && n > 0 {
		return func() int { return n }, nil
	}
	read := func() int {
		text, _ := os.ReadFile(pid)
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return max(n, 0) // 0: the server restarts
	}
	if read() == 0 {
		return nil, model.Errorf(model.Invalid, "--server-pid %q: want a process number or a file that holds one", pid)
	}
	return read, nil
}

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
