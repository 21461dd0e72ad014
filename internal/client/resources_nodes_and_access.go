package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Resources has the operations on declared resources, their changes and archives.
type Resources struct{ c *connection }

// resourcePath returns the API path of a resource. For an empty name it is the path of the resource's kind.
func resourcePath(k model.KindInfo, namespace, name string) string {
	path := "/" + k.Plural
	if name == "" {
		return path
	}
	if k.Namespaced {
		path += escapePath(namespace)
	}
	return path + escapePath(name)
}

// Apply declares resources in one transaction, all or none
func (r Resources) Apply(ctx context.Context, in v1.ApplyRequest) (v1.Applied, error) {
	return postJSON[v1.Applied](ctx, r.c, "/apply", in)
}

// Get returns one resource as JSON, and its ETag.
func (r Resources) Get(ctx context.Context, k model.KindInfo, namespace, name string) (json.RawMessage, string, error) {
	var out json.RawMessage
	header, err := r.c.exchangeJSON(ctx, http.MethodGet, resourcePath(k, namespace, name), nil, nil, nil, &out)
	return out, header.Get("ETag"), err
}

// State returns the nodes to which a resource applies, with the status of their events.
func (r Resources) State(ctx context.Context, k model.KindInfo, namespace, name string) (v1.State, error) {
	return getJSON[v1.State](ctx, r.c, resourcePath(k, namespace, name)+"/state", nil)
}

// List returns a page of the declared resources of one kind, such as Check. An empty namespace means all. If
// state is true, the page also holds the state of each resource.
func (r Resources) List(ctx context.Context, k model.KindInfo, namespace string, f v1.ResourceFilter, state bool, limit int, after string) (v1.ResourceList, error) {
	return getJSON[v1.ResourceList](ctx, r.c, resourcePath(k, "", ""), buildQuery(f, "namespace", namespace, "state", state, "after", after, "limit", limit))
}

// Put replaces one resource if its ETag (version on the server) is unchanged. An empty ETag replaces any
// revision.
func (r Resources) Put(ctx context.Context, k model.KindInfo, namespace, name string, body json.RawMessage, etag string, o v1.ChangeOptions) (v1.Applied, error) {
	return r.changeResource(ctx, http.MethodPut, resourcePath(k, namespace, name), body, etag, o)
}

// Delete deletes a resource if its ETag (version on the server) is unchanged. An empty ETag deletes any
// revision.
func (r Resources) Delete(ctx context.Context, k model.KindInfo, namespace, name, etag string, o v1.ChangeOptions) (v1.Applied, error) {
	return r.changeResource(ctx, http.MethodDelete, resourcePath(k, namespace, name), nil, etag, o)
}

// changeResource sends a PUT or DELETE of one resource with its ETag.
func (r Resources) changeResource(ctx context.Context, method, path string, body json.RawMessage, etag string, o v1.ChangeOptions) (out v1.Applied, err error) {
	var header http.Header
	if etag != "" {
		header = http.Header{"If-Match": {etag}}
	}
	var in any
	if body != nil {
		in = body
	}
	_, err = r.c.exchangeJSON(ctx, method, path, buildQuery(o), header, in, &out)
	return out, err
}

// DeleteMany deletes resources, all or none.
func (r Resources) DeleteMany(ctx context.Context, in v1.DeleteRequest) (v1.Applied, error) {
	return postJSON[v1.Applied](ctx, r.c, "/delete", in)
}

// Changes returns a page of the audit log of changes, newest first.
func (r Resources) Changes(ctx context.Context, kind, namespace, name string, limit int, after string, narrow ...v1.RowFilter) (v1.ChangeList, error) {
	query := buildQuery("limit", limit, "kind", kind, "namespace", namespace, "name", name, "after", after, narrow)
	return getJSON[v1.ChangeList](ctx, r.c, "/changes", query)
}

// Archive tells whether the server has the archive of an Asset, and in which state.
func (r Resources) Archive(ctx context.Context, sha512 string) (v1.Archive, error) {
	return getJSON[v1.Archive](ctx, r.c, escapePath("archives", sha512), nil)
}

