package api_test

import (
	"testing"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// A user who may only look sees and changes nobody but the own password, and is out at
// once when deleted, also of what was being watched.
func TestUsers(t *testing.T) {
	r := apitest.New(t)
	ctx := t.Context()
	admin, ada := dial(t, r, r.Token), dial(t, r, "")
	made, err := admin.Access.CreateUser(ctx, v1.UserRequest{Name: "ada"})
	if err != nil || made.Role != access.Viewer || len(made.Password) < 16 {
		t.Fatal(made, err)
	}
	if other, err := admin.Access.CreateUser(ctx, v1.UserRequest{Name: "bob", UserGrants: v1.UserGrants{Role: access.Admin}, Password: "battery staple"}); err != nil || other.Password != "" {
		t.Fatal(other, err)
	}
	if _, err := ada.Access.Login(ctx, "ada", made.Password); err != nil {
		t.Fatal(err)
	}
	if _, err := ada.Access.CreateUser(ctx, v1.UserRequest{Name: "eve", UserGrants: v1.UserGrants{Role: access.Admin}}); model.ClassOf(err) != model.Forbidden {
		t.Errorf("a viewer makes a user: %v", err)
	}
	if _, err := ada.Access.DeleteUser(ctx, "bob"); model.ClassOf(err) != model.Forbidden {
		t.Errorf("a viewer deletes a user: %v", err)
	}
	if list, err := ada.Access.Users(ctx); err != nil || len(list.Items) != 1 || list.Items[0].Name != "ada" {
		t.Errorf("what a viewer sees: %v %v", list, err)
	}
	if list, err := admin.Access.Users(ctx); err != nil || len(list.Items) != 3 {
		t.Errorf("what an administrator sees: %v %v", list, err)
	}
	if err := ada.Access.ChangePassword(ctx, v1.PasswordChange{Old: "wrong horse", New: "my own password"}); model.ClassOf(err) != model.Forbidden {
		t.Errorf("with the wrong password: %v", err)
	}
	if err := ada.Access.ChangePassword(ctx, v1.PasswordChange{Old: made.Password, New: "my own password"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ada.Access.Login(ctx, "ada", "my own password"); err != nil {
		t.Fatal(err)
	}
	r.Apply(fleet)
	r.Nodes("default", nil, "web01")
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- ada.Events.Watch(ctx, v1.EventFilter{}, func() error { close(began); return nil }, func(e v1.Event) error {
			t.Errorf("who was deleted is told of %s on %s", e.Check, e.Node)
			return nil
		})
	}()
	<-began
	if u, err := admin.Access.DeleteUser(ctx, "ada"); err != nil || u.Sessions != 2 {
		t.Fatal(u, err)
	}
	r.Result("default", "web01", "disk", model.Critical, "full")
	<-ended
	if _, err := ada.Access.WhoAmI(ctx); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("who was deleted: %v", err)
	}
	list, err := admin.Resources.Changes(ctx, "", "", "", 20, "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range list.Items {
		if c.Kind == "user" {
			seen[c.User+" "+c.Op+" "+c.Name] = true
		}
	}
	for _, want := range []string{"admin create ada", "admin create bob", "ada update ada", "admin delete ada"} {
		if !seen[want] {
			t.Errorf("%q is not recorded: %v", want, seen)
		}
	}
}
