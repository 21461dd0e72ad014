package access_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/intentdb"
)

var ada = intent.Actor{User: "ada", Whence: "127.0.0.1", Why: "test"}

// world is a service over a real store, at a time of its own.
type world struct {
	*access.Service
	store intent.Store
	dsn   string
	now   time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{dsn: filepath.Join(t.TempDir(), "intent.db"), now: time.Unix(1000, 0)}
	w.open(t)
	return w
}

// open starts the service again, as after a restart.
func (w *world) open(t *testing.T) {
	t.Helper()
	store, err := intentdb.Open(t.Context(), w.dsn, func() time.Time { return w.now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w.store, w.Service = store, access.NewService(access.Options{Store: store, Now: func() time.Time { return w.now }})
	if err := w.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestUsersAndTokens(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	password, err := w.CreateUser(ctx, ada, access.User{Name: "admin", Grants: access.Grants{Role: access.Admin}}, "")
	if err != nil || len(password) < 16 {
		t.Fatal(password, err)
	}
	for _, try := range [][2]string{{"admin", "wrong password"}, {"nobody", password}} {
		if _, _, err := w.Login(ctx, try[0], try[1], "here"); model.ClassOf(err) != model.Unauthenticated {
			t.Fatalf("%v: got %v", try, err)
		}
	}
	session, _, err := w.Login(ctx, "admin", password, "here")
	if err != nil {
		t.Fatal(err)
	}
	program, made, err := w.CreateToken(ctx, ada, access.AccessToken{User: "backup", Grants: access.Grants{Role: access.Viewer}, Expires: w.now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	w.open(t)
	if who, err := w.Authenticate(session); err != nil || who.User != "admin" || who.Role != access.Admin {
		t.Fatal(who, err)
	}
	if who, err := w.Authenticate(program); err != nil || who.Role != access.Viewer {
		t.Fatal(who, err)
	}
	w.now = w.now.Add(2 * time.Hour)
	if _, err := w.Authenticate(program); model.ClassOf(err) != model.Unauthenticated {
		t.Fatalf("an expired token: got %v", err)
	}
	if err := w.RevokeToken(ctx, ada, made.ID); err != nil {
		t.Fatal(err)
	}
	_, hash, err := access.HashPassword("another one")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.ResetPassword(ctx, ada, "amdin", hash, false); model.ClassOf(err) != model.NotFound || !strings.Contains(err.Error(), "did you mean admin?") {
		t.Fatalf("a user who is not there: got %v", err)
	}
	if err := w.ResetPassword(ctx, ada, "admin", hash, false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Authenticate(session); model.ClassOf(err) != model.Unauthenticated {
		t.Fatalf("a session outlived its password: %v", err)
	}
	changes, err := w.store.Changes(ctx, 0, 0)
	data, _ := json.Marshal(changes)
	if err != nil || strings.Contains(string(data), "argon2id") || strings.Contains(string(data), "sum") {
		t.Fatal("secrets stand in the record of changes")
	}
}
