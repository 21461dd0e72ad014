package access

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Kinds of the database rows that package access owns: users and tokens.
const (
	userKind  = "user"
	tokenKind = "token"
)

// Options has the database, clock and limits that a Service for users and tokens needs.
type Options struct {
	Store  intent.Store
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: none
}

// Service keeps users and tokens in the database, and identifies the caller behind a token from memory. It is
// safe for concurrent use.
type Service struct {
	opts             Options
	index            accountIndex
	hashSlots        chan struct{} // at most two passwords of people at a time: argon2 costs memory
	programPasswords *programPasswordCache

	// accountsMu is held during a change of users or passwords, from the check that decides about the
	// change to the write, and while a session is created.
	accountsMu sync.Mutex
	// writeMu is held from the write of a row to its entry in the index, so that the index changes in the order of
	// the writes.
	writeMu sync.Mutex
}

// NewService returns a Service without users and tokens. The caller must call Load first, because only Load reads
// users and tokens from the database.
func NewService(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{opts: o, index: newAccountIndex(), hashSlots: make(chan struct{}, 2), programPasswords: newProgramPasswordCache()}
}

// Load reads all users and tokens from the database into the in-memory index.
func (s *Service) Load(ctx context.Context) error {
	for _, kind := range []string{userKind, tokenKind} {
		rows, err := s.opts.Store.List(ctx, intent.ListQuery{Kind: kind})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := s.index.putRow(row); err != nil {
				return fmt.Errorf("load %s from the database: %w", row.Key, err)
			}
		}
	}
	return nil
}

// commitRows writes changed users and tokens to the database, then to the in-memory index. No other function writes
// either.
func (s *Service) commitRows(ctx context.Context, by intent.Actor, writes []intent.Write) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	done, err := s.opts.Store.Commit(ctx, by, writes)
	if err != nil {
		return err
	}
	for i, row := range done.Rows {
		if writes[i].Body == nil {
			s.index.removeRow(row.Key)
		} else if err := s.index.putRow(row); err != nil {
			s.opts.Logger.Error("row of a user or token was written but cannot be read back", "row", row.Key.String(), "err", err)
		}
	}
	return nil
}

// userKey returns the database key of a user.
func userKey(name string) intent.Key { return intent.Key{Kind: userKind, Name: name} }

// tokenKey returns the database key of a token.
func tokenKey(id string) intent.Key { return intent.Key{Kind: tokenKind, Name: id} }

// userRow is the database row of a user.
type userRow struct {
	Hash string `json:"hash"` // argon2id, PHC form
	Grants

	created time.Time
}

// tokenRow is the database row of a token. It holds the SHA-256 of the token, never the token.
type tokenRow struct {
	AccessToken
	Sum []byte `json:"sum"`
}

// accountIndex is the in-memory index of all users and tokens. Tokens are found by their SHA-256, so that the time of
// a look-up says nothing about a token's bytes.
type accountIndex struct {
	mu     sync.RWMutex
	users  map[string]userRow
	tokens map[[32]byte]AccessToken
}

// newAccountIndex returns an index without users and tokens.
func newAccountIndex() accountIndex {
	return accountIndex{users: map[string]userRow{}, tokens: map[[32]byte]AccessToken{}}
}

// putRow decodes a database row of a user or token and adds the result to the index.
func (x *accountIndex) putRow(row intent.Row) error {
	var u userRow
	var t tokenRow
	var err error
	if row.Kind == userKind {
		err = json.Unmarshal(row.Body, &u)
	} else if err = json.Unmarshal(row.Body, &t); err == nil && len(t.Sum) != 32 {
		err = fmt.Errorf("token %s: the hash has %d bytes, expected 32", row.Name, len(t.Sum))
	}
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if row.Kind == userKind {
		u.created = row.Created
		x.users[row.Name] = u
	} else {
		x.tokens[[32]byte(t.Sum)] = t.AccessToken
	}
	return nil
}

// removeRow removes a deleted user or token from the index.
func (x *accountIndex) removeRow(key intent.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if key.Kind == userKind {
		delete(x.users, key.Name)
		return
	}
	for sum, t := range x.tokens {
		if t.ID == key.Name {
			delete(x.tokens, sum)
		}
	}
}

// findUser looks up a user in the index by name.
func (x *accountIndex) findUser(name string) (userRow, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	u, ok := x.users[name]
	return u, ok
}

// findToken looks up a token in the index by its SHA-256 hash. A session has the grants that its user has now; a
// session whose user was deleted is not found.
func (x *accountIndex) findToken(sum [32]byte) (AccessToken, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t, ok := x.tokens[sum]
	return x.withCurrentGrants(t), ok && (!t.Session || x.users[t.User].Hash != "")
}

// withCurrentGrants returns a token with its present rights, which for a login session are the user's rights. A
// login session has the rights of its user, an API token its own. The caller holds mu.
func (x *accountIndex) withCurrentGrants(t AccessToken) AccessToken {
	if t.Session {
		t.Grants = x.users[t.User].Grants
	}
	return t
}

// Roles of people. Each one includes those before it.
const (
	Viewer   = "viewer"   // may read
	Operator = "operator" // may also run checks, silence, acknowledges and resolves, tries handlers
	Admin    = "admin"    // may also declare resources; with the role in every namespace, also manage users and the server
)

