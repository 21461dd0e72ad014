package intent

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// User is somebody who logs in with a password.
type User struct {
	Name       string
	Role       string
	Run        bool     // may run commands
	Namespaces []string // of a role for programs: where its agents may be, or its alerts go; none: everywhere
	Created    time.Time
	Sessions   int // open ones
	Tokens     int // API tokens that bear the name
}

var userName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)

// notUsers are names under which the server itself stands in the record of changes.
var notUsers = []string{"server", "local"}

// Users lists all, by name.
func (s *Service) Users() []User {
	s.users.mu.RLock()
	defer s.users.mu.RUnlock()
	out := make([]User, 0, len(s.users.users))
	for _, name := range slices.Sorted(maps.Keys(s.users.users)) {
		row := s.users.users[name]
		u := User{Name: name, Role: row.Role, Run: row.Run, Namespaces: row.Namespaces, Created: row.made}
		for _, t := range s.users.tokens {
			switch {
			case t.User != name || t.expired(s.opts.Now()):
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

// CreateUser makes a user. With an empty password one is made; it is returned either way.
// Of u, name, role, rights and namespaces count.
func (s *Service) CreateUser(ctx context.Context, by Who, u User, password string) (string, error) {
	name := u.Name
	if !userName.MatchString(name) || slices.Contains(notUsers, name) {
		return "", model.Errorf(model.Invalid, "%q cannot be a user's name", name).
			WithHint("letters, digits and . _ @ - in between, at most 63; server and local are the server's own")
	}
	if err := userRole(&u); err != nil {
		return "", err
	}
	if _, ok := s.users.user(name); ok { // asked first: a hash takes its time
		return "", userExists(name)
	}
	password, hash, err := s.hash(ctx, password)
	if err != nil {
		return "", err
	}
	s.users.accounts.Lock()
	defer s.users.accounts.Unlock()
	if _, ok := s.users.user(name); ok {
		return "", userExists(name)
	}
	body, err := json.Marshal(userRow{Hash: hash, Role: u.Role, Run: u.Run, Namespaces: u.Namespaces})
	if err != nil {
		return "", err
	}
	_, err = s.commit(ctx, by, []Write{{Key: Key{Kind: userKind, Name: name}, Body: body}})
	return password, err
}

func userExists(name string) error {
	return model.Errorf(model.Conflict, "user %s exists already", name).
		WithHint("a forgotten password, on the server: muster auth reset-password --data DIR --user %s", name)
}

func (s *Service) noUser(name string) error {
	e := model.Errorf(model.NotFound, "there is no user %q", name)
	s.users.mu.RLock()
	defer s.users.mu.RUnlock()
	names := slices.Sorted(maps.Keys(s.users.users))
	if near := model.Nearest(name, names); near != "" {
		return e.WithHint("did you mean %s? muster auth user create NAME makes one", near)
	}
	if len(names) == 0 {
		return e.WithHint("nobody is there yet: the server's first start makes admin")
	}
	return e.WithHint("all users: muster auth user list; muster auth user create NAME makes one")
}

// HasUsers says whether anybody can log in.
func (s *Service) HasUsers() bool {
	s.users.mu.RLock()
	defer s.users.mu.RUnlock()
	return len(s.users.users) > 0
}

// DeleteUser ends a user, and with the user all sessions and tokens of that name. The
// last administrator stays. It returns who that was.
func (s *Service) DeleteUser(ctx context.Context, by Who, name string) (User, error) {
	s.users.accounts.Lock()
	defer s.users.accounts.Unlock()
	all := s.Users()
	i := slices.IndexFunc(all, func(u User) bool { return u.Name == name })
	if i < 0 {
		return User{}, s.noUser(name)
	}
	if all[i].Role == Admin && !slices.ContainsFunc(all, func(u User) bool { return u.Role == Admin && u.Name != name }) {
		return User{}, model.Errorf(model.Conflict, "%s is the last administrator", name).
			WithHint("make another first: muster auth user create NAME --role admin")
	}
	return all[i], s.withTokens(ctx, by, Write{Key: Key{Kind: userKind, Name: name}, Expect: -1},
		func(t AccessToken) bool { return t.User == name })
}
