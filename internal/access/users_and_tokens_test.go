package access_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/testenv"
)

// assertRefused returns a function that fails the test unless an error has the expected class and text.
func assertRefused(t *testing.T, class model.Class, contains string) func(result any, err error) {
	return func(_ any, err error) {
		t.Helper()
		if model.ClassOf(err) != class || !strings.Contains(err.Error(), contains) {
			t.Errorf("got error %v, expected class %s with %q", err, class.Label(), contains)
		}
	}
}

// TestUsersAreCreatedAndDeleted creates and deletes users, and expects errors for names that exist or are invalid. The
// last administrator cannot be deleted.
func TestUsersAreCreatedAndDeleted(t *testing.T) {
	w, ctx := newTestAccounts(t), t.Context()
	create := func(name, role, password string) error {
		_, err := w.CreateUser(ctx, adaAuthor, access.User{Name: name, Grants: access.Grants{Role: role}}, password)
		return err
	}
	testenv.NoError(t, create("admin", access.Admin, "correct horse"))
	for _, c := range []struct {
		name, role, password string
		want                 model.Class
	}{
		{"admin", access.Viewer, "correct horse", model.Conflict}, {"", access.Viewer, "correct horse", model.Invalid},
		{"server", access.Admin, "correct horse", model.Invalid}, {"agent:1", access.Admin, "correct horse", model.Invalid},
		{"a b", access.Admin, "correct horse", model.Invalid}, {"eve", "captain", "correct horse", model.Invalid}, {"eve", access.Admin, "short", model.Invalid},
	} {
		if err := create(c.name, c.role, c.password); model.ClassOf(err) != c.want || err == nil {
			t.Errorf("user %q, role %q, password %q: got %v", c.name, c.role, c.password, err)
		}
	}
	testenv.NoError(t, create("ada@example.org", access.Viewer, "battery staple"))
	session, made, err := w.Login(ctx, "ada@example.org", "battery staple", "here")
	if err != nil || made.Role != access.Viewer {
		t.Fatal(made, err)
	}
	program, _, err := w.CreateToken(ctx, adaAuthor, access.AccessToken{User: "ada@example.org", Grants: access.Grants{Role: access.Viewer}})
	testenv.NoError(t, err)
	others, _, err := w.CreateToken(ctx, adaAuthor, access.AccessToken{User: "dashboard", Grants: access.Grants{Role: access.Viewer}})
	testenv.NoError(t, err)
	w.restart(t) // as after a restart
	users := w.Users()
	if len(users) != 2 || users[0].Name != "ada@example.org" || users[0].Sessions != 1 || users[0].Tokens != 1 || !users[0].Created.Equal(w.now) || users[1].Role != access.Admin {
		t.Errorf("users: %+v", users)
	}
	assertRefused(t, model.Conflict, "last administrator")(w.DeleteUser(ctx, adaAuthor, "admin"))
	assertRefused(t, model.NotFound, "did you mean ada@example.org?")(w.DeleteUser(ctx, adaAuthor, "ada@exmaple.org"))
	if u, err := w.DeleteUser(ctx, adaAuthor, "ada@example.org"); err != nil || u.Sessions != 1 || u.Tokens != 1 {
		t.Fatal(u, err)
	}
	for range 2 {
		assertRefused(t, model.Unauthenticated, "")(w.Authenticate(session))
		assertRefused(t, model.Unauthenticated, "")(w.Authenticate(program))
		if _, err := w.Authenticate(others); err != nil {
			t.Errorf("the token of another name: %v", err)
		}
		w.restart(t)
	}
	if _, _, err := w.Login(ctx, "ada@example.org", "battery staple", "here"); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("login of a deleted user: got %v", err)
	}
	testenv.NoError(t, create("second", access.Admin, "battery staple"))
	if _, err := w.DeleteUser(ctx, adaAuthor, "admin"); err != nil {
		t.Errorf("deleting one of two administrators: %v", err)
	}
}

// TestChangingAPasswordKeepsTheRole resets and changes the password of a viewer and expects the role to stay
func TestChangingAPasswordKeepsTheRole(t *testing.T) {
	w, ctx := newTestAccounts(t), t.Context()
	const was, is = "correct horse", "battery staple"
	if _, err := w.CreateUser(ctx, adaAuthor, access.User{Name: "ada", Grants: access.Grants{Role: access.Viewer}}, was); err != nil {
		t.Fatal(err)
	}
	login := func(password string) (string, string) {
		t.Helper()
		token, made, err := w.Login(ctx, "ada", password, "here")
		testenv.NoError(t, err)
		return token, made.ID
	}
	here, id := login(was)
	elsewhere, _ := login(was)
	by := intent.Actor{User: "ada", Address: "here"}
	for _, c := range []struct {
		by       intent.Actor
		was, new string
		want     model.Class
	}{
		{by, "wrong horse", is, model.Forbidden}, {by, was, "short", model.Invalid}, {by, was, "", model.Invalid},
		{intent.Actor{User: "dashboard"}, was, is, model.NotFound},
	} {
		if err := w.ChangePassword(ctx, c.by, id, c.was, c.new); model.ClassOf(err) != c.want || err == nil {
			t.Errorf("%s, %q to %q: got %v", c.by.User, c.was, c.new, err)
		}
	}
	if _, err := w.Authenticate(elsewhere); err != nil {
		t.Fatalf("after refusals: %v", err)
	}
	testenv.NoError(t, w.ChangePassword(ctx, by, id, was, is))
	if _, err := w.Authenticate(here); err != nil {
		t.Errorf("the session that asked: %v", err)
	}
	assertRefused(t, model.Unauthenticated, "")(w.Authenticate(elsewhere))
	if _, _, err := w.Login(ctx, "ada", was, "here"); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("the old password: %v", err)
	}
	login(is)
	_, hash, err := access.HashPassword("yet another")
	testenv.NoError(t, err)
	testenv.NoError(t, w.ResetPassword(ctx, adaAuthor, "ada", hash, false))
	w.restart(t)
	token, _ := login("yet another")
	if who, err := w.Authenticate(token); err != nil || who.Role != access.Viewer {
		t.Errorf("after a reset: %v %v", who, err)
	}
}

