package api

import (
	"context"
	"net/http"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// ownPassword is the path by which every user, whatever the role, changes the own one.
const ownPassword = "/api/v1/me/password"

func (s *server) userRoutes() {
	handle(s, operation("listUsers", http.MethodGet, "/api/v1/users", "auth", "List users; a viewer sees the own name"), access.ByAnybody("user"), (*server).listUsers)
	handle(s, operation("createUser", http.MethodPost, "/api/v1/users", "auth", "Make a user; a password that the server made is shown once"), access.OnCluster(access.Change, "user"), (*server).createUser)
	handle(s, withErrors(operation("grantUser", http.MethodPut, "/api/v1/users/{name}/grants", "auth", "Replace the role of a user, and the bindings to namespaces; tokens that permit more end"), model.Conflict), access.OnCluster(access.Change, "user"), (*server).grantUser)
	handle(s, operation("deleteUser", http.MethodDelete, "/api/v1/users/{name}", "auth", "End a user, with all sessions and tokens; the answer is who it was"), access.OnCluster(access.Change, "user"), (*server).deleteUser)
	handle(s, operation("changePassword", http.MethodPost, ownPassword, "auth", "Change the own password; the caller's other sessions end"), access.ByAnybody("user"), (*server).changePassword)
}

func (s *server) listUsers(ctx context.Context, in *WhereInput) (*body[v1.UserList], error) {
	c := callerOf(ctx)
	items := []v1.User{}
	for _, u := range s.Access.Users() {
		if c.MayEverywhere(access.Change) || u.Name == c.User {
			items = append(items, userOf(u))
		}
	}
	items, err := theseRows(s, *in, items)
	if err != nil {
		return nil, err
	}
	return &body[v1.UserList]{v1.UserList{Items: items}}, nil
}

func userOf(u access.User) v1.User {
	return v1.User{Name: u.Name, Role: u.Role, Run: u.Run, Bindings: u.Bindings, Namespaces: u.Namespaces, Created: u.Created, Sessions: u.Sessions, Tokens: u.Tokens}
}

func (s *server) createUser(ctx context.Context, in *struct{ Body v1.UserRequest }) (*body[v1.User], error) {
	r := in.Body
	g := grantsOf(r.UserGrants)
	if g.Role == "" && len(g.Bindings) == 0 {
		g.Role = access.Viewer
	}
	if err := mayGive(ctx, &g); err != nil {
		return nil, err
	}
	password, err := s.Access.CreateUser(ctx, author(ctx, "role "+g.String()), access.User{Name: r.Name, Grants: g}, r.Password)
	if err != nil {
		return nil, err
	}
	out := userOf(access.User{Name: r.Name, Grants: g, Created: s.Now().UTC()})
	if r.Password == "" {
		out.Password = password
	}
	return &body[v1.User]{out}, nil
}

func grantsOf(g v1.UserGrants) access.Grants {
	return access.Grants{Role: g.Role, Run: g.Run, Bindings: g.Bindings, Namespaces: g.Namespaces}
}

// grantUser replaces the grants of a user. Nobody gives, or leaves to others, more than they have.
func (s *server) grantUser(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"253"`
	Body v1.UserGrants
}) (*body[v1.User], error) {
	g := grantsOf(in.Body)
	if err := mayGive(ctx, &g); err != nil {
		return nil, err
	}
	u, err := s.Access.Grant(ctx, author(ctx, "role "+g.String()), in.Name, g)
	if err != nil {
		return nil, err
	}
	return &body[v1.User]{userOf(u)}, nil
}

func (s *server) deleteUser(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"253"`
}) (*body[v1.User], error) {
	u, err := s.Access.DeleteUser(ctx, author(ctx, "user deleted"), in.Name)
	if err != nil {
		return nil, err
	}
	return &body[v1.User]{userOf(u)}, nil
}

// changePassword counts as a login: it tells whether a password is right.
func (s *server) changePassword(ctx context.Context, in *struct{ Body v1.PasswordChange }) (*none, error) {
	c := callerOf(ctx)
	if !s.tries.Allow(c.whence) {
		s.metrics.refused.WithLabelValues("login_rate").Inc()
		return nil, model.Errorf(model.Limited, "too many passwords from %s", c.whence).WithHint("wait a minute")
	}
	leave, ok := s.logins.enter(ctx)
	if !ok {
		s.metrics.refused.WithLabelValues("login_queue").Inc()
		return nil, model.Errorf(model.Unavailable, "too many others log in now").WithHint("try again in a moment")
	}
	defer leave()
	return nil, s.Access.ChangePassword(ctx, author(ctx, "own password"), c.Token, in.Body.Old, in.Body.New)
}
