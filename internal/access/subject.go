package access

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Subject is the user of a request, with the session or API token of the request
type Subject struct {
	User  string
	Maker string // maker of the token; empty: User
	Token string // id of the session or token used
	Grants
}

// Owner returns the user who made the subject's API token, or else the subject's own user name. For a token
// this is the user that made it, otherwise the user itself.
func (s *Subject) Owner() string { return cmp.Or(s.Maker, s.User) }

// May reports whether the subject may use the verb (read, operate or change) in a namespace.
func (s *Subject) May(verb Verb, namespace string) bool { return s.roleRankIn(namespace) >= int(verb) }

// MayEverywhere reports whether the subject may use the verb in every namespace. Namespaces that are created later
// count too.
func (s *Subject) MayEverywhere(verb Verb) bool { return roleRank(s.Role) >= int(verb) }

// MayRun reports whether the subject may run commands on nodes of a namespace.
func (s *Subject) MayRun(namespace string) bool { return s.Run && s.May(Operate, namespace) }

// NamespacesFor returns the namespaces where the user's role permits the verb, in sorted order. The result has a meaning
// only if MayEverywhere is false.
func (s *Subject) NamespacesFor(verb Verb) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Bindings)), func(namespace string) bool { return !s.May(verb, namespace) })
}

// Allow returns an error unless the subject may use the operation, at least in one namespace.
func (s *Subject) Allow(n Need) error {
	switch {
	case n.Scope == Public:
		return nil
	case roleRank(s.Role) == 0 && len(s.Bindings) == 0:
		return s.RefusalError(n)
	case n.Scope == Anybody, s.MayEverywhere(n.Verb):
		return nil
	case n.Scope == Namespaced && len(s.NamespacesFor(n.Verb)) > 0:
		return nil
	}
	return s.RefusalError(n)
}

// AllowIn returns an error if the subject may not use an operation in the given namespace. The error does not reveal
// whether the namespace exists.
func (s *Subject) AllowIn(n Need, namespace string) error {
	if s.May(n.Verb, namespace) {
		return nil
	}
	if len(s.Bindings) == 0 || s.May(Read, namespace) {
		return s.RefusalError(n)
	}
	err := model.Errorf(model.Forbidden, "permission denied: user %s has no role in namespace %s (its roles: %s)", s.User, namespace, &s.Grants)
	if namespace == model.SharedNamespaceName {
		return err.WithHint("its resources run on the nodes of all namespaces, so you need a role in every namespace")
	}
	return err.WithHint("ask an administrator for a role: muster auth user grant %s --bind %s=%s", s.User, namespace, lowestRoleFor(n.Verb))
}

// lowestRoleFor returns the role with the fewest rights that still permits a verb.
func lowestRoleFor(verb Verb) string {
	return [...]string{Read: Viewer, Operate: Operator, Change: Admin}[verb]
}

// RefusalError returns the error for an operation that the subject's role does not permit. The error names the
// roles that permit the operation.
func (s *Subject) RefusalError(n Need) error {
	may := "only read"
	switch {
	case s.Role == RemoteWrite:
		may = "only write samples"
	case isProgramRole(s.Role):
		may = "only send alerts"
	case s.Role == "" && len(s.Bindings) > 0:
		may = "act only in single namespaces"
	case s.Role == Operator:
		may = "read, run checks, silence, acknowledge and resolve events, but not change resources"
	}
	err := model.Errorf(model.Forbidden, "permission denied: user %s may %s (role %s)", s.User, may, &s.Grants)
	if n.Verb == Operate {
		return err.WithHint("log in as a user with the role operator or admin: muster login -u NAME")
	}
	return err.WithHint("log in as a user with this permission: muster login -u admin")
}

// Caller is the authenticated user (subject) of one API request, with the address that the request came from.
type Caller struct {
	Subject
	Address string
}

// callerKey is the context key of the Caller of a request.
type callerKey struct{}

// WithCaller returns a context that carries the caller of a request.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller that a request's context carries, or the zero Caller without any permission.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// AuthorOf returns the caller of a request as the author of a change, for the audit log. The author is the
// caller of a request, with the reason for the change.
func AuthorOf(ctx context.Context, reason string) intent.Actor {
	c := CallerOf(ctx)
	return intent.Actor{User: c.User, Maker: c.Maker, Address: c.Address, Message: reason}
}

// MayChange reports whether the caller of a request may change resources of a namespace. Answers
// to other callers hide the secrets in them.
func MayChange(ctx context.Context, namespace string) bool {
	c := CallerOf(ctx)
	return c.May(Change, namespace)
}

