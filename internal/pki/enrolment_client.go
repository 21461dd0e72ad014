package pki

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// EnrolConfig has the settings with which a machine enrols, such as join token and state folder.
type EnrolConfig struct {
	// Token has the servers, the trusted CA and the secret. Without a secret a person has to accept
	// the machine; without a CA the machine trusts the first one that it sees, for good.
	Token    Token
	StateDir string
	Request  EnrolRequest      // Enrol fills in Secret and CSR
	Dial     Dial              // nil: net.Dialer; link.NewDialer for proxies
	Now      func() time.Time  // default time.Now
	Trusted  func(ca [32]byte) // called with a CA that is trusted on first use; may be nil
}

// Dial is a function that opens a network connection to a server.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// PendingError reports that the server stored the join request until a person accepts the machine
type PendingError struct {
	Server     string        // the server that answered
	Key        string        // Fingerprint of the machine's key
	RetryAfter time.Duration // time until the next request
}

// Error returns a text about the machine's wait for acceptance, with the command that accepts the machine.
func (e *PendingError) Error() string {
	return fmt.Sprintf("this machine waits for an operator of %s to accept the machine, whose key is %s; on the server: muster node accept %.16s", e.Server, e.Key, e.Key)
}

// publicKey returns the public key that belongs to a signing key.
func publicKey(key ed25519.PrivateKey) []byte { return key.Public().(ed25519.PublicKey) }

// Enrol creates a key for the machine and gets a certificate for the key from the server. It stores both in StateDir.
// It tries the token's addresses in order, and sends nothing to a server that does not show the token's CA. A repeated
// call uses the same key. A PendingError means that the decision is still open.
func Enrol(ctx context.Context, cfg EnrolConfig) (*Identity, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := cfg.Token
	j, err := openJoinState(cfg.StateDir, cfg.Request.MachineID)
	if err != nil {
		return nil, err
	}
	if j.Servers = t.Addresses; t.CA == ([32]byte{}) && j.CA != "" {
		if t.CA, err = ParseSum(j.CA); err != nil {
			return nil, err
		}
	}
	if err := j.store(cfg.StateDir); err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, j.key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate request: %w", err)
	}
	if cfg.Request.CSR = csr; t.Secret != ([32]byte{}) {
		cfg.Request.Secret = t.Secret[:]
	}
	body, err := json.Marshal(cfg.Request)
	if err != nil {
		return nil, fmt.Errorf("encode the enrolment request: %w", err)
	}
	trust := func(ca [32]byte) error {
		if t.CA != ([32]byte{}) {
			return nil
		}
		t.CA, j.CA = ca, FormatSum(ca)
		if cfg.Trusted != nil {
			cfg.Trusted(ca)
		}
		return j.store(cfg.StateDir)
	}
	var failed []error
	var another *model.Error // answers from servers with another CA
	for _, address := range t.Addresses {
		shown := RefusedCertificate{Server: address, Trusted: ShortSum(t.CA), Now: cfg.Now()}
		data, err := postRequest(ctx, cfg.Dial, pinnedTLS(shown, t.CA, trust), address+EnrolPath, body)
		answer := &EnrolAnswer{}
		if err == nil {
			answer, err = decodeAnswer(data)
		}
		if err == nil && answer.Pending != nil {
			return nil, &PendingError{address, j.Fingerprint(), time.Duration(answer.Pending.AgainMs) * time.Millisecond}
		}
		if err == nil {
			// The advertised addresses may be wrong one day, so the address of the enrolment stays
			// in the list.
			if !slices.Contains(answer.Servers, address) {
				answer.Servers = append(answer.Servers, address)
			}
			return storeIdentity(cfg.StateDir, j.key, answer, t)
		}
		var answered *model.Error
		if errors.As(err, &answered) {
			if errors.Is(err, errOtherServer) {
				another = answered
				continue
			}
			answered.Message = fmt.Sprintf("join the server at %s: %s", address, answered.Message)
			if answered.Class != model.Unavailable && answered.Class != model.Internal {
				return nil, answered // the server decided; other servers would decide the same
			}
			failed = append(failed, answered)
			continue
		}
		failed = append(failed, fmt.Errorf("join the server at %s: %w", address, err))
	}
	if another != nil {
		if failed = append(failed, another); len(failed) == 1 {
			return nil, another
		}
	}
	none := model.Errorf(model.Unavailable, "%w", errors.Join(failed...))
	var unknown *net.DNSError
	if errors.As(none, &unknown) && unknown.IsNotFound {
		return nil, none.WithHint("check the name: getent hosts %s; use another address: --server HOST:PORT", unknown.Name)
	}
	return nil, none.WithHint("check that the server runs and that no firewall blocks its port; use another address: --server HOST:PORT")
}

// pinnedTLS returns a TLS configuration that accepts only servers with a certificate of the given CA. The server may
// have any name. Without a sum, trust decides about the server's CA before anything is sent.
func pinnedTLS(shown RefusedCertificate, sum [32]byte, trust func(ca [32]byte) error) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // replaced by VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			for _, ca := range state.PeerCertificates[1:] {
				whose := sha256.Sum256(ca.Raw)
				if sum != ([32]byte{}) && whose != sum {
					continue
				}
				roots := x509.NewCertPool()
				roots.AddCert(ca)
				leaf := state.PeerCertificates[0]
				if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: VerificationTime(shown.Now, leaf)}); err != nil {
					if e := shown.explainWrongClock(err); e != nil {
						return e
					}
					return err
				}
				return trust(whose)
			}
			return shown.explainToJoiningMachine(state.PeerCertificates)
		},
	}
}

