//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/test/harness"
)

// A forgotten password is set anew, whether the server runs or not; sessions made with
// the old one end, and login opens one with the new.
func TestPasswordReset(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Client() // logs in
	run := func(want int, args ...string) harness.Result {
		t.Helper()
		r := harness.Run(t, s.Env(), args...)
		if r.Code != want {
			t.Fatalf("muster %v: code %d, want %d\n%s%s", args, r.Code, want, r.Out, r.Errors)
		}
		return r
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(filepath.Dir(s.Context), name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := filepath.Join(s.Data, "pki", "ca.crt")
	login := func(want int, password string) harness.Result {
		t.Helper()
		return run(want, "login", "https://"+s.Listen, "--ca", ca, "--password-file", write("typed", password))
	}

	run(0, "auth", "whoami")
	out := run(0, "auth", "reset-password", "--data", s.Data).Out // one is made
	made := strings.Fields(out[strings.Index(out, "password ")+len("password "):])[0]
	if r := run(5, "auth", "whoami"); !strings.Contains(r.Errors, "muster login") {
		t.Errorf("a session of before: %s", r.Errors)
	}
	login(5, "four plain test words")
	login(0, made)
	run(0, "auth", "whoami")
	run(0, "auth", "reset-password", "--data", s.Data, "--password-file", write("new", "another plain password"))
	login(0, "another plain password")
	if r := run(2, "auth", "reset-password", "--data", s.Data, "--password-file", write("new", "short")); !strings.Contains(r.Errors, "8 characters") {
		t.Errorf("a short one: %s", r.Errors)
	}
	if _, err := os.Stat(filepath.Join(s.Data, "reset-password.json")); err == nil {
		t.Error("the request lies there still")
	}
	if out := run(0, "audit", "--limit", "50").Out; !strings.Contains(out, "muster auth reset-password") {
		t.Errorf("it is not recorded:\n%s", out)
	}
	if r := run(3, "auth", "reset-password", "--data", s.Data, "--user", "amdin"); !strings.Contains(r.Errors, "did you mean admin?") || r.Out != "" {
		t.Errorf("a user who is not there, asked of the server that runs: %s%s", r.Out, r.Errors)
	}
	if files, _ := filepath.Glob(filepath.Join(s.Data, "reset-password*")); len(files) > 0 {
		t.Errorf("%v are left", files)
	}
	run(0, "logout")
	run(5, "auth", "whoami")
	s.Stop()

	run(0, "auth", "reset-password", "--data", s.Data, "--password-file", write("new", "set while it was stopped"))
	run(3, "auth", "reset-password", "--data", filepath.Join(s.Data, "none"))
	if r := run(3, "auth", "reset-password", "--data", s.Data, "--user", "amdin"); !strings.Contains(r.Errors, "did you mean admin?") || r.Out != "" {
		t.Errorf("a user who is not there, with the server stopped: %s%s", r.Out, r.Errors)
	}
	s.Start()
	login(5, "another plain password")
	login(0, "set while it was stopped")
	s.Stop()
}
