package sensu

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReloadedAuthoritiesReplaceSessions checks that agents of a newly added CA can connect while old sessions
// continue. Sessions of a removed authority end, and its agents are refused. An unreadable file changes nothing and
// is logged once.
func TestReloadedAuthoritiesReplaceSessions(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(texts ...string) {
		t.Helper()
		testenv.NoError(t, os.WriteFile(file, []byte(strings.Join(texts, "")), 0o600))
	}
	write(string(before.PEM()))
	var log lockedBuffer
	authorities := testenv.Value(admission.OpenAuthorities("--sensu-client", file, slog.New(slog.NewTextHandler(&log, nil))))(t)
	w := newTestServerTLS(t, before.serverTLS(authorities), func(c *Config) { c.Authorities = authorities })
	refused := func(by *testAuthority) bool {
		t.Helper()
		cert := by.issueAgent("web9", "default")
		conn := w.dialTLS(before, &cert, nil)
		_, err := conn.Write([]byte("GET / HTTP/1.1\r\n"))
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		return err != nil && strings.Contains(err.Error(), "unknown certificate authority")
	}
	// comes connects one to the server, whose own certificate stays.
	comes := func(by *testAuthority, name string) *testAgent {
		t.Helper()
		cert := by.issueAgent(name, "default")
		a := w.mustHandshake(w.dialTLS(before, &cert, nil), name, "", false)
		return w.openSession(a)
	}
	old := comes(before, "web1")
	sharedPassword := w.mustHandshake(w.dialTLS(before, nil, nil), "web3", rightPassword, false)
	w.openSession(sharedPassword)
	if !refused(after) {
		t.Error("an unknown authority is accepted")
	}

	for _, damaged := range []string{"", "no PEM", string(before.PEM()) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		write(string(before.PEM()))
		w.server.recheckSessions(time.Now())
		log.reset()
		write(damaged)
		for range 4 {
			w.server.recheckSessions(time.Now())
		}
		if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
			t.Errorf("%q: %d errors logged, want 1: %s", damaged, n, log.text())
		}
	}
	testenv.NoError(t, os.Remove(file))
	w.server.recheckSessions(time.Now())
	comes(before, "web4")

	log.reset()
	write(string(before.PEM()), string(after.PEM()))
	w.server.recheckSessions(time.Now())
	if !refused(after) {
		t.Error("the list was applied before two reads agreed")
	}
	w.server.recheckSessions(time.Now())
	if !strings.Contains(log.text(), "authorities=2 new=1 gone=0") {
		t.Errorf("logged: %s", log.text())
	}
	young := comes(after, "web2")
	if w.session("web1").Ended() || !w.session("web2").proven {
		t.Error("a session of an accepted authority ended")
	}

	write(string(after.PEM()))
	w.server.recheckSessions(time.Now())
	w.server.recheckSessions(time.Now())
	if err := old.waitEnd(); err == nil {
		t.Error("the session of a removed authority did not end")
	}
	if !refused(before) {
		t.Error("a removed authority is accepted")
	}
	w.server.recheckSessions(time.Now())
	young.sendKeepalive()
	select {
	case err := <-young.ended:
		t.Errorf("of the new authority: %v", err)
	case err := <-sharedPassword.ended:
		t.Errorf("by a password: %v", err)
	default:
	}
}

// A revocation ends the session of the certificate, and refuses later connections. A right password does not help.
// Another certificate of the machine is accepted. An unreadable list changes nothing and is logged once; an expired
// list stays in force and is logged.
func TestRevokedCertificateEndsItsSession(t *testing.T) {
	ca := newAuthority(t)
	folder := t.TempDir()
	file, crl := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "ca.crl")
	write := func(path, text string) {
		t.Helper()
		testenv.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(file, string(ca.PEM()))
	var log lockedBuffer
	authorities := testenv.Value(admission.OpenAuthorities("--sensu-client", file, slog.New(slog.NewTextHandler(&log, nil))))(t)
	if err := authorities.OpenRevoked(crl, time.Now()); err == nil || !strings.Contains(err.Error(), "--sensu-client-crl FILE") {
		t.Errorf("not there: %v", err)
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	write(crl, ca.RevocationList(1, tomorrow))
	testenv.NoError(t, authorities.OpenRevoked(crl, time.Now()))
	w := newTestServerTLS(t, ca.serverTLS(authorities), func(c *Config) { c.Authorities = authorities })
	comes := func(cert *tls.Certificate, name, password string) (*testAgent, int) {
		t.Helper()
		a, status := w.handshake(w.dialTLS(ca, cert, nil), name, "default", password, false)
		if a != nil {
			w.openSession(a)
		}
		return a, status
	}
	first, second, other := ca.issueAgent("web1", "default"), ca.issueAgent("web1", "default"), ca.issueAgent("web2", "default")
	lost, _ := comes(&first, "web1", "")
	stays, _ := comes(&other, "web2", "")
	sharedPassword, _ := comes(nil, "web3", rightPassword)
	if lost == nil || stays == nil || sharedPassword == nil {
		t.Fatal("an agent was refused before the revocation")
	}
	again := func(at time.Time) {
		w.server.recheckSessions(at)
		w.server.recheckSessions(at)
	}

	write(crl, ca.RevocationList(2, tomorrow, first))
	w.server.recheckSessions(time.Now())
	if w.session("web1").Ended() {
		t.Error("the list was applied before two reads agreed")
	}
	w.server.recheckSessions(time.Now())
	if err := lost.waitEnd(); err == nil {
		t.Error("the session of a revoked certificate did not end")
	}
	if a, status := comes(&first, "web1", rightPassword); a != nil || status != http.StatusForbidden {
		t.Errorf("a revoked certificate: %d", status)
	}
	if a, status := comes(&second, "web1", ""); a == nil {
		t.Errorf("another one of the same machine: %d", status)
	}

	for _, damaged := range []string{"", "no list", newAuthority(t).RevocationList(3, tomorrow, second)} {
		log.reset()
		write(crl, damaged)
		again(time.Now())
		again(time.Now())
		if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
			t.Errorf("%d errors logged, want 1: %s", n, log.text())
		}
	}
	if a, status := comes(&first, "web1", ""); a != nil {
		t.Errorf("what is damaged lets in: %d", status)
	}

	log.reset()
	write(crl, ca.RevocationList(4, time.Now().Add(-time.Minute), first))
	again(time.Now())
	again(time.Now())
	if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors logged, want 1: %s", n, log.text())
	}
	authorities.Refresh(time.Now().Add(2 * time.Hour)) // without a look at who is connected: certificates end, too
	if n := strings.Count(log.text(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors logged, want 1: %s", n, log.text())
	}
	if a, status := comes(&first, "web1", ""); a != nil {
		t.Errorf("what is out of date lets in: %d", status)
	}
	stays.sendKeepalive()
	for _, a := range []*testAgent{stays, sharedPassword} {
		select {
		case err := <-a.ended:
			t.Errorf("the session of a valid certificate ended: %v", err)
		default:
		}
	}

	write(crl, ca.RevocationList(5, tomorrow))
	again(time.Now())
	if a, status := comes(&first, "web1", ""); a != nil || status != http.StatusConflict {
		t.Errorf("it is good again, and another one holds the name: %d", status)
	}
}