// ServerHasCA reports whether the server at an address has a certificate from the CA with a given hash. The host name
// in the certificate does not matter. It sends nothing.
func ServerHasCA(ctx context.Context, address string, ca [32]byte) (bool, error) {
	shown := RefusedCertificate{Server: address, Trusted: ShortSum(ca), Now: time.Now()}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: enrolTimeout}, Config: pinnedTLS(shown, ca, func([32]byte) error { return nil })}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	switch {
	case errors.Is(err, errOtherServer):
		return false, nil
	case errors.As(err, new(*model.Error)):
		return false, err
	case err != nil:
		return false, model.Errorf(model.Unavailable, "no server answers at %s: %w", address, err).WithHint("check that the server runs and that no firewall blocks its port")
	}
	return true, conn.Close()
}

// postRequest sends a request by HTTPS POST and returns the body of the answer. An error that the server reports is a
// model.Error.
func postRequest(ctx context.Context, dial Dial, config *tls.Config, where string, body []byte) ([]byte, error) {
	client := &http.Client{Timeout: enrolTimeout, Transport: &http.Transport{DialContext: dial, TLSClientConfig: config, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+where, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	var told *url.Error
	if errors.As(err, &told) {
		err = told.Err // the caller adds the address
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxEnrol))
	if err != nil {
		return nil, err
	}
	return data, answerError(response.StatusCode, data)
}

// answerError returns the error that an HTTP answer of the server contains, or nil if the request succeeded.
func answerError(status int, data []byte) error {
	if status == http.StatusOK || status == http.StatusAccepted {
		return nil
	}
	var p problemBody
	_ = json.Unmarshal(data, &p)
	answered := model.Errorf(model.ClassOfHTTP(status), "%s", cmp.Or(p.Detail, fmt.Sprintf("the answer is %d %s", status, http.StatusText(status))))
	answered.Hint = p.Hint
	return answered
}

// decodeAnswer decodes the server's answer to an enrolment.
func decodeAnswer(data []byte) (*EnrolAnswer, error) {
	var answer EnrolAnswer
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	return &answer, nil
}

// RenewConfig has the settings with which an agent renews its certificate
type RenewConfig struct {
	Identity *Identity
	StateDir string
	Servers  []string         // host:port in order of preference
	Dial     Dial             // nil: net.Dialer
	Now      func() time.Time // default time.Now
	// Request describes the machine, for a server that does not know its node.
	Request EnrolRequest
}

// Renew obtains a new certificate for an agent's key and writes the certificate to disk. It returns the new identity.
// The old certificate stays valid. It tries the servers in order, only those with the identity's CA. If the server
// lost the node and a person has to decide, the error is a *PendingError.
func Renew(ctx context.Context, cfg RenewConfig) (*Identity, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Request.Name, cfg.Request.Namespace = cmp.Or(cfg.Request.Name, cfg.Identity.Name), cfg.Identity.Namespace
	body, err := cfg.Identity.renewRequest(&cfg.Request)
	if err != nil {
		return nil, fmt.Errorf("make the certificate request: %w", err)
	}
	last := errors.New("no server is configured")
	for _, address := range cfg.Servers {
		data, err := postRequest(ctx, cfg.Dial, cfg.Identity.serverTLS(address, cfg.Now), address+RenewPath, body)
		if err == nil {
			return cfg.Identity.readRenewal(cfg.StateDir, address, data)
		}
		last = fmt.Errorf("renew the certificate at %s: %w", address, err)
		var answered *model.Error
		if errors.As(err, &answered) && answered.Class != model.Unavailable && answered.Class != model.Internal && answered.Class != model.Limited {
			answered.Message = fmt.Sprintf("renew the certificate at %s: %s", address, answered.Message)
			return nil, answered // the server decided; other servers would decide the same
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
			at := VerificationTime(now(), leaf)
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

// readRenewal verifies the server's answer to a renewal and returns the identity with the new certificate.
func (id *Identity) readRenewal(dir, address string, data []byte) (*Identity, error) {
	var answer RenewAnswer
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	if answer.Pending != nil {
		return nil, &PendingError{address, FingerprintOf(id.Certificate.Leaf), time.Duration(answer.Pending.AgainMs) * time.Millisecond}
	}
	return id.storeRenewedCertificate(dir, &answer)
}

// storeRenewedCertificate verifies the server's answer to a renewal and replaces the certificate in the identity file
func (id *Identity) storeRenewedCertificate(dir string, answer *RenewAnswer) (*Identity, error) {
	path := filepath.Join(dir, IdentityFile)
	kept, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the agent's identity: %w", err)
	}
	// Other fields of the file stay, also fields of later versions.
	var file map[string]json.RawMessage
	if err := json.Unmarshal(kept, &file); err != nil {
		return nil, fmt.Errorf("read the agent's identity in %s: %w", path, err)
	}
	if file["certificate"], err = json.Marshal(answer.Certificate); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, err
	}
	next, err := decodeIdentity(text) // checks that key and node match
	if err != nil {
		return nil, fmt.Errorf("check the server's answer: %w", err)
	}
	if next.Node != id.Node {
		return nil, errors.New("check the server's answer: the certificate belongs to another node")
	}
	if _, err := next.Certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: id.CA, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: next.Certificate.Leaf.NotBefore,
	}); err != nil {
		return nil, fmt.Errorf("check the server's answer: %w", err)
	}
	return next, writeFile(path, text)
}
