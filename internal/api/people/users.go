package people

import (
	"context"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// ownPassword is the path where every user changes the own password.
const ownPassword = "/api/v1/me/password"

func registerUsers(at subject) {
	op.Handle(at, op.Get("listUsers", "/api/v1/users", "auth", "List users; a viewer sees the own name"), access.ByAnybody("user"), (*request).listUsers)
	op.Handle(at, op.Post("createUser", "/api/v1/users", "auth", "Make a user; a password that the server made is shown once"), access.OnCluster(access.Change, "user"), (*request).createUser)
	op.Handle(at, op.Put("grantUser", "/api/v1/users/{name}/grants", "auth", "Replace the role of a user, and the bindings to namespaces; tokens that permit more end", model.Conflict), access.OnCluster(access.Change, "user"), (*request).grantUser)
	op.Handle(at, op.Delete("deleteUser", "/api/v1/users/{name}", "auth", "End a user, with all sessions and tokens; the answer is who it was"), access.OnCluster(access.Change, "user"), (*request).deleteUser)
	op.Handle(at, op.Post("changePassword", ownPassword, "auth", "Change the own password; the caller's other sessions end"), access.ByAnybody("user"), (*request).changePassword)
}

func (s *request) listUsers(ctx context.Context, in *list.Where) (*op.Body[v1.UserList], error) {
	c := access.CallerOf(ctx)
	items := []v1.User{}
	for _, u := range s.Access.Users() {
		if c.MayEverywhere(access.Change) || u.Name == c.User {
			items = append(items, userOf(u))
		}
	}
	items, err := list.Matching(s.View, *in, items)
	if err != nil {
		return nil, err
	}
	return op.Answer(v1.UserList{Items: items}), nil
}

func userOf(u access.User) v1.User {
	return v1.User{Name: u.Name, Role: u.Role, Run: u.Run, Bindings: u.Bindings, Namespaces: u.Namespaces, Created: u.Created, Sessions: u.Sessions, Tokens: u.Tokens}
}

func (s *request) createUser(ctx context.Context, in *struct{ Body v1.UserRequest }) (*op.Body[v1.User], error) {
	r := in.Body
	g := grantsOf(r.UserGrants)
	if g.Role == "" && len(g.Bindings) == 0 {
		g.Role = access.Viewer
	}
	if err := mayGive(ctx, &g); err != nil {
		return nil, err
	}
	password, err := s.Access.CreateUser(ctx, access.Author(ctx, "role "+g.String()), access.User{Name: r.Name, Grants: g}, r.Password)
	if err != nil {
		return nil, err
	}
	out := userOf(access.User{Name: r.Name, Grants: g, Created: s.Now().UTC()})
	if r.Password == "" {
		out.Password = password
	}
	return op.Answer(out), nil
}

func grantsOf(g v1.UserGrants) access.Grants {
	return access.Grants{Role: g.Role, Run: g.Run, Bindings: g.Bindings, Namespaces: g.Namespaces}
}

// grantUser replaces the grants of a user. No caller gives more rights than the own.
func (s *request) grantUser(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"253"`
	Body v1.UserGrants
}) (*op.Body[v1.User], error) {
	g := grantsOf(in.Body)
	if err := mayGive(ctx, &g); err != nil {
		return nil, err
	}
	u, err := s.Access.Grant(ctx, access.Author(ctx, "role "+g.String()), in.Name, g)
	if err != nil {
		return nil, err
	}
	return op.Answer(userOf(u)), nil
}

func (s *request) deleteUser(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"253"`
}) (*op.Body[v1.User], error) {
	u, err := s.Access.DeleteUser(ctx, access.Author(ctx, "user deleted"), in.Name)
	if err != nil {
		return nil, err
	}
	return op.Answer(userOf(u)), nil
}

// changePassword is throttled like a login, because its answer reveals whether a password is right.
func (s *request) changePassword(ctx context.Context, in *struct{ Body v1.PasswordChange }) (*op.Empty, error) {
	c := access.CallerOf(ctx)
	if !s.passwords.Allow(c.Address) {
		s.CountRefusal("login_rate")
		return nil, model.Errorf(model.Limited, "too many passwords from %s", c.Address).WithHint("wait a minute")
	}
	leave, ok := s.logins.Enter(ctx)
	if !ok {
		s.CountRefusal("login_queue")
		return nil, model.Errorf(model.Unavailable, "too many others log in now").WithHint("try again in a moment")
	}
	defer leave()
	return nil, s.Access.ChangePassword(ctx, access.Author(ctx, "own password"), c.Token, in.Body.Old, in.Body.New)
}
