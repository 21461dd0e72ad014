package intent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/muster-fleet/muster/internal/model"
)

// Kinds of our own rows: their bodies stay out of the record of changes.
const (
	userKind     = "user"
	tokenRowKind = "token"
)

// Roles.
const (
	Admin    = "admin"
	Operator = "operator" // reads everything, runs checks now, resolves events; changes nothing that is declared
	Viewer   = "viewer"   // reads everything, changes nothing
)

// userRole refuses a role that no user has. A user with a role for programs is nobody who logs in.
func userRole(u *User) error {
	switch {
	case !forPrograms(u.Role) && len(u.Namespaces) > 0:
		return model.Errorf(model.Invalid, "namespaces are of the roles %s and %s; a %s has all", Agents, Alerts, u.Role)
	case forPrograms(u.Role) && u.Run:
		return model.Errorf(model.Invalid, "a user with the role %s runs no commands", u.Role)
	case forPrograms(u.Role):
		return nil
	}
	return knownRole(u.Role, u.Run)
}

// knownRole refuses a role that there is not, and a right that goes with none of it.
func knownRole(role string, run bool) error {
	switch {
	case role != Admin && role != Operator && role != Viewer:
		return model.Errorf(model.Invalid, "role %q: want %s, %s or %s", role, Admin, Operator, Viewer)
	case run && role == Viewer:
		return model.Errorf(model.Invalid, "a %s changes nothing, and so runs no commands", Viewer).WithHint("give the role %s too", Operator)
	}
	return nil
}

// Identity is who makes a request.
type Identity struct {
	User  string `json:"user"`
	Role  string `json:"role"`
	Run   bool   `json:"run,omitempty"` // may run commands on nodes: no role has that by itself
	Token string `json:"token"`         // id of the token used

	Namespaces []string `json:"namespaces,omitempty"` // of a role for programs; none: all
}

