// Package people answers about users, logins and tokens.
//
// Nobody gives rights that they do not have. Passwords are expensive to check and are guessed, so
// logins are throttled by the address of the caller and bounded as a whole.
//
// Start reading at Register.
package people

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// accountRequest handles an HTTP request about users, logins or tokens. Its methods are the operations of the API.
type accountRequest struct {
	op.Request
	passwordAttempts *authlimit.Limiter // throttles passwords by network
	loginLimiter     *op.RequestLimiter // a password takes 19 MiB and some 20 ms to check
	joinTokens       intent.JoinTokens
}

// Register adds the API operations about users, logins and tokens to the server.
func Register(r *op.Routes, tokens intent.JoinTokens) {
	passwords := authlimit.New(r.View().Now)
	logins := op.NewRequestLimiter(r, "logins", "login_queue", model.Errorf(model.Unavailable, "too many logins are in progress").WithHint("try again in a moment; tokens still work"))
	at := op.NewOperationSet(r, func(q op.Request) *accountRequest { return &accountRequest{q, passwords, logins, tokens} })
	login := op.Post("login", "/api/v1/login", "auth", "Log in", model.Limited)
	login.Security = []map[string][]string{{}}
	login.MaxBodyBytes = 16 << 10 // logins need no token, so anybody may send a body
	op.Handle(at, login, access.NeedNoToken("session"), (*accountRequest).login)
	op.Handle(at, op.Post("logout", "/api/v1/logout", "auth", "Log out: delete the session or token of this request"), access.NeedAnybody("session"), (*accountRequest).logout)
	op.Handle(at, op.Get("me", "/api/v1/me", "auth", "Get the caller's name and rights"), access.NeedAnybody("session"), (*accountRequest).showCaller)
	op.Handle(at, op.Get("listTokens", "/api/v1/tokens", "auth", "List API tokens and sessions"), access.NeedAnybody("token"), (*accountRequest).listTokens)
	op.Handle(at, op.Post("createToken", "/api/v1/tokens", "auth", "Create an API token; its secret is returned once"), access.NeedOn(access.Change, "token"), (*accountRequest).createToken)
	op.Handle(at, op.Delete("revokeToken", "/api/v1/tokens/{id}", "auth", "Delete an API token or session"), access.NeedOn(access.Change, "token"), (*accountRequest).revokeToken)
	op.Handle(at, op.Get("listUsers", "/api/v1/users", "auth", "List users; a viewer sees only the own one"), access.NeedAnybody("user"), (*accountRequest).listUsers)
	op.Handle(at, op.Post("createUser", "/api/v1/users", "auth", "Create a user; a generated password is returned once"), access.NeedOnCluster(access.Change, "user"), (*accountRequest).createUser)
	op.Handle(at, op.Put("grantUser", "/api/v1/users/{name}/grants", "auth", "Replace a user's role and bindings; tokens with more rights are deleted", model.Conflict), access.NeedOnCluster(access.Change, "user"), (*accountRequest).grantUser)
	op.Handle(at, op.Delete("deleteUser", "/api/v1/users/{name}", "auth", "Delete a user with all sessions and tokens; returns the user", model.Guarded), access.NeedOnCluster(access.Change, "user"), (*accountRequest).deleteUser)
	op.Handle(at, op.Post("changePassword", ownPasswordPath, "auth", "Change your password; your other sessions end"), access.NeedAnybody("user"), (*accountRequest).changePassword)
}

// limitPasswordAttempts runs a function that checks a password, unless too many checks run or have failed. If
// the caller's address sent too many wrong passwords, it returns an error instead. attempts is a word for the
// error: logins or passwords.
func (s *accountRequest) limitPasswordAttempts(ctx context.Context, attempts string, check func() error) error {
	address := access.CallerOf(ctx).Address
	leave, refusal := s.loginLimiter.Enter(ctx)
	if refusal != nil {
		return refusal
	}
	defer leave()
	release, _, err := s.passwordAttempts.Acquire(ctx, address)
	if err != nil {
		s.CountRefusal("login_rate")
		return model.Errorf(model.Limited, "too many wrong %s from %s", attempts, address).WithHint("wait half a minute; tokens still work")
	}
	err = check()
	release(model.ClassOf(err) == model.Unauthenticated || model.ClassOf(err) == model.Forbidden)
	return err
}

// ownPasswordPath is the path of the operation by which users change their own password.
const ownPasswordPath = "/api/v1/me/password"

// listUsers returns all users, or the caller alone unless the caller is an administrator.
func (s *accountRequest) listUsers(ctx context.Context, in *list.Where) (*op.Body[v1.UserList], error) {
	c := access.CallerOf(ctx)
	items := []v1.User{}
	for _, u := range s.Access.Users() {
		if c.MayEverywhere(access.Change) || u.Name == c.User {
			items = append(items, showUser(u))
		}
	}
	items, err := list.FilterRows(ctx, s.View, *in, items)
	return op.Answer(v1.UserList{Items: items}), err
}

