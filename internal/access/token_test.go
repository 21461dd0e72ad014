package access_test

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/model"
)

// Who logs in again and again does not fill the store: what expired goes, and beyond
// fifty sessions the oldest end.
func TestSessionsAreBounded(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	if _, _, err := w.CreateToken(ctx, ada, access.AccessToken{User: "ada", Grants: access.Grants{Role: access.Viewer}, Expires: w.now.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.CreateToken(ctx, ada, access.AccessToken{User: "ada", Grants: access.Grants{Role: access.Viewer}, Note: "for ever"}); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	if _, err := w.CreateUser(ctx, ada, access.User{Name: "ada", Grants: access.Grants{Role: access.Admin}}, "correct horse"); err != nil {
		t.Fatal(err)
	}
	var first, last string
	for i := range 55 {
		w.now = w.now.Add(time.Second)
		token, err := w.NewSession(ctx, "ada")
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = token
		}
		last = token
	}
	if n := len(w.Tokens()); n != 51 { // fifty sessions and the token that does not expire
		t.Errorf("%d tokens", n)
	}
	if _, err := w.Authenticate(first); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("the oldest session: %v", err)
	}
	if _, err := w.Authenticate(last); err != nil {
		t.Errorf("the newest session: %v", err)
	}
}
