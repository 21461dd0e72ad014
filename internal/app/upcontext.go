package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/pki"
)

// saveContext writes the context file by which the command line finds this server. It keeps a valid token of this server.
// The context of another server moves to a file beside it first; an earlier context of this server that was moved so is
// used again.
func (u *Up) saveContext(ctx context.Context, s *Server) error {
	c := client.Context{Server: localURL(s.people), CA: string(s.authority.CAPEM())}
	if s.admin != nil {
		c.Admin = s.admin.Addr().String()
	}
	var err error
	if c.Data, err = filepath.Abs(u.Config.Data); err != nil {
		return fmt.Errorf("write context file: %w", err)
	}
	earlier, err := client.LoadContext(u.Context)
	if err != nil {
		return err
	}
	if (earlier.Server != "" || earlier.Token != "") && !sameServer(s.access, &earlier, &c) {
		if u.replacedFile, err = client.BackUpContext(u.Context, earlier); err != nil {
			return err
		}
		u.replacedServer = cmp.Or(earlier.Server, "no server")
		earlier = movedContext(s.access, u.Context, &c)
	}
	c.Namespace, c.Token = earlier.Namespace, earlier.Token
	who, err := s.access.Authenticate(earlier.Token)
	if c.User = who.User; err != nil {
		c.User = "admin"
		c.Token, _, err = s.access.CreateToken(ctx, intent.Actor{User: "admin", Whence: "local", Why: "muster up"},
			access.AccessToken{User: "admin", Grants: access.Grants{Role: access.Admin}, Note: "context file of muster up"})
		if err != nil {
			return err
		}
	}
	return client.SaveContext(u.Context, c)
}

// sameServer reports whether a context belongs to the server of another one. An equal address is not enough: another data
// folder is another server. Nor are CA and tokens, which a copy of the data folder also has.
func sameServer(users *access.Service, c, now *client.Context) bool {
	if c.Server != "" && c.Server != now.Server && c.Data != now.Data {
		return false
	}
	if c.CA != "" && pki.SumOfPEM([]byte(c.CA)) == pki.SumOfPEM([]byte(now.CA)) {
		return true
	}
	_, err := users.Authenticate(c.Token)
	return err == nil
}

// movedContext returns a context of this server, with a valid token, that moved when another server wrote its own; empty:
// there is none.
func movedContext(users *access.Service, path string, now *client.Context) client.Context {
	for _, file := range client.ContextBackups(path, now.Server) {
		c, err := client.LoadContext(file)
		if err != nil || !sameServer(users, &c, now) {
			continue
		}
		if _, err := users.Authenticate(c.Token); err == nil {
			return c
		}
	}
	return client.Context{}
}

// localURL returns the address of a listener for programs on this machine.
func localURL(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return "https://" + net.JoinHostPort("localhost", port)
}
