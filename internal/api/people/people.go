// Package people answers about users, logins and tokens.
//
// Nobody gives rights that they do not have. Passwords are expensive to check and are guessed, so
// logins are throttled by the address of the caller and bounded as a whole.
//
// Start reading at Register.
package people

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/tries"
)

// accountRequest is one API request about users, logins and tokens.
type accountRequest struct {
	op.Request
	passwordAttempts *tries.Limiter // throttles passwords by network
	loginTurns       *op.Turns      // a password takes 19 MiB and some 20 ms to check
}

// Register adds the operations about users, logins and tokens.
func Register(r *op.Routes) {
	passwords := tries.New(r.View().Now)
	logins := op.NewTurns(r, "logins", "login_queue", model.Errorf(model.Unavailable, "too many logins are in progress").WithHint("try again in a moment; tokens still work"))
	at := op.NewOperationSet(r, func(q op.Request) *accountRequest { return &accountRequest{q, passwords, logins} })
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
	op.Handle(at, op.Delete("deleteUser", "/api/v1/users/{name}", "auth", "Delete a user with all sessions and tokens; returns the user"), access.NeedOnCluster(access.Change, "user"), (*accountRequest).deleteUser)
	op.Handle(at, op.Post("changePassword", ownPasswordPath, "auth", "Change your password; your other sessions end"), access.NeedAnybody("user"), (*accountRequest).changePassword)
}

// limitPasswordAttempts calls check, which compares a password, unless the caller's address has sent too many wrong passwords.
// attempts is a word for the error: logins or passwords.
func (s *accountRequest) limitPasswordAttempts(ctx context.Context, attempts string, check func() error) error {
	address := access.CallerOf(ctx).Address
	if !s.passwordAttempts.Allow(address) {
		s.CountRefusal("login_rate")
		return model.Errorf(model.Limited, "too many %s from %s", attempts, address).WithHint("wait a minute")
	}
	leave, refusal := s.loginTurns.Enter(ctx)
	if refusal != nil {
		return refusal
	}
	defer leave()
	return check()
}

// ownPasswordPath is the path of the operation by which users change their own password.
const ownPasswordPath = "/api/v1/me/password"

func (s *accountRequest) listUsers(ctx context.Context, in *list.Where) (*op.Body[v1.UserList], error) {
	c := access.CallerOf(ctx)
	items := []v1.User{}
	for _, u := range s.Access.Users() {
		if c.MayEverywhere(access.Change) || u.Name == c.User {
			items = append(items, showUser(u))
		}
	}
	items, err := list.FilterRows(s.View, *in, items)
	return op.Answer(v1.UserList{Items: items}), err
}

func showUser(u access.User) v1.User {
	return v1.User{Name: u.Name, Role: u.Role, Run: u.Run, Bindings: u.Bindings, Namespaces: u.Namespaces, Created: u.Created, Sessions: u.Sessions, Tokens: u.Tokens}
}

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

func convertGrants(g v1.UserGrants) access.Grants {
	return access.Grants{Role: g.Role, Run: g.Run, Bindings: g.Bindings, Namespaces: g.Namespaces}
}

// grantUser replaces the grants of a user. The caller cannot grant rights that the caller does not have.
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