// showUser converts a user to the API type User
func showUser(u access.User) v1.User {
	return v1.User{Name: u.Name, Role: u.Role, Run: u.Run, Bindings: u.Bindings, Namespaces: u.Namespaces, Created: u.Created, Sessions: u.Sessions, Tokens: u.Tokens}
}

// createUser creates a user whose rights do not exceed the caller's.
func (s *accountRequest) createUser(ctx context.Context, in *struct{ Body v1.UserRequest }) (*op.Body[v1.User], error) {
	r := in.Body
	g := convertGrants(r.UserGrants)
	if g.Role == "" && len(g.Bindings) == 0 {
		g.Role = access.Viewer
	}
	if err := checkGivenGrants(ctx, &g); err != nil {
		return nil, err
	}
	password, err := s.Access.CreateUser(ctx, access.AuthorOf(ctx, "role "+g.String()), access.User{Name: r.Name, Grants: g}, r.Password)
	if err != nil {
		return nil, err
	}
	out := showUser(access.User{Name: r.Name, Grants: g, Created: s.Now().UTC()})
	if r.Password == "" {
		out.Password = password
	}
	return op.Answer(out), nil
}

// convertGrants converts grants of the API type UserGrants to access.Grants
func convertGrants(g v1.UserGrants) access.Grants {
	return access.Grants{Role: g.Role, Run: g.Run, Bindings: g.Bindings, Namespaces: g.Namespaces}
}

// grantUser replaces the grants (roles and bindings) of a user. The caller cannot grant rights that the caller does
// not have.
func (s *accountRequest) grantUser(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"253"`
	Body v1.UserGrants
}) (*op.Body[v1.User], error) {
	g := convertGrants(in.Body)
	if err := checkGivenGrants(ctx, &g); err != nil {
		return nil, err
	}
	u, err := s.Access.Grant(ctx, access.AuthorOf(ctx, "role "+g.String()), in.Name, g)
	return op.Answer(showUser(u)), err
}

// deleteUser deletes a user. Tokens of other names that the user made end with the user, because their secrets are the
// user's: programs may depend on them, so that they need a confirmation.
func (s *accountRequest) deleteUser(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"253"`
	Yes  bool   `query:"yes" doc:"Confirms the end of tokens with other names that the user made."`
}) (*op.Body[v1.User], error) {
	var made []string
	for _, t := range s.Access.Tokens() {
		if t.Maker == in.Name && t.User != in.Name {
			made = append(made, fmt.Sprintf("token %s (%s, %s)", t.ID, t.User, &t.Grants))
		}
	}
	list, err := s.joinTokens.List(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(t pki.JoinToken) bool { return t.By != in.Name })
	for _, t := range list {
		made = append(made, fmt.Sprintf("join token %s", t.ID))
	}
	if len(made) > 0 && !in.Yes {
		return nil, model.Errorf(model.Guarded, "deleting user %s would also delete the tokens that %s created: %s", in.Name, in.Name, model.Shorten(strings.Join(made, ", "))).
			WithHint("replace the tokens that are in use, then: muster auth user delete %s --yes", in.Name)
	}
	for _, t := range list {
		if err := s.joinTokens.Delete(ctx, access.AuthorOf(ctx, "user "+in.Name+" deleted"), t.ID); err != nil && model.ClassOf(err) != model.NotFound {
			return nil, err
		}
	}
	u, err := s.Access.DeleteUser(ctx, access.AuthorOf(ctx, "user deleted"), in.Name)
	return op.Answer(showUser(u)), err
}

// changePassword changes the caller's own password after a check of the old password. That check is throttled like a
// login.
func (s *accountRequest) changePassword(ctx context.Context, in *struct{ Body v1.PasswordChange }) (*op.NoParameters, error) {
	return nil, s.limitPasswordAttempts(ctx, "passwords", func() error {
		return s.Access.ChangePassword(ctx, access.AuthorOf(ctx, "own password"), access.CallerOf(ctx).Token, in.Body.Old, in.Body.New)
	})
}

// checkGivenGrants returns an error if the grants for a user or token exceed the caller's own rights.
func checkGivenGrants(ctx context.Context, g *access.Grants) error {
	c := access.CallerOf(ctx)
	switch {
	case g.Run && !c.Run:
		return model.Errorf(model.Forbidden, "%s may not run commands and cannot grant that permission", c.User).
			WithHint("ask a user with this permission (muster auth user list), or on the server's machine: muster auth reset-password --data DIR --user %s --may-run-commands", c.User)
	case !g.CoveredBy(&c.Grants):
		return model.Errorf(model.Forbidden, "%s has the rights %s and cannot grant %s", c.User, &c.Grants, g)
	}
	return nil
}

