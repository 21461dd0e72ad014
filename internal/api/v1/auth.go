package v1

import (
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Login is a request to log in with a user name and a password.
type Login struct {
	User     string `json:"user" minLength:"1" maxLength:"253"`
	Password string `json:"password" minLength:"1" maxLength:"1024"`
}

// Session is the answer to a login, with the token of the new session. The client sends the secret in the
// header Authorization: Bearer.
type Session struct {
	Token   string    `json:"token"`
	User    string    `json:"user"`
	Expires time.Time `json:"expires"`
}

// Caller is the answer to muster auth whoami, with the user's name and rights. The caller is a user or a token.
type Caller struct {
	User  string `json:"user"`
	Role  string `json:"role"`
	Run   bool   `json:"run,omitempty" doc:"Right to run commands on nodes."`
	Token string `json:"token,omitempty" doc:"Id of the token of this request."`

	Bindings map[string]string `json:"bindings,omitempty" doc:"Roles in single namespaces, by namespace."`
}

// TokenRequest is a request to create an API token.
type TokenRequest struct {
	User       string            `json:"user,omitempty" maxLength:"63" doc:"Name of the token in the record of changes; default: the caller. Not the name of another user."`
	Role       string            `json:"role,omitempty" enum:"admin,operator,viewer,alerts,remote-write" doc:"Default viewer. viewer: reads everything, changes nothing. operator: also runs checks, acknowledges and resolves events. alerts: only sends alerts."`
	Namespaces []string          `json:"namespaces,omitempty" maxItems:"100" doc:"For roles alerts and remote-write: namespaces that may get the alerts or samples; empty: all."`
	Run        bool              `json:"run,omitempty" doc:"Right to run commands on nodes; no role includes it. Only a caller with this right can give it."`
	Bindings   map[string]string `json:"bindings,omitempty" maxProperties:"100" doc:"Roles of a person in single namespaces, by namespace: viewer, operator or admin. They add to role."`
	Note       string            `json:"note,omitempty" maxLength:"1000"`
	ExpiresIn  int64             `json:"expiresInSeconds,omitempty" minimum:"0" maximum:"315360000" doc:"0: 365 days."`

	NeverExpires string `json:"neverExpires,omitempty" maxLength:"1000" doc:"Reason why the token has no end; the note begins with it."`
}

// Token is an API token or login session, with its user, role and expiry. Secret is shown once, at creation.
type Token struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Maker   string    `json:"maker,omitempty" doc:"User who made the token; with that user the token ends."`
	Role    string    `json:"role"`
	Run     bool      `json:"run,omitempty" doc:"Right to run commands on nodes."`
	Session bool      `json:"session,omitempty" doc:"The token belongs to a login session."`
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Secret  string    `json:"secret,omitempty"`

	Namespaces []string          `json:"namespaces,omitempty" doc:"For roles alerts and remote-write: namespaces that may get the alerts or samples; empty: all."`
	Bindings   map[string]string `json:"bindings,omitempty" doc:"Roles in single namespaces, by namespace."`
}

// TokenList is the list of all API tokens.
type TokenList struct {
	Items []Token `json:"items"`
}

// JoinTokenRequest is a request to create a token with which agents enrol.
type JoinTokenRequest struct {
	Namespace string            `json:"namespace,omitempty"`
	Groups    []string          `json:"groups,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Lifecycle *model.Lifecycle  `json:"lifecycle,omitempty" doc:"Lifecycle of the nodes that join with the token."`
	Replace   bool              `json:"replace,omitempty" doc:"The machine takes over an existing node of its name if that node has no session."`
	ExpiresIn int64             `json:"expiresInSeconds,omitempty" minimum:"0" maximum:"315360000" doc:"0: never."`
	MaxUses   int               `json:"maxUses,omitempty" minimum:"0" doc:"0: no limit."`
	Note      string            `json:"note,omitempty" maxLength:"1000"`
}

// JoinToken is a token with which agents enrol, with its namespace, groups, labels and limits. Token is shown once, at
// creation.
type JoinToken struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace"`
	Groups    []string          `json:"groups,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Lifecycle *model.Lifecycle  `json:"lifecycle,omitempty"`
	Replace   bool              `json:"replace,omitempty"`
	Node      uuid.UUID         `json:"node,omitzero" doc:"The only node that may join with the token."`
	Expires   time.Time         `json:"expires,omitzero"`
	MaxUses   int               `json:"maxUses,omitempty"`
	Uses      int               `json:"uses"`
	Created   time.Time         `json:"created"`
	By        string            `json:"by,omitempty"`
	Note      string            `json:"note,omitempty"`
	Token     string            `json:"token,omitempty"`
}

// JoinTokenList is the list of all join tokens.
type JoinTokenList struct {
	Items []JoinToken `json:"items"`
}

// UserGrants holds the rights of a user, such as roles per namespace.
type UserGrants struct {
	Role       string            `json:"role,omitempty" enum:"admin,operator,viewer,agent,alerts,remote-write" doc:"Role in every namespace. Default viewer if there are no bindings. viewer: reads everything, changes nothing. operator: also runs checks, acknowledges and resolves events. agent: password of agents of another system. alerts: password of alert senders. remote-write: password of a Prometheus that writes samples. Nobody logs in with the last three."`
	Namespaces []string          `json:"namespaces,omitempty" maxItems:"100" doc:"For roles of programs: namespaces of the agents, alerts or samples; empty: all."`
	Run        bool              `json:"run,omitempty" doc:"Right to run commands on nodes; no role includes it. Only a caller with this right can give it."`
	Bindings   map[string]string `json:"bindings,omitempty" maxProperties:"100" doc:"Roles of a person in single namespaces, by namespace: viewer, operator or admin. They add to role."`
}

// UserRequest is a request to create a user.
type UserRequest struct {
	Name string `json:"name" minLength:"1" maxLength:"63"`
	UserGrants
	Password string `json:"password,omitempty" maxLength:"1024" doc:"Empty: the server generates one and returns it once."`
}

// User is a user account of the server, for a person who logs in or for a program. Password is shown once, if
// the server generated it.
type User struct {
	Name       string            `json:"name"`
	Role       string            `json:"role"`
	Run        bool              `json:"run,omitempty" doc:"Right to run commands on nodes."`
	Namespaces []string          `json:"namespaces,omitempty" doc:"For roles of programs: namespaces of the agents, alerts or samples; empty: all."`
	Bindings   map[string]string `json:"bindings,omitempty" doc:"Roles in single namespaces, by namespace."`
	Created    time.Time         `json:"created"`
	Sessions   int               `json:"sessions" doc:"Number of open sessions."`
	Tokens     int               `json:"tokens" doc:"Number of API tokens with the name of the user, or made by the user."`
	Password   string            `json:"password,omitempty"`
}

// UserList is the list of all users.
type UserList struct {
	Items []User `json:"items"`
}

// PasswordChange is a request to change the caller's own password.
type PasswordChange struct {
	Old string `json:"old" minLength:"1" maxLength:"1024"`
	New string `json:"new" minLength:"1" maxLength:"1024"`
}