func (s *accountRequest) deleteUser(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"253"`
}) (*op.Body[v1.User], error) {
	u, err := s.Access.DeleteUser(ctx, access.AuthorOf(ctx, "user deleted"), in.Name)
	return op.Answer(showUser(u)), err
}

// changePassword is throttled like a login, because its answer reveals whether a password is right.
func (s *accountRequest) changePassword(ctx context.Context, in *struct{ Body v1.PasswordChange }) (*op.NoParameters, error) {
	return nil, s.limitPasswordAttempts(ctx, "passwords", func() error {
		return s.Access.ChangePassword(ctx, access.AuthorOf(ctx, "own password"), access.CallerOf(ctx).Token, in.Body.Old, in.Body.New)
	})
}

// checkGivenGrants refuses to give rights that the caller does not have.
func checkGivenGrants(ctx context.Context, g *access.Grants) error {
	c := access.CallerOf(ctx)
	switch {
	case g.Run && !c.Run:
		return model.Errorf(model.Forbidden, "%s may not run commands and cannot grant that right", c.User).
			WithHint("ask a user who may (muster auth user list), or on the server's machine: muster auth reset-password --data DIR --user %s --may-run-commands", c.User)
	case !g.CoveredBy(&c.Grants):
		return model.Errorf(model.Forbidden, "%s has %s and cannot grant %s", c.User, &c.Grants, g)
	}
	return nil
}

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

func (s *accountRequest) logout(ctx context.Context, _ *op.NoParameters) (*op.NoParameters, error) {
	return nil, s.Access.RevokeToken(ctx, access.AuthorOf(ctx, "logout"), access.CallerOf(ctx).Token)
}

func (s *accountRequest) showCaller(ctx context.Context, _ *op.NoParameters) (*op.Body[v1.Caller], error) {
	c := access.CallerOf(ctx)
	return op.Answer(v1.Caller{User: c.User, Role: c.Role, Run: c.Run, Bindings: c.Bindings, Token: c.Token}), nil
}

func (s *accountRequest) listTokens(ctx context.Context, in *list.Where) (*op.Body[v1.TokenList], error) {
	c := access.CallerOf(ctx)
	items := []v1.Token{}
	for _, t := range s.Access.Tokens() {
		if c.MayEverywhere(access.Change) || t.User == c.User {
			items = append(items, showToken(t))
		}
	}
	items, err := list.FilterRows(s.View, *in, items)
	return op.Answer(v1.TokenList{Items: items}), err
}

func showToken(t access.AccessToken) v1.Token {
	return v1.Token{ID: t.ID, User: t.User, Role: t.Role, Run: t.Run, Bindings: t.Bindings, Session: t.Session, Note: t.Note, Created: t.Created, Expires: t.Expires, Namespaces: t.Namespaces}
}

func (s *accountRequest) createToken(ctx context.Context, in *struct{ Body v1.TokenRequest }) (*op.Body[v1.Token], error) {
	t := access.AccessToken{User: in.Body.User, Note: in.Body.Note, Grants: access.Grants{Role: in.Body.Role, Namespaces: in.Body.Namespaces, Run: in.Body.Run}}
	if t.User == "" {
		t.User = access.CallerOf(ctx).User
	}
	t.Grants.Bindings = in.Body.Bindings
	c := access.CallerOf(ctx)
	if t.Role == "" && len(t.Bindings) == 0 {
		viewer := c.ViewerGrants()
		t.Grants.Role, t.Grants.Bindings = viewer.Role, viewer.Bindings
	}
	if t.User != c.User && !c.MayEverywhere(access.Change) {
		return nil, model.Errorf(model.Forbidden, "%s is bound to namespaces and can only create tokens of its own name", c.User).WithHint("omit the user")
	}
	if in.Body.ExpiresIn > 0 {
		t.Expires = s.Now().Add(time.Duration(in.Body.ExpiresIn) * time.Second).UTC()
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

// revokeToken ends any token. A caller that is bound to namespaces ends only tokens with its own name.
func (s *accountRequest) revokeToken(ctx context.Context, in *op.IDPath) (*op.NoParameters, error) {
	c := access.CallerOf(ctx)
	own := func(t access.AccessToken) bool { return t.ID == in.ID && t.User == c.User }
	if !c.MayEverywhere(access.Change) && !slices.ContainsFunc(s.Access.Tokens(), own) {
		return nil, access.ErrNoToken(in.ID)
	}
	return nil, s.Access.RevokeToken(ctx, access.AuthorOf(ctx, "revoked"), in.ID)
}
