package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// User is an account with a password, for a person or for a program such as an agent.
type User struct {
	Name string
	Grants
	Created  time.Time
	Sessions int // number of open sessions
	Tokens   int // number of API tokens with the name of the user, or made by the user
}

var userName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)

// reservedNames are names that users cannot have: they mean the server itself in the record of changes.
var reservedNames = []string{"server", "local"}

// checkName refuses a name that a user or token cannot have.
func checkName(name string) error {
	if userName.MatchString(name) && !slices.Contains(reservedNames, name) {
		return nil
	}
	return model.Errorf(model.Invalid, "invalid user name %q", name).
		WithHint("use letters, digits, and . _ @ - between them, at most 63; the names server and local are reserved")
}

// Users returns all users, sorted by name.
func (s *Service) Users() []User {
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	out := make([]User, 0, len(s.index.users))
	for _, name := range slices.Sorted(maps.Keys(s.index.users)) {
		row := s.index.users[name]
		u := User{Name: name, Grants: row.Grants, Created: row.created}
		for _, t := range s.index.tokens {
			switch {
			case !t.belongsTo(name) || t.isExpired(s.opts.Now()):
			case t.Session:
				u.Sessions++
			default:
				u.Tokens++
			}
		}
		out = append(out, u)
	}
	return out
}

// HasUsers reports whether the server has at least one user, so that somebody can log in.
func (s *Service) HasUsers() bool {
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	return len(s.index.users) > 0
}

// CreateUser creates a user account with the given name, rights and password. An empty password is replaced by a
// generated one. The function returns the password.
func (s *Service) CreateUser(ctx context.Context, by intent.Actor, u User, password string) (string, error) {
	if err := checkName(u.Name); err != nil {
		return "", err
	}
	if err := u.Validate(); err != nil {
		return "", err
	}
	if _, ok := s.index.findUser(u.Name); ok { // before the hash: hashing takes time
		return "", errUserExists(u.Name)
	}
	password, hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return "", err
	}
	s.accountsMu.Lock()
	defer s.accountsMu.Unlock()
	if _, ok := s.index.findUser(u.Name); ok {
		return "", errUserExists(u.Name)
	}
	body, err := json.Marshal(userRow{Hash: hash, Grants: u.Grants})
	if err != nil {
		return "", err
	}
	return password, s.commitRows(ctx, by, []intent.Write{{Key: userKey(u.Name), Body: body}})
}

// Grant replaces the rights (grants) of a user, and returns the changed user. The user's sessions have them at
// once; tokens of that name or made by the user that permit more end in the same transaction. The last
// administrator keeps the role.
func (s *Service) Grant(ctx context.Context, by intent.Actor, name string, g Grants) (User, error) {
	if err := g.Validate(); err != nil {
		return User{}, err
	}
	s.accountsMu.Lock()
	defer s.accountsMu.Unlock()
	row, ok := s.index.findUser(name)
	switch {
	case !ok:
		return User{}, s.errNoUser(name)
	case isProgramRole(row.Role) != isProgramRole(g.Role):
		return User{}, model.Errorf(model.Conflict, "%s has the role %s: the account of a person cannot get the role of a program, nor the reverse", name, row.Role).
			WithHint("delete the user and create another: muster auth user delete %s", name)
	case g.Role != Admin && s.isLastAdmin(name):
		return User{}, errLastAdmin(name)
	}
	row.Grants = g
	body, err := json.Marshal(row)
	if err != nil {
		return User{}, err
	}
	err = s.writeUser(ctx, by, intent.Write{Key: userKey(name), Body: body, Expect: -1},
		func(t AccessToken) bool { return t.belongsTo(name) && !t.Session && !t.CoveredBy(&g) })
	if err != nil {
		return User{}, err
	}
	all := s.Users()
	return all[slices.IndexFunc(all, func(u User) bool { return u.Name == name })], nil
}

