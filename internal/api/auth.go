package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// caller is the subject of a request, with the address it comes from.
type caller struct {
	access.Subject
	whence string
}

// viewer is the role of a token that names none: it reads wherever the caller does.
func (c *caller) viewer() (role string, bindings map[string]string) {
	if c.MayEverywhere(access.Read) {
		return access.Viewer, nil
	}
	bindings = map[string]string{}
	for _, namespace := range c.NamespacesFor(access.Read) {
		bindings[namespace] = access.Viewer
	}
	return "", bindings
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// mayChange reports whether the caller may change resources of a namespace. Secrets in them are
// hidden from others.
func mayChange(ctx context.Context, namespace string) bool {
	c := callerOf(ctx)
	return c.May(access.Change, namespace)
}

// redactFor is a resource as the caller may see it.
func (s *server) redactFor(ctx context.Context, r *model.Resource) *model.Resource {
	if mayChange(ctx, intent.KeyOf(r).Namespace) {
		return r
	}
	return s.Kinds.Redact(r)
}

// author names the caller in the record of changes.
func author(ctx context.Context, why string) intent.Actor {
	c := callerOf(ctx)
	return intent.Actor{User: c.User, Whence: c.whence, Why: why}
}

// open reports whether a path needs no token: it shows nothing, or asks for a proof of its own.
func open(path string) bool {
	switch path {
	case "/livez", "/readyz", "/api/v1/login", pki.EnrolPath, pki.RenewPath:
		return true
	}
	return fromOutside(path)
}

// authenticated finds the subject of a request by its token. Roles of programs have doors of their
// own and are refused here; every operation refuses other subjects by its declaration.
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
			if c.Subject, err = s.Access.Authenticate(token); err != nil {
				s.metrics.refused.WithLabelValues("bad_token").Inc()
				writeError(w, refusal(err))
				return
			}
			if s.Vouch != nil {
				s.Vouch(r.Context())
			}
			if err := c.Allow(access.ByAnybody("api")); err != nil {
				s.metrics.refused.WithLabelValues("role").Inc()
				writeError(w, refusal(err))
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// authorized refuses a request before its body is read, where the subject may not do this at all
// or not in the namespace that the path or the query names.
func (s *server) authorized(need access.Need) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if err := allow(ctx, need); err != nil {
			s.metrics.refused.WithLabelValues("role").Inc()
			refused := refusal(err)
			p := problem(refused.Class, refused.Message, refused.Hint)
			ctx.SetHeader("Content-Type", p.ContentType(""))
			ctx.SetStatus(p.Status)
			_ = huma.DefaultJSONFormat.Marshal(ctx.BodyWriter(), p)
			return
		}
		next(ctx)
	}
}

