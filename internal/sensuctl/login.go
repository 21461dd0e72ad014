package sensuctl

import (
	"net/http"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// login answers the paths below /auth with users, passwords and sessions of Muster.
func (s *Server) login(r *http.Request) (answer, error) {
	inside := func(token string) *client.Client { return client.InProcess(s.api, r.RemoteAddr, token) }
	switch r.Method + " " + r.URL.Path {
	case "GET /auth":
		c := inside("")
		session, err := openSession(r, c)
		if err != nil {
			return answer{}, err
		}
		return answer{http.StatusOK, tokens(session.Token, session.Expires), ""}, nil
	case "GET /auth/test":
		c := inside("")
		if _, err := openSession(r, c); err != nil {
			return answer{}, err
		}
		return answer{http.StatusOK, nil, ""}, c.Access.Logout(r.Context())
	case "POST /auth/token": // a session ends at its time: it is not refreshed
		token := tokenOf(r)
		c := inside(token)
		me, err := c.Access.WhoAmI(r.Context())
		if err != nil {
			return answer{}, err
		}
		list, err := c.Access.Tokens(r.Context())
		if err != nil {
			return answer{}, err
		}
		for _, t := range list.Items {
			if t.ID == me.Token {
				return answer{http.StatusOK, tokens(token, t.Expires), ""}, nil
			}
		}
		return answer{}, model.Errorf(model.Unauthenticated, "the session has ended")
	case "POST /auth/logout":
		return answer{http.StatusOK, nil, ""}, inside(tokenOf(r)).Access.Logout(r.Context())
	}
	return answer{}, model.Errorf(model.NotFound, "there is no path %s", model.Shorten(r.URL.Path))
}

func openSession(r *http.Request, c *client.Client) (session v1.Session, err error) {
	user, password, ok := r.BasicAuth()
	if !ok || user == "" || password == "" {
		return session, model.Errorf(model.Unauthenticated, "a user and a password are required")
	}
	return c.Access.Login(r.Context(), user, password)
}

// forever is the lifetime that sensuctl gets for a token without an end.
const forever = 10 * 365 * 24 * time.Hour

// tokens returns the answer to a login. The refresh token, which sensuctl requires, is the session's own.
func tokens(secret string, expires time.Time) object {
	if expires.IsZero() {
		expires = time.Now().Add(forever)
	}
	return object{"access_token": secret, "expires_at": expires.Unix(), "refresh_token": secret}
}