// login checks user name and password and returns the token of a new session.
func (s *accountRequest) login(ctx context.Context, in *struct{ Body v1.Login }) (*op.Body[v1.Session], error) {
	whence := access.CallerOf(ctx).Address
	var out v1.Session
	err := s.limitPasswordAttempts(ctx, "logins", func() error {
		token, t, err := s.Access.Login(ctx, in.Body.User, in.Body.Password, whence)
		if err != nil {
			s.CountRefusal("password")
			s.Logger.Warn("login refused", "user", in.Body.User, "from", whence)
		}
		out = v1.Session{Token: token, User: t.User, Expires: t.Expires}
		return err
	})
	return op.Answer(out), err
}

// logout ends the caller's session.
func (s *accountRequest) logout(ctx context.Context, _ *op.NoParameters) (*op.NoParameters, error) {
	return nil, s.Access.RevokeToken(ctx, access.AuthorOf(ctx, "logout"), access.CallerOf(ctx).Token)
}

// showCaller returns the caller's name and rights, for muster whoami.
func (s *accountRequest) showCaller(ctx context.Context, _ *op.NoParameters) (*op.Body[v1.Caller], error) {
	c := access.CallerOf(ctx)
	return op.Answer(v1.Caller{User: c.User, Role: c.Role, Run: c.Run, Bindings: c.Bindings, Token: c.Token}), nil
}

// listTokens returns all API tokens, or the caller's own unless the caller is an administrator.
func (s *accountRequest) listTokens(ctx context.Context, in *list.Where) (*op.Body[v1.TokenList], error) {
	c := access.CallerOf(ctx)
	items := []v1.Token{}
	for _, t := range s.Access.Tokens() {
		if c.MayEverywhere(access.Change) || t.User == c.User {
			items = append(items, showToken(t))
		}
	}
	items, err := list.FilterRows(ctx, s.View, *in, items)
	return op.Answer(v1.TokenList{Items: items}), err
}

// showToken converts a token to the API type Token
func showToken(t access.AccessToken) v1.Token {
	return v1.Token{ID: t.ID, User: t.User, Maker: t.Maker, Role: t.Role, Run: t.Run, Bindings: t.Bindings, Session: t.Session, Note: t.Note, Created: t.Created, Expires: t.Expires, Namespaces: t.Namespaces}
}

// createToken creates an API token whose rights do not exceed the caller's.
func (s *accountRequest) createToken(ctx context.Context, in *struct{ Body v1.TokenRequest }) (*op.Body[v1.Token], error) {
	t := access.AccessToken{User: in.Body.User, Note: in.Body.Note, Grants: access.Grants{Role: in.Body.Role, Namespaces: in.Body.Namespaces, Run: in.Body.Run}}
	c := access.CallerOf(ctx)
	t.User, t.Maker, t.Grants.Bindings = cmp.Or(t.User, c.User), c.Owner(), in.Body.Bindings
	if t.Role == "" && len(t.Bindings) == 0 {
		viewer := c.ViewerGrants()
		t.Grants.Role, t.Grants.Bindings = viewer.Role, viewer.Bindings
	}
	if t.User != c.User && !c.MayEverywhere(access.Change) {
		return nil, model.Errorf(model.Forbidden, "%s has roles in single namespaces only, and can only create tokens with its own name", c.User).WithHint("omit the user")
	}
	if t.User != c.User && t.User != c.Owner() && slices.ContainsFunc(s.Access.Users(), func(u access.User) bool { return u.Name == t.User }) {
		return nil, model.Errorf(model.Forbidden, "%s is another user: a token with that name would falsify the audit log", t.User).WithHint("choose the name of the program")
	}
	if err := model.NoteError(in.Body.Note + in.Body.NeverExpires); err != nil {
		return nil, err
	}
	switch never := strings.TrimSpace(in.Body.NeverExpires); {
	case never != "" && in.Body.ExpiresIn > 0:
		return nil, model.Errorf(model.Invalid, "set either expiresInSeconds or neverExpires, not both").WithHint("keep one")
	case never != "":
		t.Note = strings.TrimSuffix("never expires: "+never+"; "+t.Note, "; ")
	default:
		t.Expires = s.Now().Add(cmp.Or(time.Duration(in.Body.ExpiresIn)*time.Second, access.TokenLifetime)).UTC()
	}
	if err := checkGivenGrants(ctx, &t.Grants); err != nil {
		return nil, err
	}
	secret, made, err := s.Access.CreateToken(ctx, access.AuthorOf(ctx, in.Body.Note), t)
	if err != nil {
		return nil, err
	}
	out := showToken(made)
	out.Secret = secret
	return op.Answer(out), nil
}

// revokeToken deletes a token or session. A caller that is bound to namespaces ends only tokens with its own name.
func (s *accountRequest) revokeToken(ctx context.Context, in *op.IDPath) (*op.NoParameters, error) {
	c := access.CallerOf(ctx)
	own := func(t access.AccessToken) bool { return t.ID == in.ID && t.User == c.User }
	if !c.MayEverywhere(access.Change) && !slices.ContainsFunc(s.Access.Tokens(), own) {
		return nil, access.ErrNoToken(in.ID)
	}
	return nil, s.Access.RevokeToken(ctx, access.AuthorOf(ctx, "revoked"), in.ID)
}
