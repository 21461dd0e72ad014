package client

import (
	"context"
	"net/http"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Access are the operations on sessions, users and their tokens.
type Access struct{ c *connection }

// Login opens a session; the client uses its token from now on.
func (a Access) Login(ctx context.Context, user, password string) (v1.Session, error) {
	session, err := post[v1.Session](ctx, a.c, "/login", v1.Login{User: user, Password: password})
	if err == nil {
		a.c.token = session.Token
	}
	return session, err
}

// Logout ends the session.
func (a Access) Logout(ctx context.Context) error {
	return do(ctx, a.c, http.MethodPost, "/logout", nil, nil)
}

// WhoAmI returns the caller's name and rights.
func (a Access) WhoAmI(ctx context.Context) (v1.Caller, error) {
	return get[v1.Caller](ctx, a.c, "/me", nil)
}

// CreateToken makes an API token. No later answer holds its secret.
func (a Access) CreateToken(ctx context.Context, r v1.TokenRequest) (v1.Token, error) {
	return post[v1.Token](ctx, a.c, "/tokens", r)
}

// Tokens returns API tokens and sessions.
func (a Access) Tokens(ctx context.Context, narrow ...v1.Narrow) (v1.TokenList, error) {
	return get[v1.TokenList](ctx, a.c, "/tokens", narrowed(nil, narrow))
}

// RevokeToken revokes an API token or session.
func (a Access) RevokeToken(ctx context.Context, id string) error {
	return do(ctx, a.c, http.MethodDelete, "/tokens/"+id, nil, nil)
}

// Users returns users.
func (a Access) Users(ctx context.Context, narrow ...v1.Narrow) (v1.UserList, error) {
	return get[v1.UserList](ctx, a.c, "/users", narrowed(nil, narrow))
}

// CreateUser makes a user. No later answer holds a password that the server made.
func (a Access) CreateUser(ctx context.Context, r v1.UserRequest) (v1.User, error) {
	return post[v1.User](ctx, a.c, "/users", r)
}

// GrantUser replaces the rights of a user.
func (a Access) GrantUser(ctx context.Context, name string, g v1.UserGrants) (v1.User, error) {
	return request[v1.User](ctx, a.c, http.MethodPut, "/users/"+name+"/grants", nil, g)
}

// DeleteUser deletes a user with all sessions and tokens, and returns the user.
func (a Access) DeleteUser(ctx context.Context, name string) (v1.User, error) {
	return request[v1.User](ctx, a.c, http.MethodDelete, "/users/"+name, nil, nil)
}

// ChangePassword changes the caller's password.
func (a Access) ChangePassword(ctx context.Context, r v1.PasswordChange) error {
	return do(ctx, a.c, http.MethodPost, "/me/password", nil, r)
}

// Enrolment are the operations on join tokens and on machines that ask to join without one.
type Enrolment struct{ c *connection }

// CreateToken makes a join token.
func (e Enrolment) CreateToken(ctx context.Context, r v1.JoinTokenRequest) (v1.JoinToken, error) {
	return post[v1.JoinToken](ctx, e.c, "/jointokens", r)
}

// Tokens returns join tokens.
func (e Enrolment) Tokens(ctx context.Context, narrow ...v1.Narrow) (v1.JoinTokenList, error) {
	return get[v1.JoinTokenList](ctx, e.c, "/jointokens", narrowed(nil, narrow))
}

// DeleteToken deletes a join token; nodes that joined with it stay.
func (e Enrolment) DeleteToken(ctx context.Context, id string) error {
	return do(ctx, e.c, http.MethodDelete, "/jointokens/"+id, nil, nil)
}

// Pending returns machines that asked to join without a token.
func (e Enrolment) Pending(ctx context.Context, narrow ...v1.Narrow) (v1.PendingList, error) {
	return get[v1.PendingList](ctx, e.c, "/pending", narrowed(nil, narrow))
}

// Accept makes a pending machine a node.
func (e Enrolment) Accept(ctx context.Context, r v1.PendingAccept) (v1.Member, error) {
	return post[v1.Member](ctx, e.c, "/pending/accept", r)
}

// AcceptReturning accepts all pending machines with a certificate of this server.
func (e Enrolment) AcceptReturning(ctx context.Context, r v1.PendingReturning) (v1.Returned, error) {
	return post[v1.Returned](ctx, e.c, "/pending/accept-returning", r)
}

// Refuse refuses a pending machine and its key for good.
func (e Enrolment) Refuse(ctx context.Context, r v1.PendingRefuse) (v1.Member, error) {
	return post[v1.Member](ctx, e.c, "/pending/refuse", r)
}

// Authority returns the server's CA and its addresses for agents.
func (e Enrolment) Authority(ctx context.Context) (v1.Authority, error) {
	return get[v1.Authority](ctx, e.c, "/ca", nil)
}
