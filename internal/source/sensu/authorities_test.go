package sensu

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A new authority comes in beside the old one while sessions live; when the old one is taken out of
// the file its agents go, and are refused. What cannot be read changes nothing, and is told once.
func TestAnotherAuthorityTakesOver(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(texts ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(texts, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(before.pem()))
	var log lockedBuffer
	authorities, err := OpenAuthorities(file, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldBehind(t, before.serverTLS(authorities), func(c *Config) { c.Authorities = authorities })
	refused := func(by *authority) bool {
		t.Helper()
		cert := by.of("web9", "default")
		conn := w.reach(before, &cert, nil)
		_, err := conn.Write([]byte("GET / HTTP/1.1\r\n"))
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		return err != nil && strings.Contains(err.Error(), "unknown certificate authority")
	}
	// comes connects one to the server, whose own certificate stays.
	comes := func(by *authority, name string) *agent {
		t.Helper()
		cert := by.of(name, "default")
		a, status := w.shake(w.reach(before, &cert, nil), name, "default", "", false)
		if a == nil {
			t.Fatalf("%s is refused with %d", name, status)
		}
		return w.live(a)
	}
	old := comes(before, "web1")
	sharedPassword, status := w.shake(w.reach(before, nil, nil), "web3", "default", rightPassword, false)
	if sharedPassword == nil {
		t.Fatal(status)
	}
	w.live(sharedPassword)
	if !refused(after) {
		t.Error("a stranger's authority is taken")
	}

	for _, damaged := range []string{"", "no PEM", string(before.pem()) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		write(string(before.pem()))
		w.server.recheck(time.Now())
		log.reset()
		write(damaged)
		for range 4 {
			w.server.recheck(time.Now())
		}
		if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
			t.Errorf("%q: told %d times: %s", damaged, n, log.text())
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.server.recheck(time.Now())
	comes(before, "web4")

	log.reset()
	write(string(before.pem()), string(after.pem()))
	w.server.recheck(time.Now())
	if !refused(after) {
		t.Error("somebody may be writing still")
	}
	w.server.recheck(time.Now())
	if !strings.Contains(log.text(), "authorities=2 new=1 gone=0") {
		t.Errorf("told: %s", log.text())
	}
	young := comes(after, "web2")
	if w.session("web1").Ended() || !w.session("web2").proven {
		t.Error("both are good")
	}

	write(string(after.pem()))
	w.server.recheck(time.Now())
	w.server.recheck(time.Now())
	if err := old.end(); err == nil {
		t.Error("its authority is gone")
	}
	if !refused(before) {
		t.Error("an authority that was taken out is taken still")
	}
	w.server.recheck(time.Now())
	young.alive()
	select {
	case err := <-young.ended:
		t.Errorf("of the new authority: %v", err)
	case err := <-sharedPassword.ended:
		t.Errorf("by a password: %v", err)
	default:
	}
}

// A server does not start with a file that is none.
func TestAuthoritiesThatAreNone(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if _, err := OpenAuthorities(file, log); err == nil || !strings.Contains(err.Error(), "--sensu-client-ca FILE") {
		t.Errorf("not there: %v", err)
	}
	if err := os.WriteFile(file, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthorities(file, log); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("no PEM: %v", err)
	}
}
