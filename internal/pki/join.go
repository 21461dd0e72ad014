package pki

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
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
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// EnrolConfig is the agent's side of enrolment.
type EnrolConfig struct {
	Token    Token
	StateDir string
	Request  EnrolRequest                                                      // Secret and CSR are filled in
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer; link.NewDialer for proxies
	Now      func() time.Time                                                  // default time.Now
}

func publicKey(key ed25519.PrivateKey) []byte { return key.Public().(ed25519.PublicKey) }

// Enrol makes a key, has it certified and keeps the identity in StateDir. It tries
// the token's addresses in order, and sends nothing to a server that does not show
// the token's CA.
func Enrol(ctx context.Context, cfg EnrolConfig) (*Identity, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := cfg.Token
	if !t.Expiry.IsZero() && !cfg.Now().Before(t.Expiry) {
		return nil, model.Errorf(model.Unauthenticated, "join token expired at %s", t.Expiry.Format(time.RFC3339)).
			WithHint("make a new one on the server: muster node token")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the agent's key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate request: %w", err)
	}
	cfg.Request.Secret, cfg.Request.CSR = t.Secret[:], csr
	body, err := json.Marshal(cfg.Request)
	if err != nil {
		return nil, fmt.Errorf("encode the enrolment request: %w", err)
	}
	client := &http.Client{Timeout: enrolTimeout, Transport: &http.Transport{
		DialContext: cfg.Dial, TLSClientConfig: pinned(t.CA, cfg.Now), DisableKeepAlives: true,
	}}
	var last error
	for _, address := range t.Addresses {
		answer, err := ask(ctx, client, address, body)
		if err == nil {
			// What the server tells may be wrong one day: where it was found stays in the list.
			if !slices.Contains(answer.Servers, address) {
				answer.Servers = append(answer.Servers, address)
			}
			return keep(cfg.StateDir, key, answer, t)
		}
		last = fmt.Errorf("enrol at %s: %w", address, err)
		var said *model.Error
		if errors.As(err, &said) && said.Class != model.Unavailable && said.Class != model.Internal {
			said.Message = last.Error()
			return nil, said // this server has spoken; another would say the same
		}
	}
	return nil, last
}

// pinned trusts a server whose chain holds a CA certificate with this sum, whatever
// name it was reached by: the token is the authority on addresses.
func pinned(sum [32]byte, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // replaced by VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			for _, ca := range state.PeerCertificates[1:] {
				if sha256.Sum256(ca.Raw) != sum {
					continue
				}
				roots := x509.NewCertPool()
				roots.AddCert(ca)
				leaf := state.PeerCertificates[0]
				_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: ValidAt(now(), leaf)})
				return err
			}
			return model.Errorf(model.Unauthenticated, "this server is not the one that the join token was made for").
				WithHint("make a token on the server you want to join: muster node token")
		},
	}
}

func ask(ctx context.Context, client *http.Client, address string, body []byte) (*EnrolAnswer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+EnrolPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxEnrol))
	if err != nil {
		return nil, err
	}
	return decodeAnswer(response.StatusCode, data)
}

func decodeAnswer(status int, data []byte) (*EnrolAnswer, error) {
	if status != http.StatusOK {
		var p problem
		_ = json.Unmarshal(data, &p)
		said := model.Errorf(model.ClassOfHTTP(status), "%s", cmp.Or(p.Detail, fmt.Sprintf("it answers %d %s", status, http.StatusText(status))))
		said.Hint = p.Hint
		return nil, said
	}
	var answer EnrolAnswer
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	return &answer, nil
}
