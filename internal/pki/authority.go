package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Lifetimes of certificates. Access ends by revoking the node, not by expiry: an agent that was off
// for long renews an expired certificate.
const (
	caLife     = 20 * 365 * 24 * time.Hour
	NodeLife   = 90 * 24 * time.Hour // of nodes, where Authority.NodeLife is not set
	serverLife = 397 * 24 * time.Hour
	backdate   = 24 * time.Hour // certificates stay valid when the server's clock is set back by up to a day
)

// Files in the authority's folder.
const (
	caFile        = "ca.crt"
	caKeyFile     = "ca.key"
	serverFile    = "server.crt"
	serverKeyFile = "server.key"
	signKeyFile   = "assignments.key"
)

// Authority is the server's certificate authority (CA) for its own and the agents' certificates.
type Authority struct {
	dir   string
	names []string
	now   func() time.Time

	// NodeLife is the lifetime of node certificates, default 90 days. Set it before the first
	// request.
	NodeLife time.Duration

	ca      *x509.Certificate
	caKey   *ecdsa.PrivateKey
	signKey ed25519.PrivateKey
	pool    *x509.CertPool

	mu        sync.Mutex // guards the fields below
	server    *tls.Certificate
	serverRSA *tls.Certificate // of CertificateForAll; nil: no client has needed it
	failed    time.Time        // time of the last failed renewal
}

// Open reads the certificate authority from the folder dir, or creates a new one on the first start. Files have mode
// 0600, the folder has 0700. names are the DNS names and IP addresses of the server certificate, which is issued anew
// when they change or two thirds of its lifetime are over.
func Open(dir string, names []string, now func() time.Time) (*Authority, error) {
	if now == nil {
		now = time.Now
	}
	a := &Authority{dir: dir, names: slices.Compact(slices.Sorted(slices.Values(names))), now: now, NodeLife: NodeLife}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the server's CA: %w", err)
	}
	if err := a.openCA(); err != nil {
		return nil, err
	}
	if err := a.openSigningKey(); err != nil {
		return nil, err
	}
	a.pool = x509.NewCertPool()
	a.pool.AddCert(a.ca)
	_, err := a.GetCertificate(nil)
	return a, err
}

// FolderIdentity returns a number that changes when the CA or the signing key in a folder is replaced. It is zero if a
// file is missing or malformed; Open would report such a file.
func FolderIdentity(dir string) (uint64, error) {
	sum := sha256.New()
	for _, name := range []string{caFile, caKeyFile, signKeyFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read the server's CA: %w", err)
		}
		sum.Write(data)
	}
	return binary.LittleEndian.Uint64(sum.Sum(nil)) | 1, nil
}

// Verify checks the files in a CA's folder for errors, without opening the CA for use. It returns nil if the
// folder is valid, missing or empty.
func Verify(dir string) error {
	for _, path := range Files(dir) {
		if _, err := os.Stat(path); err == nil {
			a := &Authority{dir: dir, now: time.Now}
			if a.ca, a.caKey, err = a.loadKeyPair(caFile, caKeyFile); err != nil {
				return err
			}
			return a.loadSigningKey()
		}
	}
	return nil
}

// Files returns the paths of the files with the CA's certificate, its key and the signing key.
func Files(dir string) []string {
	return []string{filepath.Join(dir, caFile), filepath.Join(dir, caKeyFile), filepath.Join(dir, signKeyFile)}
}

// openCA loads the certificate and key of the CA, or creates both on the first start.
func (a *Authority) openCA() error {
	cert, key, err := a.loadKeyPair(caFile, caKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		cert, key, err = a.makeCA()
	}
	if err != nil {
		return model.Errorf(model.Unavailable, "open the server's CA in %s: %w", a.dir, err).
			WithHint("restore %s and %s from a backup; with a new CA every agent must enrol again", caFile, caKeyFile)
	}
	a.ca, a.caKey = cert, key
	return nil
}

// makeCA creates the CA's certificate and key on the first start.
func (a *Authority) makeCA() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	// A key without its certificate, or a certificate without its key, is damage and not a first
	// start.
	for _, name := range []string{caFile, caKeyFile} {
		if _, err := os.Stat(filepath.Join(a.dir, name)); err == nil {
			return nil, nil, fmt.Errorf("%s exists, but the other file of the CA (certificate or key) is missing", name)
		}
	}
	return a.makeKeyPair(caFile, caKeyFile, &x509.Certificate{
		Subject: pkix.Name{CommonName: CAName}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, caLife)
}

