package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load"
)

// newCertificate makes the certificate of a lead for one run. Followers compare only its digest, not its names and
// dates.
func newCertificate() (c tls.Certificate, sum [32]byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, sum, fmt.Errorf("make the key of a joined run: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(30 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return c, sum, fmt.Errorf("make the certificate of a joined run: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, sha256.Sum256(der), nil
}

// errAnother is the error of a certificate that is not the token's.
var errAnother = errors.New("it has another certificate than the token says: it is another loader than the one that printed the token, or a connection is intercepted")

// pinned returns a TLS configuration that accepts only the certificate with this digest.
func pinned(sum [32]byte) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // verified by its digest
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errAnother
			}
			if got := sha256.Sum256(s.PeerCertificates[0].Raw); subtle.ConstantTimeCompare(got[:], sum[:]) != 1 {
				return errAnother
			}
			return nil
		},
	}
}

// machineID returns an id that all processes of this machine share.
func machineID() string {
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(id))
	}
	return load.Hostname()
}
