package api

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// caller is who makes a request, and whence.
type caller struct {
	intent.Identity
	whence string
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// mayChange says whether the caller may change resources; who may only look does not
// see secrets in them.
func mayChange(ctx context.Context) bool { return callerOf(ctx).Role == intent.Admin }

// shown is a resource as the caller may see it.
func shown(ctx context.Context, r *model.Resource) *model.Resource {
	if mayChange(ctx) {
		return r
	}
	return model.Redacted(r)
}

// who is how a change by this request is recorded.
func who(ctx context.Context, why string) intent.Who {
	c := callerOf(ctx)
	return intent.Who{User: c.User, Whence: c.whence, Why: why}
}

// open are the paths that need no token: they tell nothing, or ask for their own
// proof.
func open(path string) bool {
	switch path {
	case "/livez", "/readyz", "/api/v1/login", pki.EnrolPath, pki.RenewPath:
		return true
	}
	return fromOutside(path)
}

// authenticated lets nobody through without a token. A viewer may look, and preview an apply.
func (s *server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := caller{whence: model.HostOf(r.RemoteAddr)}
		if !open(r.URL.Path) {
			token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				s.metrics.refused.WithLabelValues("no_token").Inc()
				writeError(w, model.Errorf(model.Unauthenticated, "this needs a token").WithHint("muster login"))
				return
			}
			var err error
			if c.Identity, err = s.Intent.Authenticate(token); err != nil {
				s.metrics.refused.WithLabelValues("bad_token").Inc()
				writeError(w, refusal(err))
				return
			}
			if s.Vouch != nil {
				s.Vouch(r.Context())
			}
			if !mayDo(c.Role, r) {
				writeError(w, s.notFor(&c, forOperators(r)))
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// forViewers are paths of requests that change nothing of others, or (an apply) may be dry:
// that is asked where the request is read.
func forViewers(path string) bool {
	return path == "/api/v1/logout" || path == ownPassword || path == "/api/v1/apply"
}

// mayDo says whether a role may make a request: a viewer looks, an operator also runs checks,
// acknowledges and resolves events, makes and ends silences, tries handlers and replays their dead letters; an administrator
// does all. Who has the role agent or alerts has ways in of their own. Who may run commands is looked at where
// they are run.
func mayDo(role string, r *http.Request) bool {
	switch {
	case role == intent.Agents, role == intent.Alerts:
		return false
	case role == intent.Admin, r.Method == http.MethodGet, r.Method == http.MethodHead:
		return true
	case forViewers(r.URL.Path):
		return true
	}
	return role == intent.Operator && forOperators(r)
}

func forOperators(r *http.Request) bool {
	return r.Method == http.MethodPost &&
		(r.URL.Path == runsPath || r.URL.Path == silencesPath || strings.HasPrefix(r.URL.Path, silencesPath+"/") && path.Base(r.URL.Path) == "end" ||
			strings.HasPrefix(r.URL.Path, "/api/v1/events/") && slices.Contains([]string{"resolve", "acknowledge", "unacknowledge"}, path.Base(r.URL.Path)) ||
			strings.HasPrefix(r.URL.Path, "/api/v1/handlers/") && slices.Contains([]string{"test", "replay"}, path.Base(r.URL.Path)))
}

// lookOnly refuses a change by somebody who may make none.
func (s *server) lookOnly(c caller) *model.Error { return s.notFor(&c, false) }

// notFor says why somebody may not do this, and who may: administrators, or operators too.
func (s *server) notFor(c *caller, operators bool) *model.Error {
	s.metrics.refused.WithLabelValues("role").Inc()
	may := "look and not change"
	if c.Role == intent.Operator {
		may = "look, run checks, silence, acknowledge and resolve events, and not change what is declared"
	}
	if c.Role == intent.Agents || c.Role == intent.Alerts {
		may = "bring alerts in, and nothing else"
	}
	e := model.Errorf(model.Forbidden, "%s may %s (role %s)", c.User, may, c.Role)
	if operators {
		return e.WithHint("log in as somebody with the role operator or admin: muster login -u NAME")
	}
	return e.WithHint("log in as somebody who may: muster login -u admin")
}

// mayGive lets nobody give a right that he has not.
func mayGive(ctx context.Context, run bool) error {
	if c := callerOf(ctx); run && !c.Run {
		return model.Errorf(model.Forbidden, "%s may not run commands, and so cannot let others", c.User).
			WithHint("who may: muster auth user list; on the server's machine: muster auth reset-password --data DIR --user %s --may-run-commands", c.User)
	}
	return nil
}

// refusal is why a token is not taken, for its bearer.
func refusal(err error) *model.Error {
	if said := (*model.Error)(nil); errors.As(err, &said) {
		return said
	}
	return model.Errorf(model.Unauthenticated, "the token cannot be checked").WithHint("muster login")
}

func (s *server) authRoutes() {
	login := operation("login", http.MethodPost, "/api/v1/login", "auth", "Open a session")
	login.Security = []map[string][]string{{}}
	login.MaxBodyBytes = 16 << 10 // whoever comes may send one
	handle(s, also(login, model.Limited), s.login)
	handle(s, operation("logout", http.MethodPost, "/api/v1/logout", "auth", "End the session or token of this request"), s.logout)
	handle(s, operation("me", http.MethodGet, "/api/v1/me", "auth", "Who am I?"), s.me)
	handle(s, operation("listTokens", http.MethodGet, "/api/v1/tokens", "auth", "List API tokens and sessions"), s.listTokens)
	handle(s, operation("createToken", http.MethodPost, "/api/v1/tokens", "auth", "Make an API token; its secret is shown once"), s.createToken)
	handle(s, operation("revokeToken", http.MethodDelete, "/api/v1/tokens/{id}", "auth", "End an API token or session at once"), s.revokeToken)
}

func (s *server) login(ctx context.Context, in *struct{ Body v1.Login }) (*body[v1.Session], error) {
	whence := callerOf(ctx).whence
	if !s.tries.Allow(whence) {
		s.metrics.refused.WithLabelValues("login_rate").Inc()
		return nil, model.Errorf(model.Limited, "too many logins from %s", whence).WithHint("wait a minute")
	}
	leave, ok := s.logins.enter(ctx)
	if !ok {
		s.metrics.refused.WithLabelValues("login_queue").Inc()
		return nil, model.Errorf(model.Unavailable, "too many others log in now").WithHint("try again in a moment; tokens go on working")
	}
	defer leave()
	token, t, err := s.Intent.Login(ctx, in.Body.User, in.Body.Password, whence)
	if err != nil {
		s.metrics.refused.WithLabelValues("password").Inc()
		s.Logger.Warn("login refused", "user", in.Body.User, "from", whence)
		return nil, err
	}
	return &body[v1.Session]{v1.Session{Token: token, User: t.User, Expires: t.Expires}}, nil
}

func (s *server) logout(ctx context.Context, _ *none) (*none, error) {
	return nil, s.Intent.RevokeToken(ctx, who(ctx, "logout"), callerOf(ctx).Token)
}

func (s *server) me(ctx context.Context, _ *none) (*body[v1.Me], error) {
	c := callerOf(ctx)
	return &body[v1.Me]{v1.Me{User: c.User, Role: c.Role, Run: c.Run, Token: c.Token}}, nil
}

func (s *server) listTokens(ctx context.Context, in *WhereInput) (*body[v1.TokenList], error) {
	c := callerOf(ctx)
	items := []v1.Token{}
	for _, t := range s.Intent.Tokens() {
		if c.Role == intent.Admin || t.User == c.User {
			items = append(items, tokenOf(t))
		}
	}
	items, err := theseRows(s, *in, items)
	if err != nil {
		return nil, err
	}
	return &body[v1.TokenList]{v1.TokenList{Items: items}}, nil
}

func tokenOf(t intent.AccessToken) v1.Token {
	return v1.Token{ID: t.ID, User: t.User, Role: t.Role, Run: t.Run, Session: t.Session, Note: t.Note, Created: t.Created, Expires: t.Expires, Namespaces: t.Namespaces}
}

func (s *server) createToken(ctx context.Context, in *struct{ Body v1.TokenRequest }) (*body[v1.Token], error) {
	t := intent.AccessToken{User: in.Body.User, Role: in.Body.Role, Run: in.Body.Run, Note: in.Body.Note, Namespaces: in.Body.Namespaces}
	if t.User == "" {
		t.User = callerOf(ctx).User
	}
	if t.Role == "" {
		t.Role = intent.Viewer
	}
	if in.Body.ExpiresIn > 0 {
		t.Expires = s.Now().Add(time.Duration(in.Body.ExpiresIn) * time.Second).UTC()
	}
	if err := mayGive(ctx, t.Run); err != nil {
		return nil, err
	}
	secret, made, err := s.Intent.CreateToken(ctx, who(ctx, in.Body.Note), t)
	if err != nil {
		return nil, err
	}
	out := tokenOf(made)
	out.Secret = secret
	return &body[v1.Token]{out}, nil
}

type idPath struct {
	ID string `path:"id" maxLength:"253"`
}

func (s *server) revokeToken(ctx context.Context, in *idPath) (*none, error) {
	return nil, s.Intent.RevokeToken(ctx, who(ctx, "revoked"), in.ID)
}
