package access_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

func TestUsersComeAndGo(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	create := func(name, role, password string) error {
		_, err := w.CreateUser(ctx, ada, access.User{Name: name, Grants: access.Grants{Role: role}}, password)
		return err
	}
	if err := create("admin", access.Admin, "correct horse"); err != nil {
		t.Fatal(err)
	}
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
	if err := create("ada@example.org", access.Viewer, "battery staple"); err != nil {
		t.Fatal(err)
	}
	session, made, err := w.Login(ctx, "ada@example.org", "battery staple", "here")
	if err != nil || made.Role != access.Viewer {
		t.Fatal(made, err)
	}
	program, _, err := w.CreateToken(ctx, ada, access.AccessToken{User: "ada@example.org", Grants: access.Grants{Role: access.Viewer}})
	if err != nil {
		t.Fatal(err)
	}
	others, _, err := w.CreateToken(ctx, ada, access.AccessToken{User: "dashboard", Grants: access.Grants{Role: access.Viewer}})
	if err != nil {
		t.Fatal(err)
	}
	w.open(t) // as after a restart
	users := w.Users()
	if len(users) != 2 || users[0].Name != "ada@example.org" || users[0].Sessions != 1 || users[0].Tokens != 1 || !users[0].Created.Equal(w.now) || users[1].Role != access.Admin {
		t.Errorf("users: %+v", users)
	}
	if _, err := w.DeleteUser(ctx, ada, "admin"); model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "last administrator") {
		t.Errorf("the last administrator: got %v", err)
	}
	if _, err := w.DeleteUser(ctx, ada, "ada@exmaple.org"); model.ClassOf(err) != model.NotFound || !strings.Contains(err.Error(), "did you mean ada@example.org?") {
		t.Errorf("nobody: got %v", err)
	}
	if u, err := w.DeleteUser(ctx, ada, "ada@example.org"); err != nil || u.Sessions != 1 || u.Tokens != 1 {
		t.Fatal(u, err)
	}
	for range 2 {
		for name, token := range map[string]string{"session": session, "token": program} {
			if _, err := w.Authenticate(token); model.ClassOf(err) != model.Unauthenticated {
				t.Errorf("the %s outlived the user: %v", name, err)
			}
		}
		if _, err := w.Authenticate(others); err != nil {
			t.Errorf("the token of another name: %v", err)
		}
		w.open(t)
	}
	if _, _, err := w.Login(ctx, "ada@example.org", "battery staple", "here"); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("login of who was deleted: got %v", err)
	}
	if err := create("second", access.Admin, "battery staple"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.DeleteUser(ctx, ada, "admin"); err != nil {
		t.Errorf("an administrator of two: %v", err)
	}
}

// A viewer whose password is set anew, or who changes it, is a viewer still.
func TestOwnPassword(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	const was, is = "correct horse", "battery staple"
	if _, err := w.CreateUser(ctx, ada, access.User{Name: "ada", Grants: access.Grants{Role: access.Viewer}}, was); err != nil {
		t.Fatal(err)
	}
	login := func(password string) (string, string) {
		t.Helper()
		token, made, err := w.Login(ctx, "ada", password, "here")
		if err != nil {
			t.Fatal(err)
		}
		return token, made.ID
	}
	here, id := login(was)
	elsewhere, _ := login(was)
	by := intent.Actor{User: "ada", Whence: "here"}
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
	if err := w.ChangePassword(ctx, by, id, was, is); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Authenticate(here); err != nil {
		t.Errorf("the session that asked: %v", err)
	}
	if _, err := w.Authenticate(elsewhere); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("another session outlived the password: %v", err)
	}
	if _, _, err := w.Login(ctx, "ada", was, "here"); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("the old password: %v", err)
	}
	login(is)
	_, hash, err := access.HashPassword("yet another")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.ResetPassword(ctx, ada, "ada", hash, false); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	token, _ := login("yet another")
	if who, err := w.Authenticate(token); err != nil || who.Role != access.Viewer {
		t.Errorf("after a reset: %v %v", who, err)
	}
}