// DeleteUser deletes a user with all sessions and tokens of the user, in one transaction. Tokens that the user made
// under other names are deleted too. The last administrator cannot be deleted. DeleteUser returns the deleted user.
func (s *Service) DeleteUser(ctx context.Context, by intent.Actor, name string) (User, error) {
	s.accountsMu.Lock()
	defer s.accountsMu.Unlock()
	all := s.Users()
	i := slices.IndexFunc(all, func(u User) bool { return u.Name == name })
	if i < 0 {
		return User{}, s.errNoUser(name)
	}
	if s.isLastAdmin(name) {
		return User{}, errLastAdmin(name)
	}
	return all[i], s.writeUser(ctx, by, intent.Write{Key: userKey(name), Expect: -1}, func(t AccessToken) bool { return t.belongsTo(name) })
}

// writeUser writes a user to the database and deletes some of the user's tokens in the same transaction. If a token
// is revoked at the same time, the transaction is repeated without it.
func (s *Service) writeUser(ctx context.Context, by intent.Actor, user intent.Write, ends func(AccessToken) bool) (err error) {
	for range 5 {
		writes := []intent.Write{user}
		for _, t := range s.Tokens() {
			if ends(t) {
				writes = append(writes, intent.Write{Key: tokenKey(t.ID), Expect: -1})
			}
		}
		if err = s.commitRows(ctx, by, writes); model.ClassOf(err) != model.NotFound {
			break
		}
	}
	return err
}

// isLastAdmin reports whether a user is the only administrator.
func (s *Service) isLastAdmin(name string) bool {
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	for other, u := range s.index.users {
		if other != name && u.Role == Admin {
			return false
		}
	}
	return s.index.users[name].Role == Admin
}

// errLastAdmin returns the error of a change that would leave the server without an administrator.
func errLastAdmin(name string) error {
	return model.Errorf(model.Conflict, "%s is the last administrator: the server needs at least one", name).
		WithHint("create another administrator first: muster auth user create NAME --role admin")
}

// errUserExists returns the error about a new user whose name is taken.
func errUserExists(name string) error {
	return model.Errorf(model.Conflict, "user %s exists already", name).
		WithHint("set a new password, on the server: muster auth reset-password --data DIR --user %s", name)
}

// errNoUser returns the error about an unknown user, with the nearest name as a hint.
func (s *Service) errNoUser(name string) error {
	e := model.Errorf(model.NotFound, "user %q does not exist", name)
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	names := slices.Sorted(maps.Keys(s.index.users))
	if near := model.Nearest(name, names); near != "" {
		return e.WithHint("did you mean %s? Create a user: muster auth user create NAME", near)
	}
	if len(names) == 0 {
		return e.WithHint("no user exists yet: the first start of the server creates the user admin")
	}
	return e.WithHint("list users: muster auth user list. Create a user: muster auth user create NAME")
}

const (
	// sessionLifetime is how long a login lasts.
	sessionLifetime = 30 * 24 * time.Hour
	// maxSessions bounds the sessions of one user: one more ends the oldest.
	maxSessions = 50
	// maxExpiredPerToken is the greatest number of expired tokens that the creation of one token deletes.
	maxExpiredPerToken = 100
)