// TestSessionsAreBounded expects a login to delete expired tokens and the user's oldest session above fifty.
func TestSessionsAreBounded(t *testing.T) {
	w, ctx := newTestAccounts(t), t.Context()
	if _, _, err := w.CreateToken(ctx, adaAuthor, access.AccessToken{User: "ada", Grants: access.Grants{Role: access.Viewer}, Expires: w.now.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.CreateToken(ctx, adaAuthor, access.AccessToken{User: "ada", Grants: access.Grants{Role: access.Viewer}, Note: "for ever"}); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	if _, err := w.CreateUser(ctx, adaAuthor, access.User{Name: "ada", Grants: access.Grants{Role: access.Admin}}, "correct horse"); err != nil {
		t.Fatal(err)
	}
	var first, last string
	for i := range 55 {
		w.now = w.now.Add(time.Second)
		token, err := w.NewSession(ctx, "ada")
		testenv.NoError(t, err)
		if i == 0 {
			first = token
		}
		last = token
	}
	if n := len(w.Tokens()); n != 51 { // fifty sessions and the token that does not expire
		t.Errorf("%d tokens", n)
	}
	assertRefused(t, model.Unauthenticated, "")(w.Authenticate(first))
	if _, err := w.Authenticate(last); err != nil {
		t.Errorf("the newest session: %v", err)
	}
}

var adaAuthor = intent.Actor{User: "ada", Address: "127.0.0.1", Message: "test"}

// accountsFixture is an access service with a real database and a clock that the test sets.
type accountsFixture struct {
	*access.Service
	store intent.Store
	dsn   string
	now   time.Time
}

// newTestAccounts returns an access service with a new database and a clock that the test sets.
func newTestAccounts(t *testing.T) *accountsFixture {
	w := &accountsFixture{dsn: filepath.Join(t.TempDir(), "intent.db"), now: time.Unix(1000, 0)}
	w.restart(t)
	return w
}

// restart opens the database and loads a new service, as a restart of the server does.
func (w *accountsFixture) restart(t *testing.T) {
	t.Helper()
	store, err := intentdb.Open(t.Context(), w.dsn, kind.All(), func() time.Time { return w.now })
	testenv.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	w.store, w.Service = store, access.NewService(access.Options{Store: store, Now: func() time.Time { return w.now }})
	testenv.NoError(t, w.Load(t.Context()))
}

// TestLoginsAndTokensAuthenticate logs in and creates tokens, and expects that both authenticate, also after a restart.
func TestLoginsAndTokensAuthenticate(t *testing.T) {
	w, ctx := newTestAccounts(t), t.Context()
	password, err := w.CreateUser(ctx, adaAuthor, access.User{Name: "admin", Grants: access.Grants{Role: access.Admin}}, "")
	if err != nil || len(password) < 16 {
		t.Fatal(password, err)
	}
	for _, try := range [][2]string{{"admin", "wrong password"}, {"nobody", password}} {
		if _, _, err := w.Login(ctx, try[0], try[1], "here"); model.ClassOf(err) != model.Unauthenticated {
			t.Fatalf("%v: got %v", try, err)
		}
	}
	session, _, err := w.Login(ctx, "admin", password, "here")
	testenv.NoError(t, err)
	program, made, err := w.CreateToken(ctx, adaAuthor, access.AccessToken{User: "backup", Grants: access.Grants{Role: access.Viewer}, Expires: w.now.Add(time.Hour)})
	testenv.NoError(t, err)
	w.restart(t)
	if who, err := w.Authenticate(session); err != nil || who.User != "admin" || who.Role != access.Admin {
		t.Fatal(who, err)
	}
	if who, err := w.Authenticate(program); err != nil || who.Role != access.Viewer {
		t.Fatal(who, err)
	}
	w.now = w.now.Add(2 * time.Hour)
	assertRefused(t, model.Unauthenticated, "")(w.Authenticate(program))
	testenv.NoError(t, w.RevokeToken(ctx, adaAuthor, made.ID))
	_, hash, err := access.HashPassword("another one")
	testenv.NoError(t, err)
	assertRefused(t, model.NotFound, "did you mean admin?")(nil, w.ResetPassword(ctx, adaAuthor, "amdin", hash, false))
	testenv.NoError(t, w.ResetPassword(ctx, adaAuthor, "admin", hash, false))
	assertRefused(t, model.Unauthenticated, "")(w.Authenticate(session))
	changes, err := w.store.Changes(ctx, 0, 0)
	data, _ := json.Marshal(changes)
	if err != nil || strings.Contains(string(data), "argon2id") || strings.Contains(string(data), "sum") {
		t.Fatal("the audit contains secrets")
	}
}
