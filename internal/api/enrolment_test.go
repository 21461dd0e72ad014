package api_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api"
	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/server"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
)

// Who sends his request for a certificate slowly holds no place, and no more requests
// than one network may have: others join meanwhile.
func TestSlowEnrolmentsHoldNothing(t *testing.T) {
	r := apitest.New(t)
	bounds, err := queue.ParseSettings([]string{"enrolments=1"})
	if err != nil {
		t.Fatal(err)
	}
	queues := queue.NewRegistry(bounds)
	authority, err := pki.Open(filepath.Join(t.TempDir(), "pki"), []string{"127.0.0.1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, agents := api.NewSplit(api.Options{Stores: view.Stores{Intent: r.Intent}, Queues: queues, Server: server.Options{NotReady: func() []string { return nil }}, Enrol: &pki.Enroller{
		Authority: authority, Tokens: intent.JoinTokens{Store: r.Intent.Store()}, Registrar: r.Intent, Admit: nodes.Enrolments(queues),
	}})
	listener := httptest.NewServer(agents)
	t.Cleanup(func() { listener.CloseClientConnections(); listener.Close() })
	address := listener.Listener.Addr().String()

	const slow, may = 40, 32
	refused := make(chan string, slow)
	for range slow {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", pki.EnrolPath)
		go func() {
			answer := make([]byte, 12)
			if _, err := io.ReadFull(conn, answer); err == nil {
				refused <- string(answer)
			}
		}()
	}
	for range slow - may {
		if status := <-refused; status != "HTTP/1.1 503" {
			t.Fatalf("one too many is answered %q", status)
		}
	}
	from := func(ip string) *http.Client {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, addr)
			},
		}}
	}
	for ip, want := range map[string]int{"127.0.0.1": http.StatusServiceUnavailable, "127.0.0.2": http.StatusUnprocessableEntity} {
		answer, err := from(ip).Post(listener.URL+pki.EnrolPath, "application/json", strings.NewReader(`{"secret": "AAAA", "csr": "AAAA"}`))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("from %s: %d, want %d", ip, answer.StatusCode, want)
		}
	}
}

// Machines that go on asking with a token that was used up take nothing from their network,
// and with one that was deleted once; who guesses does, and renewals go on all the same.
func TestOnlyGuessesTireANetwork(t *testing.T) {
	r := apitest.New(t)
	authority, err := pki.Open(filepath.Join(t.TempDir(), "pki"), []string{"127.0.0.1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tokens := intent.JoinTokens{Store: r.Intent.Store()}
	_, agents := api.NewSplit(api.Options{Stores: view.Stores{Intent: r.Intent}, Queues: queue.NewRegistry(nil), Server: server.Options{NotReady: func() []string { return nil }},
		Enrol: &pki.Enroller{Authority: authority, Tokens: tokens, Registrar: r.Intent}, Renew: &pki.Renewer{Authority: authority, Registrar: r.Intent}})
	listener := httptest.NewServer(agents)
	t.Cleanup(listener.Close)
	address := listener.Listener.Addr().String()
	token, keep, err := authority.NewToken([]string{address}, pki.JoinToken{MaxUses: 1, Uses: 1})
	if err != nil {
		t.Fatal(err)
	}
	keep.Uses = 1
	if err := tokens.Create(t.Context(), intent.Actor{User: "ada"}, keep); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	tries := func(path string, request func(n int) any) (codes map[int]int) {
		codes = map[int]int{}
		for n := range 40 {
			body, err := json.Marshal(request(n))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.Post(listener.URL+path, "application/json", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			codes[answer.StatusCode]++
		}
		return codes
	}
	shows := func(n int) any { return pki.EnrolRequest{Secret: token.Secret[:], CSR: csr} }
	if codes := tries(pki.EnrolPath, shows); codes[http.StatusUnauthorized] != 40 {
		t.Errorf("a token that was used up: %v", codes)
	}
	if err := tokens.Delete(t.Context(), intent.Actor{User: "ada"}, keep.ID); err != nil {
		t.Fatal(err)
	}
	if codes := tries(pki.EnrolPath, shows); codes[http.StatusUnauthorized] != 40 {
		t.Errorf("a token that was deleted: %v", codes)
	}
	if codes := tries(pki.EnrolPath, func(n int) any { return pki.EnrolRequest{Secret: fmt.Append(nil, "guess ", n), CSR: csr} }); codes[http.StatusTooManyRequests] < 20 || codes[http.StatusUnauthorized] < 9 {
		t.Errorf("guesses: %v", codes)
	}
	if codes := tries(pki.RenewPath, func(int) any { return pki.RenewRequest{Certificate: []byte("none"), CSR: csr} }); codes[http.StatusTooManyRequests] != 0 {
		t.Errorf("renewals: %v", codes)
	}
}
