package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// bodyLimit is the part of an HTTP body in bytes that the probe reads.
const bodyLimit = 1 << 20

// runHTTP sends an HTTP request and reports status, body, response time and certificate.
func runHTTP(ctx context.Context, env *Env, a argValues, r *report) error {
	roots, err := loadRoots(env, a.text("ca"))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, a.text("method"), a.text("url"), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "muster-agent")
	request.Host = a.text("host")
	client := &http.Client{Transport: &http.Transport{
		DialContext: env.dial, DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: !a.bool("verify")},
	}}
	if !a.bool("follow") {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	began := env.now()
	answer, err := client.Do(request)
	if err != nil {
		r.addFinding(model.Critical, "%v", err)
		return nil
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyLimit))
	took := env.now().Sub(began)
	if err != nil {
		r.addFinding(model.Critical, "%s: body: %v", a.text("url"), err)
		return nil
	}
	good, err := model.IsStatusAccepted(a.list("status"), answer.StatusCode)
	if err != nil {
		return err
	}
	addLatency(a, r, took, "HTTP "+answer.Status)
	if !good {
		r.addFinding(model.Critical, "status %s, want %s", answer.Status, strings.Join(a.list("status"), ", "))
	}
	if re := a.regexp("body"); re != nil && !re.Match(body) {
		r.addFinding(model.Critical, "body does not match %s", re)
	}
	if re := a.regexp("bodyNot"); re != nil && re.Match(body) {
		r.addFinding(model.Critical, "body matches %s", re)
	}
	r.addPerformanceData("size", float64(len(body)), "B", thresholds{}, 0, noBound())
	if answer.TLS != nil && len(answer.TLS.PeerCertificates) > 0 {
		addExpiry(env, a, r, "certWarn", "certCrit", answer.TLS.PeerCertificates[0])
	}
	return nil
}

// runTCP connects to an address, and reports the response time and the server's answer. It compares both with the
// expectations in the arguments.
func runTCP(ctx context.Context, env *Env, a argValues, r *report) error {
	address := a.text("address")
	began := env.now()
	conn, err := env.dial(ctx, "tcp", address)
	if err != nil {
		r.addFinding(model.Critical, "%v", err)
		return nil
	}
	defer conn.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(10 * time.Second)
	}
	_ = conn.SetDeadline(deadline)
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if send := a.text("send"); send != "" {
		if _, err := conn.Write([]byte(strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(send))); err != nil {
			r.addFinding(model.Critical, "%s: %v", address, err)
			return nil
		}
	}
	if expect := a.text("expect"); expect != "" {
		var got []byte
		buf := make([]byte, 4096)
		for err == nil && !strings.Contains(string(got), expect) {
			var n int
			n, err = conn.Read(buf)
			got = append(got, buf[:n]...)
			if (err != nil || len(got) > 64<<10) && !strings.Contains(string(got), expect) {
				r.addFinding(model.Critical, "%s: expected %q, got %q", address, expect, got[:min(len(got), 200)])
				return nil
			}
		}
	}
	addLatency(a, r, env.now().Sub(began), address+" answers")
	return nil
}

// addLatency adds a response time to the report, with a status by the thresholds.
func addLatency(a argValues, r *report, took time.Duration, what string) {
	most := a.thresholdsOf("warn", "crit", rangeAtMost)
	r.addFinding(most.status(took.Seconds()), "%s in %s", what, ageText(took))
	r.addPerformanceData("time", took.Seconds(), "s", most, 0, noBound())
}

// runCert reports when the certificate of a file or a server expires.
func runCert(ctx context.Context, env *Env, a argValues, r *report) error {
	file, address := a.text("file"), a.text("address")
	switch {
	case (file == "") == (address == ""):
		return errors.New("set either file or address")
	case address != "":
		return runCertAddress(ctx, env, a, r, address)
	}
	certs, err := readCertificates(env.pathBelowRoot(file))
	if err != nil {
		return err
	}
	addExpiry(env, a, r, "warn", "crit", firstToExpire(certs))
	return nil
}

// runCertAddress reports when the certificate of a TLS server expires. With verify, it also reports whether the
// certificate is valid for its host.
func runCertAddress(ctx context.Context, env *Env, a argValues, r *report, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("invalid address %q: expected host:port", address)
	}
	host = cmp.Or(a.text("serverName"), host)
	roots, err := loadRoots(env, a.text("ca"))
	if err != nil {
		return err
	}
	raw, err := env.dial(ctx, "tcp", address)
	if err != nil {
		r.addFinding(model.Critical, "%s: %v", address, err)
		return nil
	}
	defer raw.Close()
	// The chain is verified after the handshake, so that the probe reports the expiry of a bad one, too.
	conn := tls.Client(raw, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	if err := conn.HandshakeContext(ctx); err != nil {
		r.addFinding(model.Critical, "%s: TLS: %v", address, err)
		return nil
	}
	chain := conn.ConnectionState().PeerCertificates
	if a.bool("verify") {
		options := x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: env.now()}
		for _, c := range chain[1:] {
			options.Intermediates.AddCert(c)
		}
		var invalid x509.CertificateInvalidError // addExpiry reports an expired certificate
		if _, err := chain[0].Verify(options); err != nil && !(errors.As(err, &invalid) && invalid.Reason == x509.Expired) {
			r.addFinding(model.Critical, "%s: %v", address, err)
		}
	}
	addExpiry(env, a, r, "warn", "crit", chain[0])
	return nil
}

// addExpiry adds a certificate's expiry date to the report, with a status by the thresholds.
func addExpiry(env *Env, a argValues, r *report, warnArg, critArg string, cert *x509.Certificate) {
	left := cert.NotAfter.Sub(env.now())
	name := cmp.Or(cert.Subject.CommonName, "serial "+cert.SerialNumber.Text(16))
	if len(cert.DNSNames) > 0 {
		name = cert.DNSNames[0]
	}
	day := cert.NotAfter.UTC().Format("2006-01-02")
	if left <= 0 {
		r.addFinding(model.Critical, "certificate of %s expired %s ago (%s)", name, ageText(-left), day)
	} else {
		status := a.thresholdsOf(warnArg, critArg, rangeAtLeast).status(left.Seconds())
		r.addFinding(status, "certificate of %s expires in %s (%s)", name, ageText(left), day)
	}
	days := a.thresholdsOf(warnArg, critArg, func(seconds float64) *model.Range { return rangeAtLeast(math.Floor(seconds / (24 * 3600))) })
	r.addPerformanceData("days", float64(int(left.Hours()/24)), "d", days, noBound(), noBound())
}

// readCertificates reads the certificates of a PEM file.
func readCertificates(file string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	certs, err := decodeCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return certs, nil
}

// decodeCertificates decodes all certificates of a PEM file, and returns an error if the file has none.
func decodeCertificates(data []byte) (certs []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in this file")
	}
	return certs, nil
}

// firstToExpire returns the certificate that expires first.
func firstToExpire(certs []*x509.Certificate) *x509.Certificate {
	return slices.MinFunc(certs, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}

// loadRoots reads the CA certificates of a PEM file. Without a file name, the system's CAs count.
func loadRoots(env *Env, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // http and x509 then use the system's roots
	}
	certs, err := readCertificates(env.pathBelowRoot(file))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}
