package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/version"
)

// Status says whether all is well.
func (c *Client) Status(ctx context.Context, namespace string) (v1.Status, error) {
	return get[v1.Status](ctx, c, "/api/v1/status", queryOf("namespace", namespace))
}

// Version is the server's.
func (c *Client) Version(ctx context.Context) (version.Info, error) {
	return get[version.Info](ctx, c, "/api/v1/version", nil)
}

// Queues lists the server's bounded queues.
func (c *Client) Queues(ctx context.Context, narrow ...v1.Narrow) (v1.QueueList, error) {
	return get[v1.QueueList](ctx, c, "/api/v1/queues", narrowed(url.Values{}, narrow))
}

// Login opens a session; the client uses it from now on.
func (c *Client) Login(ctx context.Context, user, password string) (v1.Session, error) {
	var out v1.Session
	_, err := c.call(ctx, http.MethodPost, "/api/v1/login", nil, nil, v1.Login{User: user, Password: password}, &out)
	if err == nil {
		c.token = out.Token
	}
	return out, err
}

// Logout ends the session.
func (c *Client) Logout(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodPost, "/api/v1/logout", nil, nil, nil, nil)
	return err
}

// Me says who we are.
func (c *Client) Me(ctx context.Context) (v1.Me, error) {
	return get[v1.Me](ctx, c, "/api/v1/me", nil)
}

// CreateToken makes an API token; its secret is in the answer and nowhere else.
func (c *Client) CreateToken(ctx context.Context, r v1.TokenRequest) (v1.Token, error) {
	return post[v1.Token](ctx, c, "/api/v1/tokens", r)
}

// Tokens lists API tokens.
func (c *Client) Tokens(ctx context.Context, narrow ...v1.Narrow) (v1.TokenList, error) {
	return get[v1.TokenList](ctx, c, "/api/v1/tokens", narrowed(url.Values{}, narrow))
}

// RevokeToken ends an API token.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, "/api/v1/tokens/"+id, nil, nil, nil, nil)
	return err
}

// Users lists users.
func (c *Client) Users(ctx context.Context, narrow ...v1.Narrow) (v1.UserList, error) {
	return get[v1.UserList](ctx, c, "/api/v1/users", narrowed(url.Values{}, narrow))
}

// CreateUser makes a user; a password that the server made is in the answer and nowhere else.
func (c *Client) CreateUser(ctx context.Context, r v1.UserRequest) (v1.User, error) {
	return post[v1.User](ctx, c, "/api/v1/users", r)
}

// GrantUser replaces the grants of a user.
func (c *Client) GrantUser(ctx context.Context, name string, g v1.UserGrants) (v1.User, error) {
	return ask[v1.User](ctx, c, http.MethodPut, "/api/v1/users/"+name+"/grants", nil, g)
}

// DeleteUser ends a user with all sessions and tokens, and says who it was.
func (c *Client) DeleteUser(ctx context.Context, name string) (v1.User, error) {
	return ask[v1.User](ctx, c, http.MethodDelete, "/api/v1/users/"+name, nil, nil)
}

// ChangePassword changes our own.
func (c *Client) ChangePassword(ctx context.Context, r v1.PasswordChange) error {
	_, err := c.call(ctx, http.MethodPost, "/api/v1/me/password", nil, nil, r, nil)
	return err
}

// CreateJoinToken makes a token with which machines join.
func (c *Client) CreateJoinToken(ctx context.Context, r v1.JoinTokenRequest) (v1.JoinToken, error) {
	return post[v1.JoinToken](ctx, c, "/api/v1/jointokens", r)
}

// JoinTokens lists them.
func (c *Client) JoinTokens(ctx context.Context, narrow ...v1.Narrow) (v1.JoinTokenList, error) {
	return get[v1.JoinTokenList](ctx, c, "/api/v1/jointokens", narrowed(url.Values{}, narrow))
}

// DeleteJoinToken ends one; nodes that joined with it stay.
func (c *Client) DeleteJoinToken(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, "/api/v1/jointokens/"+id, nil, nil, nil, nil)
	return err
}