func allow(ctx huma.Context, need access.Need) error {
	c := callerOf(ctx.Context())
	err := c.Allow(need)
	if err != nil || need.Scope != access.Namespaced {
		return err
	}
	for _, namespace := range []string{ctx.Param("namespace"), ctx.Query("namespace")} {
		if namespace != "" {
			if err := c.AllowIn(need, namespace); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayGive refuses to give rights that the caller does not have.
func mayGive(ctx context.Context, g *access.Grants) error {
	c := callerOf(ctx)
	switch {
	case g.Run && !c.Run:
		return model.Errorf(model.Forbidden, "%s may not run commands, and so cannot let others", c.User).
			WithHint("who may: muster auth user list; on the server's machine: muster auth reset-password --data DIR --user %s --may-run-commands", c.User)
	case !g.CoveredBy(&c.Grants):
		return model.Errorf(model.Forbidden, "%s has %s, and cannot give %s", c.User, &c.Grants, g)
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
	handle(s, withErrors(login, model.Limited), access.Open("session"), (*server).login)
	handle(s, operation("logout", http.MethodPost, "/api/v1/logout", "auth", "End the session or token of this request"), access.ByAnybody("session"), (*server).logout)
	handle(s, operation("me", http.MethodGet, "/api/v1/me", "auth", "Who am I?"), access.ByAnybody("session"), (*server).showCaller)
	handle(s, operation("listTokens", http.MethodGet, "/api/v1/tokens", "auth", "List API tokens and sessions"), access.ByAnybody("token"), (*server).listTokens)
	handle(s, operation("createToken", http.MethodPost, "/api/v1/tokens", "auth", "Make an API token; its secret is shown once"), access.On(access.Change, "token"), (*server).createToken)
	handle(s, operation("revokeToken", http.MethodDelete, "/api/v1/tokens/{id}", "auth", "End an API token or session at once"), access.On(access.Change, "token"), (*server).revokeToken)
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
	token, t, err := s.Access.Login(ctx, in.Body.User, in.Body.Password, whence)
	if err != nil {
		s.metrics.refused.WithLabelValues("password").Inc()
		s.Logger.Warn("login refused", "user", in.Body.User, "from", whence)
		return nil, err
	}
	return &body[v1.Session]{v1.Session{Token: token, User: t.User, Expires: t.Expires}}, nil
}

func (s *server) logout(ctx context.Context, _ *none) (*none, error) {
	return nil, s.Access.RevokeToken(ctx, author(ctx, "logout"), callerOf(ctx).Token)
}

func (s *server) showCaller(ctx context.Context, _ *none) (*body[v1.Me], error) {
	c := callerOf(ctx)
	return &body[v1.Me]{v1.Me{User: c.User, Role: c.Role, Run: c.Run, Bindings: c.Bindings, Token: c.Token}}, nil
}

func (s *server) listTokens(ctx context.Context, in *WhereInput) (*body[v1.TokenList], error) {
	c := callerOf(ctx)
	items := []v1.Token{}
	for _, t := range s.Access.Tokens() {
		if c.MayEverywhere(access.Change) || t.User == c.User {
			items = append(items, tokenOf(t))
		}
	}
	items, err := theseRows(s, *in, items)
	if err != nil {
		return nil, err
	}
	return &body[v1.TokenList]{v1.TokenList{Items: items}}, nil
}

func tokenOf(t access.AccessToken) v1.Token {
	return v1.Token{ID: t.ID, User: t.User, Role: t.Role, Run: t.Run, Bindings: t.Bindings, Session: t.Session, Note: t.Note, Created: t.Created, Expires: t.Expires, Namespaces: t.Namespaces}
}

func (s *server) createToken(ctx context.Context, in *struct{ Body v1.TokenRequest }) (*body[v1.Token], error) {
	t := access.AccessToken{User: in.Body.User, Note: in.Body.Note, Grants: access.Grants{Role: in.Body.Role, Namespaces: in.Body.Namespaces, Run: in.Body.Run}}
	if t.User == "" {
		t.User = callerOf(ctx).User
	}
	t.Grants.Bindings = in.Body.Bindings
	c := callerOf(ctx)
	if t.Role == "" && len(t.Bindings) == 0 {
		t.Grants.Role, t.Grants.Bindings = c.viewer()
	}
	if t.User != c.User && !c.MayEverywhere(access.Change) {
		return nil, model.Errorf(model.Forbidden, "%s is bound to namespaces: a token bears the own name", c.User).WithHint("leave the user out")
	}
	if in.Body.ExpiresIn > 0 {
		t.Expires = s.Now().Add(time.Duration(in.Body.ExpiresIn) * time.Second).UTC()
	}
	if err := mayGive(ctx, &t.Grants); err != nil {
		return nil, err
	}
	secret, made, err := s.Access.CreateToken(ctx, author(ctx, in.Body.Note), t)
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

// revokeToken ends any token; a bound caller ends only tokens that bear the own name.
func (s *server) revokeToken(ctx context.Context, in *idPath) (*none, error) {
	c := callerOf(ctx)
	own := func(t access.AccessToken) bool { return t.ID == in.ID && t.User == c.User }
	if !c.MayEverywhere(access.Change) && !slices.ContainsFunc(s.Access.Tokens(), own) {
		return nil, access.ErrNoToken(in.ID)
	}
	return nil, s.Access.RevokeToken(ctx, author(ctx, "revoked"), in.ID)
}
