package simulated

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// KeptCertificates is a folder with a CA that the servers of load runs share, and with the
// certificates that it issued: simulated machines have the same ids and keys in each run, so that they are made
// once. The folder is its owner's alone (0700, files 0600). Several runs may use it at once.
type KeptCertificates struct {
	Authority *pki.Authority
	dir       string
	now       func() time.Time
}

const (
	freshFor   = 24 * time.Hour // that a certificate must still be good for: a soak is long
	mostOthers = 100_000        // certificates of machines of other scenarios that are kept
)

// OpenCertificates opens the folder, and makes the CA where there is none, or one that has expired.
func OpenCertificates(dir string, now func() time.Time) (*KeptCertificates, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep certificates: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep certificates: %w", err)
	}
	ca := filepath.Join(dir, "ca")
	for again := false; ; again = true {
		if err := makeAuthority(dir, ca, now); err != nil {
			return nil, err
		}
		authority, err := pki.Open(ca, []string{"localhost"}, now)
		if err != nil {
			return nil, model.Errorf(model.Unavailable, "the CA of load runs: %w", err).WithHint("remove %s: it is made anew", dir)
		}
		if again || authority.Until().Sub(now()) > freshFor {
			return &KeptCertificates{authority, dir, now}, nil
		}
		if err := os.RemoveAll(ca); err != nil {
			return nil, fmt.Errorf("remove the CA of load runs, which has expired: %w", err)
		}
	}
}

// makeAuthority makes one where there is none: whole, or not at all.
func makeAuthority(dir, ca string, now func() time.Time) error {
	if _, err := os.Stat(ca); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh, err := os.MkdirTemp(dir, ".ca-")
	if err != nil {
		return fmt.Errorf("make the CA of load runs: %w", err)
	}
	defer os.RemoveAll(fresh)
	if _, err := pki.Open(fresh, []string{"localhost"}, now); err != nil {
		return err
	}
	err = os.Rename(fresh, ca)
	if _, made := os.Stat(ca); err != nil && made != nil { // else another run was faster
		return fmt.Errorf("make the CA of load runs: %w", err)
	}
	return nil
}

// Certificates gives machines their certificates: those that are kept and still good, and new
// ones, which are kept. Those of other machines are given none.
func (k *KeptCertificates) Certificates(uids []uuid.UUID) (func(uid uuid.UUID) (*tls.Config, error), error) {
	sum := k.Authority.CASum()
	name := fmt.Sprintf("nodes-%x.pem", sum[:6])
	data, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read kept certificates: %w", err)
	}
	known := k.good(data)
	all := make([]tls.Certificate, len(uids))
	var making errgroup.Group
	making.SetLimit(runtime.GOMAXPROCS(0))
	for i, uid := range uids {
		making.Go(func() (err error) {
			all[i], err = certificateOf(k.Authority, uid, known[uid])
			return err
		})
	}
	if err := making.Wait(); err != nil {
		return nil, err
	}
	byNode, fresh := make(map[uuid.UUID]tls.Certificate, len(uids)), 0
	var text bytes.Buffer
	for i, uid := range uids {
		byNode[uid] = all[i]
		if leaf := known[uid]; leaf == nil || !bytes.Equal(leaf.Raw, all[i].Certificate[0]) {
			fresh++
		}
		delete(known, uid)
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: all[i].Certificate[0]}) // a Buffer takes all
	}
	others := 0
	for _, leaf := range known {
		if others++; others <= mostOthers {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})
		}
	}
	if fresh > 0 {
		if err := disk.WriteFile(disk.OS{}, k.dir, name, text.Bytes()); err != nil {
			return nil, fmt.Errorf("keep certificates: %w", err)
		}
	}
	pool := k.Authority.Pool()
	return func(uid uuid.UUID) (*tls.Config, error) {
		c, ok := byNode[uid]
		if !ok {
			return nil, fmt.Errorf("node %s has no certificate", uid)
		}
		return clientConfig(pool, c), nil
	}, nil
}

// good are those certificates of a file that are for some time to come, by node. What is none is
// left out: it is made anew.
func (k *KeptCertificates) good(data []byte) map[uuid.UUID]*x509.Certificate {
	known := map[uuid.UUID]*x509.Certificate{}
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return known
		}
		data = rest
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil || leaf.NotAfter.Sub(k.now()) <= freshFor || k.now().Before(leaf.NotBefore) {
			continue
		}
		if uid, err := pki.NodeOf(leaf); err == nil {
			known[uid] = leaf
		}
	}
}