// Roles of programs. People cannot log in with them, and each role permits one protocol that is not the API.
// The password of an Agent user lies on every machine, so the role Agent never permits alerts.
const (
	Agent  = "agent"  // role of a user: agents of Sensu may connect
	Alerts = "alerts" // role of a user or token: an Alertmanager client may post alerts
	// RemoteWrite is a role of a user or token: a Prometheus may write samples.
	RemoteWrite = "remote-write"
)

// isProgramRole reports whether a role is for programs (agent, alerts, remote-write) and not for people.
func isProgramRole(role string) bool { return role == Agent || role == Alerts || role == RemoteWrite }

// roleRank returns the rank of a role for people, from viewer (1) to admin (3). Roles without rights in the API have
// rank 0.
func roleRank(role string) int { return slices.Index([]string{Viewer, Operator, Admin}, role) + 1 }

// Grants are the rights of a user or a token. They are its role, its roles in single namespaces, and the right to run
// commands.
type Grants struct {
	// Role holds in every namespace; empty: only Bindings count.
	Role string `json:"role,omitempty"`
	// Bindings are roles of people in single namespaces, by namespace. They add to Role.
	Bindings map[string]string `json:"bindings,omitempty"`
	// Namespaces bound the role of a program; empty: everywhere.
	Namespaces []string `json:"namespaces,omitempty"`
	// Run permits commands on nodes wherever the subject is at least an operator. No role includes this right.
	Run bool `json:"run,omitempty"`
}

// Validate returns an error if a user's rights (grants) contradict each other or name an unknown role.
func (g *Grants) Validate() error {
	if isProgramRole(g.Role) {
		switch {
		case g.Run:
			return model.Errorf(model.Invalid, "a user with the role %s cannot get the permission to run commands", g.Role)
		case len(g.Bindings) > 0:
			return model.Errorf(model.Invalid, "a user with the role %s cannot have role bindings, which are for people only: limit the user by namespaces", g.Role)
		}
		return nil
	}
	highest := roleRank(g.Role)
	for _, namespace := range slices.Sorted(maps.Keys(g.Bindings)) {
		role := g.Bindings[namespace]
		switch {
		case roleRank(role) == 0:
			return unknownRoleError(role)
		case namespace == model.SharedNamespaceName:
			return model.Errorf(model.Invalid, "users cannot be bound to namespace %s, because its resources run on the nodes of all namespaces", namespace).
				WithHint("give the role in every namespace: --role %s", role)
		}
		if err := model.NameError(namespace); err != nil {
			return model.Errorf(model.Invalid, "role binding: %q is not the name of a namespace: %w", namespace, err)
		}
		highest = max(highest, roleRank(role))
	}
	switch {
	case len(g.Namespaces) > 0:
		return model.Errorf(model.Invalid, "namespaces limit only the roles %s, %s and %s; bind a person to a namespace: --bind NAMESPACE=ROLE", Agent, Alerts, RemoteWrite)
	case roleRank(g.Role) == 0 && (g.Role != "" || len(g.Bindings) == 0):
		return unknownRoleError(g.Role)
	case g.Run && highest < roleRank(Operator):
		return model.Errorf(model.Invalid, "the permission to run commands needs the role %s", Operator).WithHint("add the role %s", Operator)
	}
	return nil
}

// unknownRoleError returns an error about an unknown role, with a list of the known roles.
func unknownRoleError(role string) error {
	return model.Errorf(model.Invalid, "unknown role %q: expected %s, %s or %s", role, Admin, Operator, Viewer)
}

// roleRankIn returns the rank of a user's role in one namespace.
func (g *Grants) roleRankIn(namespace string) int {
	return max(roleRank(g.Role), roleRank(g.Bindings[namespace]))
}

// CoveredBy reports whether the other grants (o) include every right of the receiver.
func (g *Grants) CoveredBy(o *Grants) bool {
	if isProgramRole(g.Role) {
		elsewhere := func(namespace string) bool { return o.roleRankIn(namespace) < roleRank(Admin) }
		return o.Role == Admin || len(g.Namespaces) > 0 && !slices.ContainsFunc(g.Namespaces, elsewhere)
	}
	if roleRank(g.Role) > roleRank(o.Role) || g.Run && !o.Run {
		return false
	}
	for namespace, role := range g.Bindings {
		if roleRank(role) > o.roleRankIn(namespace) {
			return false
		}
	}
	return true
}

// Equal reports whether two grants have equal fields.
func (g *Grants) Equal(o *Grants) bool {
	return g.Role == o.Role && g.Run == o.Run && slices.Equal(g.Namespaces, o.Namespaces) && maps.Equal(g.Bindings, o.Bindings)
}

// String formats grants for people, such as "viewer, operator in web, may run commands".
func (g *Grants) String() string {
	var parts []string
	if g.Role != "" {
		parts = append(parts, g.Role)
	}
	for _, namespace := range slices.Sorted(maps.Keys(g.Bindings)) {
		parts = append(parts, fmt.Sprintf("%s in %s", g.Bindings[namespace], namespace))
	}
	if g.Run {
		parts = append(parts, "may run commands")
	}
	return strings.Join(parts, ", ")
}
