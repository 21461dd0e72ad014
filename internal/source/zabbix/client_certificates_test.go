package zabbix

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/testenv"
)

// tlsServer is a test server that listens with and without TLS, and accepts certificates of a test CA.
type tlsServer struct {
	*testServer
	t       *testing.T
	ca      *testenv.Authority
	address string
	revoked string // file of revocation lists
}

// newTLSServer returns a test server whose namespace requires certificates, if required is true.
func newTLSServer(t *testing.T, required bool) *tlsServer {
	x := &tlsServer{testServer: newTestServer(t), t: t, ca: testenv.NewAuthority(t)}
	file := filepath.Join(t.TempDir(), "ca.crt")
	testenv.NoError(t, os.WriteFile(file, x.ca.PEM(), 0o600))
	x.revoked = filepath.Join(t.TempDir(), "ca.crl")
	testenv.NoError(t, os.WriteFile(x.revoked, []byte(x.ca.RevocationList(1, time.Now().Add(time.Hour))), 0o600))
	x.cfg.Authorities = testenv.Value(admission.OpenAuthorities("--zabbix-client", file, slog.New(slog.DiscardHandler)))(t)
	testenv.NoError(t, x.cfg.Authorities.OpenRevoked(x.revoked, time.Now()))
	x.cfg.Admission = countingAdmission()
	x.cfg.CertificateRequired = func(string) bool { return required }
	server := x.ca.Issue(&x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	x.cfg.TLS = &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12}
	l := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	x.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.Listen(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		testenv.NoError(t, <-ended)
	})
	return x
}

// countingAdmission returns an admission without a limit that counts refused connections.
func countingAdmission() *admission.Admission {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused", Help: "refused"}, []string{"outcome"})
	return admission.New(0, nil, refused, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
}

// issue returns a client certificate of a CA with a common name and DNS names.
func issue(by *testenv.Authority, common string, names ...string) *tls.Certificate {
	c := by.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return &c
}

// tlsClient returns the TLS settings of a client with a certificate. Nil means no certificate.
func (x *tlsServer) tlsClient(show *tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(x.ca.Cert)
	return &tls.Config{RootCAs: roots, ServerName: "localhost", GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if show == nil {
			return &tls.Certificate{}, nil
		}
		return show, nil
	}}
}

// send sends a request and returns the answer, or the text of an error. A nil config sends without TLS.
func (x *tlsServer) send(config *tls.Config, request string) string {
	x.t.Helper()
	nc := testenv.Value(net.Dial("tcp", x.address))(x.t)
	defer nc.Close()
	if config != nil {
		nc = tls.Client(nc, config)
	}
	if _, err := nc.Write(appendFrame(nil, 1, []byte(request))); err != nil {
		return err.Error()
	}
	h, err := readHeader(nc, 1<<20)
	if err != nil {
		return err.Error()
	}
	return string(testenv.Value(readPayload(nc, h, unlimited))(x.t))
}

