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

// saveContext writes the context file by which the command line finds this server. It keeps a valid token
// of this server. The context of another server moves to a file beside it first; a context of this
// server that was moved so before is used again.
func (u *Up) saveContext(ctx context.Context, s *Server) error {
	c := client.Context{Server: s.localURL(), CA: string(s.authority.CAPEM())}
	if s.admin != nil {
		c.Admin = s.admin.Addr().String()
	}
	var err error
	if c.Data, err = filepath.Abs(u.Config.Data); err != nil {
		return fmt.Errorf("write context file: %w", err)
	}
	was, err := client.LoadContext(u.Context)
	if err != nil {
		return err
	}
	if (was.Server != "" || was.Token != "") && !s.isOurs(&was, &c) {
		if u.aside, err = client.BackUpContext(u.Context, was); err != nil {
			return err
		}
		u.kept = cmp.Or(was.Server, "no server")
		was = s.keptOf(u.Context, &c)
	}
	c.Namespace, c.Token = was.Namespace, was.Token
	who, err := s.access.Authenticate(was.Token)
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

// isOurs says whether a context is of the server that now is of: the address alone does not say
// so (another data folder is another server), nor do CA and tokens, which a copy of the data
// folder has, too.
func (s *Server) isOurs(was, now *client.Context) bool {
	if was.Server != "" && was.Server != now.Server && was.Data != now.Data {
		return false
	}
	if was.CA != "" && pki.SumOfPEM([]byte(was.CA)) == pki.SumOfPEM([]byte(now.CA)) {
		return true
	}
	_, err := s.access.Authenticate(was.Token)
	return err == nil
}

// keptOf is a context of this server that another one kept beside its own, with a good token.
func (s *Server) keptOf(path string, now *client.Context) client.Context {
	for _, file := range client.ContextBackups(path, now.Server) {
		kept, err := client.LoadContext(file)
		if err != nil || !s.isOurs(&kept, now) {
			continue
		}
		if _, err := s.access.Authenticate(kept.Token); err == nil {
			return kept
		}
	}
	return client.Context{}
}

func (s *Server) localURL() string {
	_, port, _ := net.SplitHostPort(s.people.Addr().String())
	return "https://" + net.JoinHostPort("localhost", port)
}