// PutArchive uploads the archive of an Asset, identified by its SHA-512
func (r Resources) PutArchive(ctx context.Context, sha512 string, archive io.Reader) error {
	answer, err := r.c.sendRequest(ctx, http.MethodPut, escapePath("archives", sha512), nil, nil, archive)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Nodes has the operations on nodes and their agents.
type Nodes struct{ c *connection }

// nodePath returns the API path of a node.
func nodePath(namespace, name string) string { return escapePath("nodes", namespace, name) }

// States returns nodes with their agents' connections and their events, nodes with the worst status first.
func (n Nodes) States(ctx context.Context, f v1.NodeFilter) (v1.NodeStateList, error) {
	return getJSON[v1.NodeStateList](ctx, n.c, "/nodestates", buildQuery(f))
}

// Agents returns a page of agents, the oldest version first.
func (n Nodes) Agents(ctx context.Context, f v1.AgentFilter) (v1.AgentList, error) {
	return getJSON[v1.AgentList](ctx, n.c, "/agents", buildQuery(f))
}

// Rename renames a node.
func (n Nodes) Rename(ctx context.Context, namespace, name string, r v1.NodeRename) (v1.Applied, error) {
	return postJSON[v1.Applied](ctx, n.c, nodePath(namespace, name)+"/rename", r)
}

// Replace returns a join token with which another machine takes over the identity of a node.
func (n Nodes) Replace(ctx context.Context, namespace, name string, r v1.NodeReplace) (v1.JoinToken, error) {
	return postJSON[v1.JoinToken](ctx, n.c, nodePath(namespace, name)+"/replace", r)
}

// Retire retires nodes, all or none.
func (n Nodes) Retire(ctx context.Context, r v1.NodeRetire) (v1.Applied, error) {
	return postJSON[v1.Applied](ctx, n.c, "/retire", r)
}

// Inventory returns the inventory (hardware and software) of a node, or one section of the inventory. With a
// time `since`, it returns the changes after that time.
func (n Nodes) Inventory(ctx context.Context, namespace, name, section string, since time.Time, narrow ...v1.RowFilter) (v1.Inventory, error) {
	return getJSON[v1.Inventory](ctx, n.c, nodePath(namespace, name)+"/inventory", buildQuery("section", section, "since", since, narrow))
}

// CollectInventory asks the agent of a node to collect its inventory now.
func (n Nodes) CollectInventory(ctx context.Context, namespace, name string) error {
	return requestWithoutAnswer(ctx, n.c, http.MethodPost, nodePath(namespace, name)+"/inventory", nil, nil)
}

// Tombstones returns up to `limit` records (tombstones) of retired, replaced and refused machines, newest first
func (n Nodes) Tombstones(ctx context.Context, limit int, narrow ...v1.RowFilter) (v1.TombstoneList, error) {
	return getJSON[v1.TombstoneList](ctx, n.c, "/tombstones", buildQuery("limit", limit, narrow))
}

// DeleteTombstone deletes the tombstone of a retired, replaced or refused machine, which may then join again.
func (n Nodes) DeleteTombstone(ctx context.Context, id string) error {
	return requestWithoutAnswer(ctx, n.c, http.MethodDelete, escapePath("tombstones", id), nil, nil)
}

// Access has the API operations on logins, users and API tokens.
type Access struct{ c *connection }

// Login opens a session, whose token the client then uses.
func (a Access) Login(ctx context.Context, user, password string) (v1.Session, error) {
	session, err := postJSON[v1.Session](ctx, a.c, "/login", v1.Login{User: user, Password: password})
	if err == nil {
		a.c.token = session.Token
	}
	return session, err
}

// Logout ends the client's session.
func (a Access) Logout(ctx context.Context) error {
	return requestWithoutAnswer(ctx, a.c, http.MethodPost, "/logout", nil, nil)
}

// WhoAmI returns the caller's name and rights.
func (a Access) WhoAmI(ctx context.Context) (v1.Caller, error) {
	return getJSON[v1.Caller](ctx, a.c, "/me", nil)
}

// CreateToken creates an API token. No later answer holds its secret.
func (a Access) CreateToken(ctx context.Context, r v1.TokenRequest) (v1.Token, error) {
	return postJSON[v1.Token](ctx, a.c, "/tokens", r)
}

// Tokens returns all API tokens and sessions.
func (a Access) Tokens(ctx context.Context, narrow ...v1.RowFilter) (v1.TokenList, error) {
	return getJSON[v1.TokenList](ctx, a.c, "/tokens", buildQuery(narrow))
}

// RevokeToken revokes an API token or session.
func (a Access) RevokeToken(ctx context.Context, id string) error {
	return requestWithoutAnswer(ctx, a.c, http.MethodDelete, escapePath("tokens", id), nil, nil)
}

// Users returns all users.
func (a Access) Users(ctx context.Context, narrow ...v1.RowFilter) (v1.UserList, error) {
	return getJSON[v1.UserList](ctx, a.c, "/users", buildQuery(narrow))
}

// CreateUser creates a user. No later answer holds a password that the server made.
func (a Access) CreateUser(ctx context.Context, r v1.UserRequest) (v1.User, error) {
	return postJSON[v1.User](ctx, a.c, "/users", r)
}

// GrantUser replaces the rights of a user.
func (a Access) GrantUser(ctx context.Context, name string, g v1.UserGrants) (v1.User, error) {
	return requestJSON[v1.User](ctx, a.c, http.MethodPut, escapePath("users", name, "grants"), nil, g)
}

// DeleteUser deletes a user with all sessions and tokens, and returns the user. With yes, tokens of other names that the
// user made end too; without, they are an error.
func (a Access) DeleteUser(ctx context.Context, name string, yes bool) (v1.User, error) {
	return requestJSON[v1.User](ctx, a.c, http.MethodDelete, escapePath("users", name), buildQuery("yes", yes), nil)
}

// ChangePassword changes the caller's password.
func (a Access) ChangePassword(ctx context.Context, r v1.PasswordChange) error {
	return requestWithoutAnswer(ctx, a.c, http.MethodPost, "/me/password", nil, r)
}

// Enrolment has the operations on join tokens, and on machines that ask to join without one.
type Enrolment struct{ c *connection }

// CreateToken creates a join token.
func (e Enrolment) CreateToken(ctx context.Context, r v1.JoinTokenRequest) (v1.JoinToken, error) {
	return postJSON[v1.JoinToken](ctx, e.c, "/jointokens", r)
}

// Tokens returns all join tokens.
func (e Enrolment) Tokens(ctx context.Context, narrow ...v1.RowFilter) (v1.JoinTokenList, error) {
	return getJSON[v1.JoinTokenList](ctx, e.c, "/jointokens", buildQuery(narrow))
}

// DeleteToken deletes a join token. Nodes that joined with the token stay.
func (e Enrolment) DeleteToken(ctx context.Context, id string) error {
	return requestWithoutAnswer(ctx, e.c, http.MethodDelete, escapePath("jointokens", id), nil, nil)
}

// Pending returns machines that asked to join without a token.
func (e Enrolment) Pending(ctx context.Context, narrow ...v1.RowFilter) (v1.PendingList, error) {
	return getJSON[v1.PendingList](ctx, e.c, "/pending", buildQuery(narrow))
}

// Accept admits a machine that asked to join without a token, as a new node.
func (e Enrolment) Accept(ctx context.Context, r v1.PendingAccept) (v1.Member, error) {
	return postJSON[v1.Member](ctx, e.c, "/pending/accept", r)
}

// AcceptReturning accepts all machines that wait for admission and were nodes of the server before. Each proves
// that by a certificate of the server.
func (e Enrolment) AcceptReturning(ctx context.Context, r v1.PendingReturning) (v1.AcceptedMachines, error) {
	return postJSON[v1.AcceptedMachines](ctx, e.c, "/pending/accept-returning", r)
}

// Refuse refuses a machine that asked to join, and blocks its key for later requests.
func (e Enrolment) Refuse(ctx context.Context, r v1.PendingRefuse) (v1.Member, error) {
	return postJSON[v1.Member](ctx, e.c, "/pending/refuse", r)
}

// Authority returns the server's CA certificate and the addresses at which agents reach the server.
func (e Enrolment) Authority(ctx context.Context) (v1.Authority, error) {
	return getJSON[v1.Authority](ctx, e.c, "/ca", nil)
}