// makeKeyPair creates a private key and its certificate, and stores both in files. The CA signs the certificate;
// before the CA exists it is self-signed.
func (a *Authority) makeKeyPair(certName, keyName string, t *x509.Certificate, life time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	signer := a.caKey
	if a.ca == nil {
		signer = key
	}
	der, err := a.signCertificate(t, life, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	// The key first: a crash in between leaves no certificate. A CA pair then needs an operator, a server
	// pair is issued anew.
	if err := writeKey(filepath.Join(a.dir, keyName), key); err != nil {
		return nil, nil, err
	}
	if err := writeFile(filepath.Join(a.dir, certName), certPEM(der)); err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// openSigningKey loads the key for signing assignments, or creates a new key on the first start.
func (a *Authority) openSigningKey() error {
	path := filepath.Join(a.dir, signKeyFile)
	err := a.loadSigningKey()
	if errors.Is(err, fs.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return fmt.Errorf("make the key that signs assignments: %w", err)
		}
		a.signKey = key
		return writeKey(path, key)
	}
	if err == nil {
		return nil
	}
	return model.Errorf(model.Unavailable, "read the key that signs assignments %s: %w", path, err).
		WithHint("restore %s from a backup of the data folder", path)
}

// loadSigningKey reads the key that signs assignments.
func (a *Authority) loadSigningKey() error {
	data, err := os.ReadFile(filepath.Join(a.dir, signKeyFile))
	if err != nil {
		return err
	}
	key, err := parseKey(data)
	if err != nil {
		return err
	}
	var ok bool
	if a.signKey, ok = key.(ed25519.PrivateKey); !ok {
		return errors.New("not an Ed25519 key")
	}
	return nil
}

// signCertificate adds serial number and times to a certificate, and signs the certificate with the CA's key. The CA's
// own certificate is signed with its own key.
func (a *Authority) signCertificate(t *x509.Certificate, life time.Duration, pub crypto.PublicKey, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	t.SerialNumber = serial
	t.NotBefore = a.now().Add(-backdate)
	t.NotAfter = a.now().Add(life)
	parent := t
	if a.ca != nil {
		if parent = a.ca; t.NotAfter.After(parent.NotAfter) {
			t.NotAfter = parent.NotAfter
		}
	}
	return x509.CreateCertificate(rand.Reader, t, parent, pub, key)
}

// Pool returns a certificate pool that trusts only the server's CA.
func (a *Authority) Pool() *x509.CertPool { return a.pool }

// CAPEM returns the CA certificate in PEM
func (a *Authority) CAPEM() []byte { return certPEM(a.ca.Raw) }

// CASum returns the SHA-256 of the CA certificate in DER encoding, by which agents recognize the CA. Agents with a
// join token recognise the server by it.
func (a *Authority) CASum() [32]byte { return sha256.Sum256(a.ca.Raw) }

// Names returns the DNS names and IP addresses of the server certificate.
func (a *Authority) Names() []string { return slices.Clone(a.names) }

// SigningKey returns the key that signs assignments.
func (a *Authority) SigningKey() ed25519.PrivateKey { return a.signKey }

// GetCertificate returns the server certificate for a TLS handshake, and first renews a certificate that is due. The
// chain includes the CA, so that an agent with only a join token can check its hash.
func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.server != nil && (a.isFresh(a.server.Leaf) || a.hasValidCertificate() && a.now().Sub(a.failed) < renewRetry) {
		return a.server, nil
	}
	cert, key, err := a.loadKeyPair(serverFile, serverKeyFile)
	if err != nil || !a.isFresh(cert) {
		if cert, key, err = a.makeServerCertificate(); err != nil {
			if a.failed = a.now(); a.hasValidCertificate() {
				return a.server, nil // the disk may be full; the old one is valid until it expires
			}
			return nil, fmt.Errorf("make the server's certificate: %w", err)
		}
	}
	a.server = &tls.Certificate{Certificate: [][]byte{cert.Raw, a.ca.Raw}, PrivateKey: key, Leaf: cert}
	return a.server, nil
}

