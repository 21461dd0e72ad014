package simulated

import (
	"bytes"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// keptCerts are the certificates of machines, which the CA must have issued and their keys fit.
func keptCerts(t *testing.T, k *KeptCertificates, uids []uuid.UUID) (list [][]byte) {
	t.Helper()
	of, err := k.Certificates(uids)
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range uids {
		c, err := of(uid)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: k.Authority.Pool(), CurrentTime: k.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Error(err)
		}
		if got, err := pki.NodeOf(leaf); err != nil || got != uid {
			t.Errorf("%s: %s, %v", uid, got, err)
		}
		key, err := keyOf(k.Authority, uid)
		if err != nil || !key.PublicKey.Equal(leaf.PublicKey) || !key.Equal(c.Certificates[0].PrivateKey) {
			t.Errorf("%s: another key, %v", uid, err)
		}
		list = append(list, leaf.Raw)
	}
	if _, err := of(uuid.Nil); err == nil {
		t.Error("somebody else has a certificate")
	}
	return list
}

// What is made once is had again, until it expires; what others need stays.
func TestCertificatesAreKept(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "kept"), time.Now()
	clock := func() time.Time { return now }
	open := func() *KeptCertificates {
		k, err := OpenCertificates(dir, clock)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	var uids []uuid.UUID
	for i := range 6 {
		uids = append(uids, MemberUID(1, "web", i))
	}
	same := func(what string, a, b [][]byte, want bool) {
		t.Helper()
		for i := range a {
			if bytes.Equal(a[i], b[i]) != want {
				t.Errorf("%s: machine %d: the same %t, want %t", what, i, !want, want)
			}
		}
	}
	first := keptCerts(t, open(), uids[:4])
	same("once more", keptCerts(t, open(), uids[:4]), first, true)
	others := keptCerts(t, open(), uids[4:])
	same("after others", keptCerts(t, open(), uids[:4]), first, true)

	now = now.Add(pki.NodeLife - freshFor/2) // not long enough
	renewed := keptCerts(t, open(), uids[:4])
	same("before they expire", renewed, first, false)
	same("renewed", keptCerts(t, open(), uids[:4]), renewed, true)
	same("of others", keptCerts(t, open(), uids[4:]), others, false)

	files, _ := filepath.Glob(filepath.Join(dir, "nodes-*.pem"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	text, _ := os.ReadFile(files[0])
	for name, damaged := range map[string][]byte{"cut": text[:len(text)/2], "none": nil, "nonsense": bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 3)} {
		if err := os.WriteFile(files[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		same(name, keptCerts(t, open(), uids), keptCerts(t, open(), uids), true)
	}

	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return nil
	})

	before := open().Authority.CASum()
	now = now.Add(20 * 365 * 24 * time.Hour)
	if k := open(); k.Authority.CASum() == before {
		t.Error("the CA has expired")
	} else {
		keptCerts(t, k, uids)
	}
	if err := os.Remove(filepath.Join(dir, "ca", "ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCertificates(dir, clock); model.ClassOf(err) != model.Unavailable {
		t.Errorf("without its key: %v", err)
	}
}

// Runs that begin at once have one CA; a server that has it gives out the same keys.
func TestOneAuthorityForAllRuns(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	kept := make([]*KeptCertificates, 8)
	for i := range kept {
		all.Go(func() {
			var err error
			if kept[i], err = OpenCertificates(dir, time.Now); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for _, k := range kept {
		if k.Authority.CASum() != kept[0].Authority.CASum() || !k.Authority.SigningKey().Equal(kept[0].Authority.SigningKey()) {
			t.Error("two CAs")
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".ca-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	server := filepath.Join(t.TempDir(), "pki")
	if err := kept[0].Authority.CopyTo(server); err != nil {
		t.Fatal(err)
	}
	a, err := pki.Open(server, []string{"localhost", "127.0.0.1"}, time.Now)
	if err != nil || a.CASum() != kept[0].Authority.CASum() || !a.SigningKey().Equal(kept[0].Authority.SigningKey()) {
		t.Errorf("the server has another CA: %v", err)
	}
}

// Whatever is in the file, what is taken from it is a node's certificate that is good today.
func FuzzKeptCertificates(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----"))
	k := &KeptCertificates{now: time.Now}
	f.Fuzz(func(t *testing.T, data []byte) {
		for uid, leaf := range k.good(data) {
			if got, err := pki.NodeOf(leaf); err != nil || got != uid || !leaf.NotAfter.After(k.now()) {
				t.Errorf("%s: %s until %s, %v", uid, got, leaf.NotAfter, err)
			}
		}
	})
}
