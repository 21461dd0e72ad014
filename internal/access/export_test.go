package access

import (
	"context"

	"github.com/muster-fleet/muster/internal/intent"
)

// NewSession is a login without the password, which takes its time.
func (s *Service) NewSession(ctx context.Context, user string) (string, error) {
	token, _, err := s.newToken(ctx, intent.Actor{User: "server"}, AccessToken{User: user, Session: true, Expires: s.opts.Now().Add(sessionLife)})
	return token, err
}
