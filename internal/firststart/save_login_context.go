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

// ReplacedContext names the other server whose saved login SaveContext has moved to a backup file. It has the address
// of that server and the backup file of its context; both are empty if no context was replaced.
type ReplacedContext struct{ Server, File string }

// SaveContext writes the login of a user for the server to the context file. The addresses, CA and data folder come
// from c. A valid token of this server in the file stays. The context of another server first moves to a file beside
// it; an earlier context of this server that moved in this way is used again.
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

// adminGrants returns the rights to give the user admin, with the right to run commands if already granted. The
// right to run commands is included if admin has it already.
func adminGrants(users *access.Service) access.Grants {
	g := access.Grants{Role: access.Admin}
	for _, u := range users.Users() {
		g.Run = g.Run || u.Name == "admin" && u.Run
	}
	return g
}

// sameServer reports whether a saved login and a new login belong to the same server. An equal address is not
// enough: another data folder is another server. Equal CA and tokens are not enough: a copy of the data folder
// has them, too.
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

// movedContext returns the server's own saved login that was moved to a backup file, or an empty login. It
// returns an empty login without such a file or with an invalid token.
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
