package sensu

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recall is a list of this authority.
func (a *authority) recall(number int64, until time.Time, certs ...tls.Certificate) string {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: until.Add(-time.Hour), NextUpdate: until}
	for _, c := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: until.Add(-time.Hour)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

// Whose certificate is revoked is let go when the list says so, and refused from then on, whatever
// password it has; another one for the same machine is good. What cannot be read changes nothing, and is
// told once; a list that is out of date holds on, and is told of.
func TestRevokedCertificates(t *testing.T) {
	ca := newAuthority(t)
	folder := t.TempDir()
	file, crl := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "ca.crl")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, string(ca.pem()))
	var log lockedBuffer
	authorities, err := OpenAuthorities(file, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := authorities.OpenRevoked(crl, time.Now()); err == nil || !strings.Contains(err.Error(), "--sensu-client-crl FILE") {
		t.Errorf("not there: %v", err)
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	write(crl, ca.recall(1, tomorrow))
	if err := authorities.OpenRevoked(crl, time.Now()); err != nil {
		t.Fatal(err)
	}
	w := newWorldBehind(t, ca.serverTLS(authorities), func(c *Config) { c.Authorities = authorities })
	comes := func(cert *tls.Certificate, name, password string) (*agent, int) {
		t.Helper()
		a, status := w.shake(w.reach(ca, cert, nil), name, "default", password, false)
		if a != nil {
			w.live(a)
		}
		return a, status
	}
	first, second, other := ca.of("web1", "default"), ca.of("web1", "default"), ca.of("web2", "default")
	lost, _ := comes(&first, "web1", "")
	stays, _ := comes(&other, "web2", "")
	sharedPassword, _ := comes(nil, "web3", rightPassword)
	if lost == nil || stays == nil || sharedPassword == nil {
		t.Fatal("nothing is revoked yet")
	}
	again := func(at time.Time) {
		w.server.recheck(at)
		w.server.recheck(at)
	}

	write(crl, ca.recall(2, tomorrow, first))
	w.server.recheck(time.Now())
	if w.session("web1").Ended() {
		t.Error("somebody may be writing still")
	}
	w.server.recheck(time.Now())
	if err := lost.end(); err == nil {
		t.Error("its certificate is revoked")
	}
	if a, status := comes(&first, "web1", rightPassword); a != nil || status != http.StatusForbidden {
		t.Errorf("a revoked certificate: %d", status)
	}
	if a, status := comes(&second, "web1", ""); a == nil {
		t.Errorf("another one of the same machine: %d", status)
	}

	for _, damaged := range []string{"", "no list", newAuthority(t).recall(3, tomorrow, second)} {
		log.reset()
		write(crl, damaged)
		again(time.Now())
		again(time.Now())
		if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
			t.Errorf("told %d times: %s", n, log.text())
		}
	}
	if a, status := comes(&first, "web1", ""); a != nil {
		t.Errorf("what is damaged lets in: %d", status)
	}

	log.reset()
	write(crl, ca.recall(4, time.Now().Add(-time.Minute), first))
	again(time.Now())
	again(time.Now())
	if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
		t.Errorf("told %d times: %s", n, log.text())
	}
	authorities.Refresh(time.Now().Add(2 * time.Hour)) // without a look at who is connected: certificates end, too
	if n := strings.Count(log.text(), "level=ERROR"); n != 2 {
		t.Errorf("told %d times: %s", n, log.text())
	}
	if a, status := comes(&first, "web1", ""); a != nil {
		t.Errorf("what is out of date lets in: %d", status)
	}
	stays.alive()
	for _, a := range []*agent{stays, sharedPassword} {
		select {
		case err := <-a.ended:
			t.Errorf("nobody revoked it: %v", err)
		default:
		}
	}

	write(crl, ca.recall(5, tomorrow))
	again(time.Now())
	if a, status := comes(&first, "web1", ""); a != nil || status != http.StatusConflict {
		t.Errorf("it is good again, and another one holds the name: %d", status)
	}
}

// A certificate is that of the authority that signed it: another one's list says nothing of it,
// though name and number are the same.
func TestNamesakesRevokeTheirOwn(t *testing.T) {
	one, two := newAuthority(t), newAuthority(t)
	cert := one.of("web1", "default")
	read, err := parseLists([]byte(two.recall(1, time.Now().Add(time.Hour), cert)), []*x509.Certificate{one.cert, two.cert})
	if err != nil {
		t.Fatal(err)
	}
	chain := [][]*x509.Certificate{{cert.Leaf, one.cert}}
	if _, ok := read.entries[serialsOf(chain)[0]]; ok {
		t.Error("revoked by a namesake")
	}
}
