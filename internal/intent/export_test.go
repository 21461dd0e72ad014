package intent

import "context"

// NewSession is a login without the password, which takes its time.
func (s *Service) NewSession(ctx context.Context, user string) (string, error) {
	token, _, err := s.newToken(ctx, server("test"), AccessToken{User: user, Role: Admin, Session: true, Expires: s.opts.Now().Add(sessionLife)})
	return token, err
}

// TidyNow does what Tidy does once an hour.
func (s *Service) TidyNow(ctx context.Context) error { return s.tidy(ctx) }

// WriteSeenNow does what Run does every other second.
func (s *Service) WriteSeenNow(ctx context.Context) error { return s.writeSeen(ctx) }