// TestCertificateProvesHost connects with and without certificates, to namespaces that require one and to others. Where one is
// required, only the hosts that it names may send.
func TestCertificateProvesHost(t *testing.T) {
	strict, lax := newTLSServer(t, true), newTLSServer(t, false)
	checks, values := `{"request":"active checks","host":"Zab1"}`, `{"request":"sender data","data":[{"host":"web1","key":"text","value":"a"},{"host":"zab1","key":"text","value":"a"}]}`
	for _, c := range []struct {
		name    string
		to      *tlsServer
		plain   bool
		show    *tls.Certificate
		request string
		want    string
	}{
		{"plain to a strict namespace", strict, true, nil, checks, "namespace default requires TLS with a certificate that names the host agent: TLSConnect=cert"},
		{"no certificate", strict, false, nil, values, "zabbix_sender: --tls-connect cert"},
		{"its host", strict, false, issue(strict.ca, "Zab1"), checks, `"success"`},
		{"another host", strict, false, issue(strict.ca, "web1"), checks, `the certificate names the host \"web1\", and the agent names the host \"Zab1\" Hostname=web1 in the agent's`},
		{"one of two hosts", strict, false, issue(strict.ca, "web1"), values, "processed: 1; failed: 1; total: 2; seconds spent: 0.000000; first failed: zab1 text: its namespace requires TLS with a certificate"},
		{"names of two hosts", strict, false, issue(strict.ca, "backup", "web1", "zab1"), values, "processed: 2; failed: 0"},
		{"capitals and a space", strict, false, issue(strict.ca, "Zab 1"), `{"request":"active checks","host":"zab 1"}`, "limit of nodes"},
		{"a wildcard above the host", strict, false, issue(strict.ca, "*.zab1", "*.zab1"), checks, "the certificate names the host"},
		{"a wildcard in the name", strict, false, issue(strict.ca, "zab*1"), `{"request":"active checks","host":"zab-1"}`, "the certificate names the host"},
		{"a longer name", strict, false, issue(strict.ca, "-zab1-"), checks, "the certificate names the host"},
		{"no name", strict, false, issue(strict.ca, ""), `{"request":"active checks","host":""}`, `"failed"`},
		{"another authority", strict, false, issue(testenv.NewAuthority(t), "Zab1"), checks, "unknown certificate authority"},
		{"plain", lax, true, nil, values, "processed: 2"},
		{"TLS alone", lax, false, nil, checks, `"success"`},
		{"another host, not required", lax, false, issue(lax.ca, "web1"), checks, `"success"`},
	} {
		config := c.to.tlsClient(c.show)
		if c.plain {
			config = nil
		}
		if answer := c.to.send(config, c.request); !strings.Contains(answer, c.want) {
			t.Errorf("%s: %s, want %s", c.name, answer, c.want)
		}
	}
	if n := testutil.ToFloat64(strict.metrics.values[unprovenHost]); n != 1 {
		t.Errorf("%v values of unproven hosts, want 1", n)
	}
	strict.cfg.Authorities = nil
	if err := strict.checkCertificate(loopback()); err == nil || !strings.Contains(err.Error(), "--zabbix-client-ca FILE") {
		t.Errorf("without --zabbix-client-ca: %v", err)
	}
}

// TestRevokedCertificateIsRefused revokes a certificate, and expects a refusal with the reason.
func TestRevokedCertificateIsRefused(t *testing.T) {
	x := newTLSServer(t, true)
	cert := issue(x.ca, "Zab1")
	testenv.NoError(t, os.WriteFile(x.revoked, []byte(x.ca.RevocationList(2, time.Now().Add(time.Hour), *cert)), 0o600))
	for range 2 { // two equal reads
		x.cfg.Authorities.Refresh(time.Now())
	}
	if answer := x.send(x.tlsClient(cert), `{"request":"active checks","host":"Zab1"}`); !strings.Contains(answer, `the certificate of \"CN=Zab1\" was revoked`) {
		t.Errorf("%s", answer)
	}
}

// TestSlowHandshakeEnds begins TLS handshakes and plain requests, and expects the server to close each connection.
func TestSlowHandshakeEnds(t *testing.T) {
	x := newTestServer(t)
	x.cfg.Limits.Request = 50 * time.Millisecond
	x.cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	x.cfg.Admission = countingAdmission()
	l := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.Listen(ctx, l) }()
	for _, begin := range []string{"\x16", "\x16\x03\x01\x02\x00\x01", "Z", ""} {
		nc := testenv.Value(net.Dial("tcp", l.Addr().String()))(t)
		testenv.Value(nc.Write([]byte(begin)))(t)
		if got, err := io.ReadAll(nc); err != nil && !strings.Contains(err.Error(), "reset") || bytes.Contains(got, []byte("ZBXD")) {
			t.Errorf("%q: %q %v", begin, got, err)
		}
		nc.Close()
	}
	cancel()
	testenv.NoError(t, <-ended)
}