// AccessToken is a token as people see it: never the secret.
type AccessToken struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Role    string    `json:"role"`
	Run     bool      `json:"run,omitempty"` // may run commands
	Session bool      `json:"session"`       // made by a login, else for a program
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`

	Namespaces []string `json:"namespaces,omitempty"` // of a role for programs; none: all
}

type userRow struct {
	Hash string `json:"hash"` // argon2id, PHC form
	Role string `json:"role"`
	Run  bool   `json:"run,omitempty"` // may run commands

	Namespaces []string `json:"namespaces,omitempty"` // of a role for programs

	made time.Time
}

type tokenRow struct {
	AccessToken
	Sum []byte `json:"sum"` // SHA-256 of the token
}

// userIndex answers who a token belongs to, without SQL. The key is the token's
// SHA-256, so that a lookup tells nothing about a token byte by byte.
type userIndex struct {
	mu     sync.RWMutex
	users  map[string]userRow
	tokens map[[32]byte]AccessToken
	verify chan struct{} // at most two passwords at a time: argon2 costs memory
	agents *remembered
	// accounts is held over a change of users or passwords, from what it is decided by to
	// what it writes, and while a session is made; mu is taken inside it.
	accounts sync.Mutex
}

func newUserIndex() userIndex {
	return userIndex{users: map[string]userRow{}, tokens: map[[32]byte]AccessToken{}, verify: make(chan struct{}, 2), agents: newRemembered()}
}

func (x *userIndex) tookUser(row Row) error {
	var u userRow
	if err := json.Unmarshal(row.Body, &u); err != nil {
		return err
	}
	u.made = row.Created
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users[row.Name] = u
	return nil
}

func (x *userIndex) tookToken(row Row) error {
	var t tokenRow
	if err := json.Unmarshal(row.Body, &t); err != nil {
		return err
	}
	if len(t.Sum) != sha256.Size {
		return fmt.Errorf("token %s: its sum has %d bytes", row.Name, len(t.Sum))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tokens[[32]byte(t.Sum)] = t.AccessToken
	return nil
}

func (x *userIndex) removeUser(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.users, name)
}

func (x *userIndex) removeToken(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for sum, t := range x.tokens {
		if t.ID == id {
			delete(x.tokens, sum)
		}
	}
}

func badLogin() error {
	return model.Errorf(model.Unauthenticated, "user name or password is wrong").
		WithHint("forgotten? on the server: muster auth reset-password --data DIR")
}

// Login checks a password and makes a session token.
func (s *Service) Login(ctx context.Context, user, password, whence string) (token string, t AccessToken, err error) {
	row, err := s.proven(ctx, user, password)
	if err != nil {
		return "", t, err
	}
	s.users.accounts.Lock()
	defer s.users.accounts.Unlock()
	if now, ok := s.users.user(user); !ok || now.Hash != row.Hash {
		return "", t, badLogin() // deleted, or another password, while this one was checked
	}
	return s.newToken(ctx, Who{User: user, Whence: whence, Why: "login"}, AccessToken{
		User: user, Role: row.Role, Run: row.Run, Session: true, Expires: s.opts.Now().Add(sessionLife).UTC(),
	})
}

// proven is the user of that name, whose password this is.
func (s *Service) proven(ctx context.Context, user, password string) (userRow, error) {
	select {
	case s.users.verify <- struct{}{}:
		defer func() { <-s.users.verify }()
	case <-ctx.Done():
		return userRow{}, ctx.Err()
	}
	row, known := s.users.user(user)
	if known = known && !forPrograms(row.Role); !known {
		row.Hash = nobodysHash // as slow as for a known user, so that time tells no names
	}
	if ok, err := argon2id.ComparePasswordAndHash(password, row.Hash); err != nil || !ok || !known {
		return userRow{}, badLogin()
	}
	return row, nil
}

// nobodysHash is of no password.
const nobodysHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func (x *userIndex) user(name string) (userRow, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	u, ok := x.users[name]
	return u, ok
}

// CreateToken makes a token for a program. One with the role alerts brings alerts in, and opens
// nothing else.
func (s *Service) CreateToken(ctx context.Context, by Who, t AccessToken) (string, AccessToken, error) {
	if err := userRole(&User{Role: t.Role, Run: t.Run, Namespaces: t.Namespaces}); err != nil {
		return "", t, err
	}
	t.Session = false
	return s.newToken(ctx, by, t)
}

func (s *Service) newToken(ctx context.Context, by Who, t AccessToken) (string, AccessToken, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", t, fmt.Errorf("make token: %w", err)
	}
	token := "mt1." + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(token))
	id := sha256.Sum256(append([]byte("id\n"), sum[:]...))
	t.ID, t.Created = hex.EncodeToString(id[:6]), s.opts.Now().UTC()
	body, err := json.Marshal(tokenRow{t, sum[:]})
	if err != nil {
		return "", t, err
	}
	made := Write{Key: Key{Kind: tokenRowKind, Name: t.ID}, Body: body}
	_, err = s.commit(ctx, by, append(s.over(t), made))
	if model.ClassOf(err) == model.NotFound { // another login was faster to clean up
		_, err = s.commit(ctx, by, []Write{made})
	}
	return token, t, err
}

// sessionLife is how long a login lasts.
const sessionLife = 30 * 24 * time.Hour

// maxSessions is how many sessions one user has: one more ends the oldest.
const maxSessions = 50

// over lists what is to be forgotten when a token is made: what has expired, a few at a
// time, and the oldest sessions of a user who logs in again and again.
func (s *Service) over(made AccessToken) (writes []Write) {
	const atOnce = 100
	var sessions []AccessToken // oldest first
	forget := func(t AccessToken) {
		if len(writes) < atOnce {
			writes = append(writes, Write{Key: Key{Kind: tokenRowKind, Name: t.ID}, Expect: -1})
		}
	}
	for _, t := range s.Tokens() {
		switch {
		case t.expired(s.opts.Now()):
			forget(t)
		case made.Session && t.Session && t.User == made.User:
			sessions = append(sessions, t)
		}
	}
	for len(sessions) >= maxSessions {
		forget(sessions[0])
		sessions = sessions[1:]
	}
	return writes
}

func (t *AccessToken) expired(now time.Time) bool {
	return !t.Expires.IsZero() && !now.Before(t.Expires)
}

// Authenticate says whose token it is, from memory.
func (s *Service) Authenticate(token string) (Identity, error) {
	sum := sha256.Sum256([]byte(token))
	s.users.mu.RLock()
	t, ok := s.users.tokens[sum]
	s.users.mu.RUnlock()
	if !ok {
		return Identity{}, model.Errorf(model.Unauthenticated, "the server does not know this token, or it was revoked").WithHint("log in again: muster login")
	}
	if t.expired(s.opts.Now()) {
		return Identity{}, model.Errorf(model.Unauthenticated, "this token expired at %s", t.Expires.Format(time.RFC3339)).WithHint("log in again: muster login; for programs: muster auth token create")
	}
	return Identity{User: t.User, Role: t.Role, Run: t.Run, Token: t.ID, Namespaces: t.Namespaces}, nil
}

// Tokens lists all, oldest first.
func (s *Service) Tokens() []AccessToken {
	s.users.mu.RLock()
	defer s.users.mu.RUnlock()
	out := make([]AccessToken, 0, len(s.users.tokens))
	for _, t := range s.users.tokens {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b AccessToken) int { return a.Created.Compare(b.Created) })
	return out
}

// RevokeToken ends a token at once.
func (s *Service) RevokeToken(ctx context.Context, by Who, id string) error {
	_, err := s.commit(ctx, by, []Write{{Key: Key{Kind: tokenRowKind, Name: id}, Expect: -1}})
	if model.ClassOf(err) == model.NotFound {
		return model.Errorf(model.NotFound, "token %s does not exist", id).WithHint("muster auth token list")
	}
	return err
}