// CertificateForAll returns the server certificate that a client's TLS library can use. By default Zabbix's programs with GnuTLS
// know only RSA: for them the server has a second certificate. Its key is in memory, because clients compare only the CA.
func (a *Authority) CertificateForAll(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	usual, err := a.GetCertificate(hello)
	anyName := *hello
	anyName.ServerName = ""
	if err != nil || anyName.SupportsCertificate(usual) == nil {
		return usual, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.serverRSA != nil && a.isFresh(a.serverRSA.Leaf) {
		return a.serverRSA, nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	der, err := a.signCertificate(a.serverTemplate(), serverLife, &key.PublicKey, a.caKey)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err == nil {
		a.serverRSA = &tls.Certificate{Certificate: [][]byte{der, a.ca.Raw}, PrivateKey: key, Leaf: cert}
	}
	return a.serverRSA, err
}

// renewRetry is the pause after a failed renewal of the server certificate.
const renewRetry = time.Minute

// hasValidCertificate reports whether the authority has a server certificate that is still valid.
func (a *Authority) hasValidCertificate() bool {
	return a.server != nil && a.now().Before(a.server.Leaf.NotAfter)
}

// isFresh reports whether a server certificate is valid for so long that renewal can wait. It must have the
// CA's signature and the right names, and less than two thirds of its life may have passed.
func (a *Authority) isFresh(cert *x509.Certificate) bool {
	left := cert.NotAfter.Sub(a.now())
	return cert.CheckSignatureFrom(a.ca) == nil && slices.Equal(namesOf(cert), a.names) &&
		left > cert.NotAfter.Sub(cert.NotBefore)/3 && !a.now().Before(cert.NotBefore)
}

// namesOf returns the sorted DNS names and IP addresses of a certificate.
func namesOf(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	slices.Sort(names)
	return names
}

// makeServerCertificate creates the server's certificate and key.
func (a *Authority) makeServerCertificate() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	return a.makeKeyPair(serverFile, serverKeyFile, a.serverTemplate(), serverLife)
}

// serverTemplate returns the contents of a server certificate, without number and times.
func (a *Authority) serverTemplate() *x509.Certificate {
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Muster server"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range a.names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	return t
}

// IssueNodeCertificate issues the certificate of a node for a certificate request (DER). The certificate names only
// muster:node:<uid>, whatever names the request has.
func (a *Authority) IssueNodeCertificate(csr []byte, uid uuid.UUID) ([]byte, error) {
	key, err := requestKey(csr)
	if err != nil {
		return nil, err
	}
	return a.signNodeCertificate(key, uid)
}

// requestKey returns the public key of a certificate request (DER), after checking its signature.
func requestKey(csr []byte) (*ecdsa.PublicKey, error) {
	request, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "read the certificate request: %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, model.Errorf(model.Invalid, "read the certificate request: %w", err)
	}
	key, ok := request.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, model.Errorf(model.Invalid, "the certificate request has a wrong key: expected an ECDSA key on P-256")
	}
	return key, nil
}

// signNodeCertificate signs a certificate for a node's public key and unique id.
func (a *Authority) signNodeCertificate(key *ecdsa.PublicKey, uid uuid.UUID) ([]byte, error) {
	der, err := a.signCertificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "Muster node"}, URIs: []*url.URL{nodeURI(uid)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.NodeLife, key, a.caKey)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of node %s: %w", uid, err)
	}
	return certPEM(der), nil
}

// nodeURI returns the URI that a certificate contains to name its node.
func nodeURI(uid uuid.UUID) *url.URL {
	return &url.URL{Scheme: "muster", Opaque: nodePrefix + uid.String()}
}

const nodePrefix = "node:"

// NodeOf returns the id of the node for which a certificate was issued
func NodeOf(cert *x509.Certificate) (uuid.UUID, error) {
	if len(cert.URIs) == 1 && cert.URIs[0].Scheme == "muster" {
		if text, ok := strings.CutPrefix(cert.URIs[0].Opaque, nodePrefix); ok {
			if uid, err := uuid.Parse(text); err == nil {
				return uid, nil
			}
		}
	}
	return uuid.Nil, errors.New("the certificate names no node: expected one URI muster:node:<uuid>")
}

// ticketDays is the lifetime of a TLS session ticket, in days.
const ticketDays = 3

// TicketKeys returns the keys that encrypt TLS session tickets, one per day. Today's key is the first, for new
// tickets. They derive from the CA's key, so tickets survive a restart.
func (a *Authority) TicketKeys(now time.Time) [][32]byte {
	secret, err := a.caKey.Bytes()
	if err != nil {
		panic("BUG: CA key cannot be encoded: " + err.Error())
	}
	keys := make([][32]byte, ticketDays)
	for i := range keys {
		day := now.UTC().AddDate(0, 0, -i).Format(time.DateOnly)
		key, err := hkdf.Key(sha256.New, secret, nil, fmt.Sprint("muster TLS session tickets of ", day), 32)
		if err != nil {
			panic("BUG: derive ticket key: " + err.Error())
		}
		copy(keys[i][:], key)
	}
	return keys
}
