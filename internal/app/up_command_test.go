package app

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/firststart"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// newTestUp returns the command muster up for tests, with a given context file and without an agent. The
// context file has address and login.
func newTestUp(t *testing.T, context string) (*Up, *Server) {
	t.Helper()
	cfg := testSettings(t, filepath.Join(t.TempDir(), "data"))
	s, _ := startServer(t, cfg)
	testenv.Value(firststart.CreateAdmin(t.Context(), s.access, ""))(t)
	return &Up{Config: cfg, Context: context, Program: "muster", Out: io.Discard, Log: s.log}, s
}

// saveAndLoad lets muster up save its context file (server address and login), and loads the file again. The
// file has server address and login.
func saveAndLoad(t *testing.T, u *Up, s *Server) client.Context {
	t.Helper()
	testenv.NoError(t, u.saveContext(t.Context(), s))
	c, err := client.LoadContext(u.Context)
	testenv.NoError(t, err)
	if _, err := s.access.Authenticate(c.Token); err != nil {
		t.Errorf("the context's token: %v", err)
	}
	return c
}

// TestContextOfAnotherServerIsMoved finds another server's login in the context file, and expects a move to a separate
// file. The other server has the same address and another data folder.
func TestContextOfAnotherServerIsMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "context.yaml")
	u, s := newTestUp(t, path)
	other, err := pki.Open(filepath.Join(t.TempDir(), "other"), []string{"localhost"}, time.Now)
	testenv.NoError(t, err)
	theirs := client.Context{Server: localURL(s.people), CA: string(other.CAPEM()), Token: "theirs", User: "ada", Namespace: "prod", Data: "/srv/other"}
	where := path + "." + strings.ReplaceAll(strings.TrimPrefix(localURL(s.people), "https://"), ":", "-")
	earlier := "token: of an earlier one\n"
	testenv.NoError(t, errors.Join(client.SaveContext(path, theirs), os.WriteFile(where, []byte(earlier), 0o600)))
	c := saveAndLoad(t, u, s)
	if c.User != "admin" || c.Namespace != "" {
		t.Errorf("taken from another server: %+v", c)
	}
	if kept, err := client.LoadContext(u.replaced.File); err != nil || kept != theirs {
		t.Errorf("%s holds %+v, %v", u.replaced.File, kept, err)
	}
	if was, err := os.ReadFile(where); err != nil || string(was) != earlier {
		t.Errorf("what was kept before is %q, %v", was, err)
	}
	if u.replaced.Server != theirs.Server {
		t.Errorf("said of %q", u.replaced.Server)
	}
}

// TestTwoServersShareContextFile lets two servers use one context file alternately and expects each to find its own login
// again
func TestTwoServersShareContextFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "context.yaml")
	a, of := newTestUp(t, path)
	b, other := newTestUp(t, path)
	first := saveAndLoad(t, a, of)
	first.Namespace = "web"
	testenv.NoError(t, client.SaveContext(path, first))
	second := saveAndLoad(t, b, other)
	if second.Namespace != "" {
		t.Errorf("the other one's namespace: %+v", second)
	}
	for range 3 {
		if c := saveAndLoad(t, a, of); c != first {
			t.Errorf("%+v, want %+v", c, first)
		}
		if c := saveAndLoad(t, b, other); c != second {
			t.Errorf("%+v, want %+v", c, second)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestUpKeepsValidToken starts muster up with a valid saved login, and expects the login to be kept. A change of the
// port must not matter.
func TestUpKeepsValidToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "context.yaml")
	u, s := newTestUp(t, path)
	by := intent.Actor{User: "admin"}
	testenv.Value(s.access.CreateUser(t.Context(), by, access.User{Name: "ada", Grants: access.Grants{Role: access.Viewer}}, "correct horse battery"))(t)
	token, _, err := s.access.CreateToken(t.Context(), by, access.AccessToken{User: "ada", Grants: access.Grants{Role: access.Viewer}})
	testenv.NoError(t, err)
	c := saveAndLoad(t, u, s)
	if first, err := s.access.Authenticate(c.Token); err != nil || !first.MayRun("default") {
		t.Errorf("the first administrator may not run commands by the context file: %+v, %v", first, err)
	}
	c.Token, c.User, c.Namespace, c.Server = token, "ada", "web", "https://localhost:1"
	testenv.NoError(t, client.SaveContext(path, c))
	got := saveAndLoad(t, u, s)
	if c.Server = localURL(s.people); got != c || u.replaced.File != "" {
		t.Errorf("%+v, want %+v; %s", got, c, u.replaced.File)
	}
}

// TestStartPageShowsReachability expects the start page of muster up to say which machines can reach the
// server.
func TestStartPageShowsReachability(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:9443": "127.0.0.1:9443, for this machine alone", "[::1]:9443": "[::1]:9443, for this machine alone",
		"[::]:8443":     "port 8443 of all addresses, for other machines too; for this one alone: --listen 127.0.0.1:8443",
		"192.0.2.7:443": "192.0.2.7:443, for other machines too; for this one alone: --listen 127.0.0.1:443",
	} {
		if got := reachableFromText(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