// AccessToken describes a login session of a person, or an API token of a program. It never holds the secret.
type AccessToken struct {
	ID   string `json:"id"`
	User string `json:"user"` // name in the record of changes
	// Maker is the user whose session or token made this token; empty: the server. The token ends with its maker.
	Maker string `json:"maker,omitempty"`
	Grants
	Session bool      `json:"session"` // made by a login: it has its user's grants
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

// belongsTo reports whether a token authenticates as the given user, or was made by the user.
func (t *AccessToken) belongsTo(user string) bool { return t.User == user || t.Maker == user }

// isExpired reports whether the token has expired at the given time.
func (t *AccessToken) isExpired(now time.Time) bool {
	return !t.Expires.IsZero() && !now.Before(t.Expires)
}

// Login checks a password and returns the token of a new session.
func (s *Service) Login(ctx context.Context, user, password, whence string) (token string, t AccessToken, err error) {
	row, err := s.checkPassword(ctx, user, password)
	if err != nil {
		return "", t, err
	}
	s.accountsMu.Lock()
	defer s.accountsMu.Unlock()
	if now, ok := s.index.findUser(user); !ok || now.Hash != row.Hash {
		return "", t, errBadLogin() // the user was deleted or got another password during the check
	}
	return s.storeNewToken(ctx, intent.Actor{User: user, Address: whence, Message: "login"}, AccessToken{
		User: user, Grants: row.Grants, Session: true, Expires: s.opts.Now().Add(sessionLifetime).UTC(),
	})
}

// TokenLifetime is the default lifetime of a token.
const TokenLifetime = 365 * 24 * time.Hour

// CreateToken makes a token for a program.
func (s *Service) CreateToken(ctx context.Context, by intent.Actor, t AccessToken) (string, AccessToken, error) {
	if err := checkName(t.User); err != nil {
		return "", t, err
	}
	if err := t.Validate(); err != nil {
		return "", t, err
	}
	t.Session = false
	text := fmt.Sprintf("token %s, created by %s, role %s", t.User, cmp.Or(t.Maker, by.User), &t.Grants)
	if by.Message != "" {
		text += ": " + by.Message
	}
	by.Message = text
	return s.storeNewToken(ctx, by, t)
}

// storeNewToken generates the secret of a token, stores its SHA-256 and returns the secret with the stored token.
func (s *Service) storeNewToken(ctx context.Context, by intent.Actor, t AccessToken) (string, AccessToken, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", t, fmt.Errorf("generate the secret of a token: %w", err)
	}
	token := "mt1." + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(token))
	id := sha256.Sum256(append([]byte("id\n"), sum[:]...))
	t.ID, t.Created = hex.EncodeToString(id[:6]), s.opts.Now().UTC()
	body, err := json.Marshal(tokenRow{t, sum[:]})
	if err != nil {
		return "", t, err
	}
	made := intent.Write{Key: tokenKey(t.ID), Body: body}
	err = s.commitRows(ctx, by, append(s.deletionsOfObsoleteTokens(t), made))
	if model.ClassOf(err) == model.NotFound { // another login cleared the same tokens away first
		err = s.commitRows(ctx, by, []intent.Write{made})
	}
	return token, t, err
}

// deletionsOfObsoleteTokens returns the database deletions of expired tokens and of the user's oldest excess sessions.
func (s *Service) deletionsOfObsoleteTokens(made AccessToken) (writes []intent.Write) {
	var sessions []AccessToken // oldest first
	remove := func(t AccessToken) {
		if len(writes) < maxExpiredPerToken {
			writes = append(writes, intent.Write{Key: tokenKey(t.ID), Expect: -1})
		}
	}
	for _, t := range s.Tokens() {
		switch {
		case t.isExpired(s.opts.Now()):
			remove(t)
		case made.Session && t.Session && t.User == made.User:
			sessions = append(sessions, t)
		}
	}
	for len(sessions) >= maxSessions {
		remove(sessions[0])
		sessions = sessions[1:]
	}
	return writes
}

// Authenticate returns the subject of an API token from the in-memory index, without a query of the database.
func (s *Service) Authenticate(token string) (Subject, error) {
	t, ok := s.index.findToken(sha256.Sum256([]byte(token)))
	if !ok {
		return Subject{}, model.Errorf(model.Unauthenticated, "the token is unknown or revoked").WithHint("log in again: muster login")
	}
	if t.isExpired(s.opts.Now()) {
		return Subject{}, model.Errorf(model.Unauthenticated, "the token expired at %s", t.Expires.Format(time.RFC3339)).WithHint("log in again: muster login; for programs: muster auth token create")
	}
	return Subject{User: t.User, Maker: t.Maker, Token: t.ID, Grants: t.Grants}, nil
}

// Tokens returns all tokens and sessions, oldest first.
func (s *Service) Tokens() []AccessToken {
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	out := make([]AccessToken, 0, len(s.index.tokens))
	for _, t := range s.index.tokens {
		out = append(out, s.index.withCurrentGrants(t))
	}
	slices.SortFunc(out, func(a, b AccessToken) int { return a.Created.Compare(b.Created) })
	return out
}

// RevokeToken deletes a token or session. The server then refuses its secret.
func (s *Service) RevokeToken(ctx context.Context, by intent.Actor, id string) error {
	err := s.commitRows(ctx, by, []intent.Write{{Key: tokenKey(id), Expect: -1}})
	if model.ClassOf(err) == model.NotFound {
		return ErrNoToken(id)
	}
	return err
}

// ErrNoToken returns the error about a token that does not exist or belongs to another user.
func ErrNoToken(id string) error {
	return model.Errorf(model.NotFound, "token %s does not exist", id).WithHint("list tokens: muster auth token list")
}