// ViewerGrants returns the read-only (viewer) rights that a new token of the caller gets by default. The token can
// read every namespace that the caller can read.
func (c *Caller) ViewerGrants() Grants {
	if c.MayEverywhere(Read) {
		return Grants{Role: Viewer}
	}
	g := Grants{Bindings: map[string]string{}}
	for _, namespace := range c.NamespacesFor(Read) {
		g.Bindings[namespace] = Viewer
	}
	return g
}

// Verb is the class of an operation for access decisions, such as read, operate or change.
type Verb uint8

// Verbs, each of which takes the role of the same rank.
const (
	Read    Verb = iota + 1 // viewer
	Operate                 // operator
	Change                  // admin
)

// Scope says whether an operation needs a role nowhere, in one or any namespace, or cluster-wide. The scopes
// are none, one namespace, any namespace and the whole cluster.
type Scope uint8

// Scopes of operations.
const (
	// Public operations need no token.
	Public Scope = iota + 1
	// Anybody operations are about the caller alone, or show nothing that a namespace holds: every
	// person with a session or token may call them.
	Anybody
	// Cluster operations are about the server, or about all namespaces at once: the role itself
	// has to permit them, bindings do not.
	Cluster
	// Namespaced operations read and change only the namespaces that the grants of the subject permit.
	Namespaced
)

// Need is the permission that an API operation requires, as a verb such as read, and a scope. Each operation
// declares its need, with the kind that it is about: roles permit verbs on all kinds, so the kind decides
// nothing. The zero value is no declaration.
type Need struct {
	Verb  Verb
	Kind  string // a kind of resources, or a singular noun: event, problem, queue; for people that read declarations
	Scope Scope
}

// NeedOn returns the permission (Need) for a verb on a kind of resource. The caller needs it in the namespaces that
// the request names.
func NeedOn(verb Verb, kind string) Need { return Need{verb, kind, Namespaced} }

// NeedOnCluster returns the permission (Need) for a verb on a cluster-wide kind of resource. Such resources belong to
// no namespace.
func NeedOnCluster(verb Verb, kind string) Need { return Need{verb, kind, Cluster} }

// NeedAnybody returns the permission (Need) of an operation that every logged-in caller may use. Such an operation
// reads no data of a namespace.
func NeedAnybody(kind string) Need { return Need{Read, kind, Anybody} }

// NeedNoToken returns the permission (Need) of an operation that callers may use without a token
func NeedNoToken(kind string) Need { return Need{Read, kind, Public} }

// Declared reports whether an API operation has a complete declaration of its permission, with verb, kind and
// scope.
func (n Need) Declared() bool { return n.Verb != 0 && n.Kind != "" && n.Scope != 0 }

// Program is an authenticated user with the role of a program (agent, alerts, remote-write). Its fields are those at
// the time of the password check.
type Program struct {
	Name       string
	Namespaces []string // where its agents may be, or its alerts or samples go; empty: everywhere
	role       string
	hash       string
}

// May reports whether a program (agent, alert source or sample writer) may send data for a namespace.
func (p *Program) May(namespace string) bool {
	return len(p.Namespaces) == 0 || slices.Contains(p.Namespaces, namespace)
}

// AgentProgram returns the user account of an agent that connects with a verified certificate, not a password.
// The caller has verified the user's certificate; no password is checked.
func (s *Service) AgentProgram(name string) (Program, error) {
	row, ok := s.index.findUser(name)
	if !ok || row.Role != Agent {
		return Program{}, errProgramPassword(Agent)
	}
	return Program{Name: name, Namespaces: row.Namespaces, role: Agent, hash: row.Hash}, nil
}

// LoginProgram checks the name and password of a program, such as an agent. The cache answers for
// passwords of earlier calls, right or wrong; admit (may be nil) is called for other passwords only.
func (s *Service) LoginProgram(ctx context.Context, role, name, password string, admit PasswordThrottle) (Program, error) {
	row, known := s.index.findUser(name)
	if !known || row.Role != role {
		known, row.Hash = false, unknownUserHash
	}
	good, err := s.programPasswords.checkPassword(ctx, name, password, row.Hash, s.opts.Now, admit)
	if err != nil {
		return Program{}, err
	}
	if !good || !known {
		return Program{}, errProgramPassword(role)
	}
	return Program{Name: name, Namespaces: row.Namespaces, role: role, hash: row.Hash}, nil
}

// Current reports whether a program's user account is unchanged since the program's last password check. The
// role, the password hash and the namespaces count.
func (s *Service) Current(p *Program) bool {
	row, ok := s.index.findUser(p.Name)
	return ok && row.Role == p.role && row.Hash == p.hash && slices.Equal(row.Namespaces, p.Namespaces)
}

// errProgramPassword returns the login error for a program with a wrong password
func errProgramPassword(role string) error {
	return model.Errorf(model.Unauthenticated, "no user with the role %s has this password", role).
		WithHint("create one on the server: muster auth user create NAME --role %s", role)
}
