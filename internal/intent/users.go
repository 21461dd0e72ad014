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
	Admin  = "admin"
	Viewer = "viewer" // reads everything, changes nothing
)

// Identity is who makes a request.
type Identity struct {
	User  string `json:"user"`
	Role  string `json:"role"`
	Token string `json:"token"` // id of the token used
}

// AccessToken is a token as people see it: never the secret.
type AccessToken struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Role    string    `json:"role"`
	Session bool      `json:"session"` // made by a login, else for a program
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

type userRow struct {
	Hash string `json:"hash"` // argon2id, PHC form
	Role string `json:"role"`
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
}

func newUserIndex() userIndex {
	return userIndex{users: map[string]userRow{}, tokens: map[[32]byte]AccessToken{}, verify: make(chan struct{}, 2)}
}

func (x *userIndex) tookUser(row Row) error {
	var u userRow
	if err := json.Unmarshal(row.Body, &u); err != nil {
		return err
	}
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

// passwordCost is OWASP's: 19 MiB, two passes.
func passwordCost() *argon2id.Params {
	return &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

func badLogin() error {
	return model.Errorf(model.Unauthenticated, "user name or password is wrong").
		WithHint("forgotten? on the server: muster auth reset-password --data DIR")
}

// Login checks a password and makes a session token.
func (s *Service) Login(ctx context.Context, user, password, whence string) (token string, t AccessToken, err error) {
	select {
	case s.users.verify <- struct{}{}:
		defer func() { <-s.users.verify }()
	case <-ctx.Done():
		return "", t, ctx.Err()
	}
	s.users.mu.RLock()
	row, known := s.users.users[user]
	s.users.mu.RUnlock()
	if !known {
		// As slow as for a known user, so that time tells no names.
		row.Hash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	}
	ok, err := argon2id.ComparePasswordAndHash(password, row.Hash)
	if err != nil || !ok || !known {
		return "", t, badLogin()
	}
	return s.newToken(ctx, Who{User: user, Whence: whence, Why: "login"}, AccessToken{
		User: user, Role: row.Role, Session: true, Expires: s.opts.Now().Add(sessionLife).UTC(),
	})
}

// CreateToken makes a token for a program.
func (s *Service) CreateToken(ctx context.Context, by Who, t AccessToken) (string, AccessToken, error) {
	if t.Role != Admin && t.Role != Viewer {
		return "", t, model.Errorf(model.Invalid, "role %q: want %s or %s", t.Role, Admin, Viewer)
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
	return Identity{User: t.User, Role: t.Role, Token: t.ID}, nil
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

// SetPassword makes or changes a user. With an empty password one is made and
// returned. All sessions of the user end.
func (s *Service) SetPassword(ctx context.Context, by Who, user, role, password string) (string, error) {
	password, hash, err := HashPassword(password)
	if err != nil {
		return "", err
	}
	return password, s.SetPasswordHash(ctx, by, user, role, hash)
}

// HashPassword is what is kept of a password; with an empty one, one is made.
func HashPassword(password string) (plain, hash string, err error) {
	if password == "" {
		secret := make([]byte, 15)
		if _, err := rand.Read(secret); err != nil {
			return "", "", fmt.Errorf("make password: %w", err)
		}
		password = base64.RawURLEncoding.EncodeToString(secret)
	}
	if len(password) < 8 {
		return "", "", model.Errorf(model.Invalid, "password is shorter than 8 characters").WithHint("choose a longer one; four words are easy to remember")
	}
	if hash, err = argon2id.CreateHash(password, passwordCost()); err != nil {
		return "", "", fmt.Errorf("hash password: %w", err)
	}
	return password, hash, nil
}

// SetPasswordHash makes or changes a user by what HashPassword gave. All sessions of
// the user end.
func (s *Service) SetPasswordHash(ctx context.Context, by Who, user, role, hash string) error {
	if _, _, _, err := argon2id.DecodeHash(hash); err != nil {
		return model.Errorf(model.Invalid, "this is no hash of a password: %w", err)
	}
	body, err := json.Marshal(userRow{hash, role})
	if err != nil {
		return err
	}
	writes := []Write{{Key: Key{Kind: userKind, Name: user}, Body: body, Expect: -1}}
	for _, t := range s.Tokens() {
		if t.User == user && t.Session {
			writes = append(writes, Write{Key: Key{Kind: tokenRowKind, Name: t.ID}, Expect: -1})
		}
	}
	_, err = s.commit(ctx, by, writes)
	return err
}

// HasUsers says whether anybody can log in.
func (s *Service) HasUsers() bool {
	s.users.mu.RLock()
	defer s.users.mu.RUnlock()
	return len(s.users.users) > 0
}
