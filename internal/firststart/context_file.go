package firststart

import (
	"cmp"
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/pki"
)

// ReplacedContext has the server of another server's context that SaveContext found in the file, and the backup file
// that now holds the context; empty if there was none.
type ReplacedContext struct{ Server, File string }

// SaveContext writes a context file for this server, whose addresses, CA and data folder c has. A valid token of this
// server in the file stays. The context of another server first moves to a file beside it; an earlier context of this
// server that moved in this way is used again.
func SaveContext(ctx context.Context, users *access.Service, path string, c client.Context, now time.Time) (replaced ReplacedContext, err error) {
	earlier, err := client.LoadContext(path)
	if err != nil {
		return replaced, err
	}
	if (earlier.Server != "" || earlier.Token != "") && !sameServer(users, &earlier, &c) {
		if replaced.File, err = client.BackUpContext(path, earlier); err != nil {
			return replaced, err
		}
		replaced.Server = cmp.Or(earlier.Server, "no server")
		earlier = movedContext(users, path, &c)
	}
	c.Namespace, c.Token = earlier.Namespace, earlier.Token
	who, err := users.Authenticate(earlier.Token)
	if c.User = who.User; err != nil {
		c.User = "admin"
		c.Token, _, err = users.CreateToken(ctx, intent.Actor{User: "admin", Address: "local", Message: "muster up"},
			access.AccessToken{User: "admin", Grants: adminGrants(users), Expires: now.Add(access.TokenLifetime).UTC(), Note: "context file of muster up"})
		if err != nil {
			return replaced, err
		}
	}
	return replaced, client.SaveContext(path, c)
}

// adminGrants returns the rights of the user admin; the right to run commands is among them if the user admin has it
// already.
func adminGrants(users *access.Service) access.Grants {
	g := access.Grants{Role: access.Admin}
	for _, u := range users.Users() {
		g.Run = g.Run || u.Name == "admin" && u.Run
	}
	return g
}

// sameServer reports whether a context (saved login) belongs to this server, whose own context is the parameter now.
// An equal address is not enough: another data folder is another server. Equal CA and tokens are not enough: a copy
// of the data folder has them, too.
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

// movedContext returns this server's saved login that the login of another server had replaced, or an empty one if
// there is none or its token is invalid.
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
