package pki

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// RenewConfig is the agent's side of a renewal.
type RenewConfig struct {
	Identity *Identity
	StateDir string
	Servers  []string                                                          // host:port in order of preference
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	Now      func() time.Time                                                  // default time.Now
	// Says describes the machine, for a server that does not know its node.
	Says EnrolRequest
}

// Renew obtains a new certificate for the identity's key, writes it and returns the new identity;
// the old certificate stays valid. It tries the servers in order, only those with the identity's
// CA. If the server lost the node and a person has to decide, the error is a *PendingError.
func Renew(ctx context.Context, cfg RenewConfig) (*Identity, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Says.Name, cfg.Says.Namespace = cmp.Or(cfg.Says.Name, cfg.Identity.Name), cfg.Identity.Namespace
	body, err := cfg.Identity.request(&cfg.Says)
	if err != nil {
		return nil, fmt.Errorf("make the certificate request: %w", err)
	}
	last := errors.New("no server is known")
	for _, address := range cfg.Servers {
		client := &http.Client{Timeout: enrolTimeout, Transport: &http.Transport{
			DialContext: cfg.Dial, TLSClientConfig: cfg.Identity.serverTLS(address, cfg.Now), DisableKeepAlives: true,
		}}
		data, err := post(ctx, client, "https://"+address+RenewPath, body)
		if err == nil {
			return cfg.Identity.answerError(cfg.StateDir, address, data)
		}
		last = fmt.Errorf("renew the certificate at %s: %w", address, err)
		var said *model.Error
		if errors.As(err, &said) && said.Class != model.Unavailable && said.Class != model.Internal && said.Class != model.Limited {
			said.Message = fmt.Sprintf("renew the certificate at %s: %s", address, said.Message)
			return nil, said // the server decided; other servers would decide the same
		}
	}
	return nil, last
}

// serverTLS returns a TLS configuration for servers of the identity's CA, without a client
// certificate.
func (id *Identity) serverTLS(address string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // replaced by VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf := state.PeerCertificates[0]
			at := ValidAt(now(), leaf)
			_, err := leaf.Verify(x509.VerifyOptions{Roots: id.CA, CurrentTime: at})
			if err == nil {
				return nil
			}
			err = &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
			if said := (RefusedCertificate{address, ShortSum(id.CASum), at}).ForAgents(err); said != nil {
				return said
			}
			return err
		},
	}
}

func (id *Identity) answerError(dir, address string, data []byte) (*Identity, error) {
	var answer RenewAnswer
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	if answer.Pending != nil {
		return nil, &PendingError{address, FingerprintOf(id.Certificate.Leaf), time.Duration(answer.Pending.AgainMs) * time.Millisecond}
	}
	return id.renewed(dir, &answer)
}

// renewed verifies the server's answer and replaces the certificate in the file.
func (id *Identity) renewed(dir string, answer *RenewAnswer) (*Identity, error) {
	path := filepath.Join(dir, IdentityFile)
	kept, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	// Other fields of the file stay, also fields of later versions.
	var file map[string]json.RawMessage
	if err := json.Unmarshal(kept, &file); err != nil {
		return nil, fmt.Errorf("read identity %s: %w", path, err)
	}
	if file["certificate"], err = json.Marshal(answer.Certificate); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the identity: %w", err)
	}
	next, err := decodeIdentity(text) // checks that key and node match
	if err != nil {
		return nil, fmt.Errorf("check the server's answer: %w", err)
	}
	if next.Node != id.Node {
		return nil, errors.New("check the server's answer: the certificate is another node's")
	}
	if _, err := next.Certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: id.CA, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: next.Certificate.Leaf.NotBefore,
	}); err != nil {
		return nil, fmt.Errorf("check the server's answer: %w", err)
	}
	return next, writeFile(path, text)
}
