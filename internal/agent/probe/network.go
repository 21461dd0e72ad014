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
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// bodyLimit is how much of an answer is read.
const bodyLimit = 1 << 20

func httpProbe() Probe {
	return Probe{
		Name: "http", Summary: "An HTTP request: status, body, duration, and expiry of the server's certificate.",
		Args: []Arg{
			{Name: "url", Type: Text, Must: true, Help: "URL with http:// or https://"},
			{Name: "method", Type: Text, Default: "GET", Help: "request method"},
			{Name: "host", Type: Text, Help: "Host header, if it differs from the URL"},
			{Name: "status", Type: List, Default: "200-399", Help: "expected statuses: 200, 301-302; redirects are followed only with follow: true"},
			{Name: "follow", Type: Bool, Default: "false", Help: "follow redirects, at most ten"},
			{Name: "body", Type: Regexp, Help: "regular expression that the first MiB of the body must match"},
			{Name: "bodyNot", Type: Regexp, Help: "regular expression that the first MiB of the body must not match"},
			{Name: "warn", Type: Duration, Help: "warning when it takes longer"},
			{Name: "crit", Type: Duration, Help: "critical when it takes longer"},
			{Name: "certWarn", Type: Duration, Default: "21d", Help: "warning when the certificate expires within this time"},
			{Name: "certCrit", Type: Duration, Default: "7d", Help: "critical when the certificate expires within this time"},
			{Name: "verify", Type: Bool, Default: "true", Help: "critical when the server's certificate does not verify"},
			{Name: "ca", Type: Text, Help: "PEM file to verify against; default: the system's"},
		},
		run: runHTTP,
	}
}

func runHTTP(ctx context.Context, env *Env, a args, r *report) {
	roots, err := rootsFrom(env, a.text("ca"))
	if err != nil {
		r.add(model.Unknown, "%v", err)
		return
	}
	request, err := http.NewRequestWithContext(ctx, a.text("method"), a.text("url"), nil)
	if err != nil {
		r.add(model.Unknown, "%v", err)
		return
	}
	request.Header.Set("User-Agent", "muster-agent")
	request.Host = a.text("host")
	transport := &http.Transport{
		DialContext: env.dial, DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: !a.bool("verify")},
	}
	client := &http.Client{Transport: transport}
	if !a.bool("follow") {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	began := env.now()
	answer, err := client.Do(request)
	if err != nil {
		r.add(model.Critical, "%v", err)
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyLimit))
	took := env.now().Sub(began)
	if err != nil {
		r.add(model.Critical, "%s: body: %v", a.text("url"), err)
		return
	}
	good, err := statusIn(a.list("status"), answer.StatusCode)
	if err != nil {
		r.add(model.Unknown, "%v", err)
		return
	}
	judgeLatency(a, r, took, "HTTP "+answer.Status)
	if !good {
		r.add(model.Critical, "status %s, want %s", answer.Status, strings.Join(a.list("status"), ", "))
	}
	if re := a.regexp("body"); re != nil && !re.Match(body) {
		r.add(model.Critical, "body does not match %s", re)
	}
	if re := a.regexp("bodyNot"); re != nil && re.Match(body) {
		r.add(model.Critical, "body matches %s", re)
	}
	r.measure("size", float64(len(body)), "B", levels{}, 0, nan())
	if answer.TLS != nil && len(answer.TLS.PeerCertificates) > 0 {
		judgeExpiry(env, a, r, "certWarn", "certCrit", answer.TLS.PeerCertificates[0])
	}
}

func statusIn(list []string, status int) (bool, error) {
	for _, item := range list {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		low, errLow := strconv.Atoi(from)
		high, errHigh := strconv.Atoi(to)
		if errLow != nil || errHigh != nil {
			return false, fmt.Errorf("status %q: want a number or a range such as 200-299", item)
		}
		if status >= low && status <= high {
			return true, nil
		}
	}
	return false, nil
}

func tcpProbe() Probe {
	return Probe{
		Name: "tcp", Summary: "Connection to a TCP port: success, duration, answer.",
		Args: []Arg{
			{Name: "address", Type: Text, Must: true, Help: "host:port"},
			{Name: "send", Type: Text, Help: `text to send; \r and \n have their usual meaning`},
			{Name: "expect", Type: Text, Help: "text that the answer must contain"},
			{Name: "warn", Type: Duration, Help: "warning when it takes longer"},
			{Name: "crit", Type: Duration, Help: "critical when it takes longer"},
		},
		run: runTCP,
	}
}

func runTCP(ctx context.Context, env *Env, a args, r *report) {
	address := a.text("address")
	began := env.now()
	conn, err := env.dial(ctx, "tcp", address)
	if err != nil {
		r.add(model.Critical, "%v", err)
		return
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
			r.add(model.Critical, "%s: %v", address, err)
			return
		}
	}
	if expect := a.text("expect"); expect != "" {
		var got []byte
		buf := make([]byte, 4096)
		for !strings.Contains(string(got), expect) {
			n, err := conn.Read(buf)
			got = append(got, buf[:n]...)
			if strings.Contains(string(got), expect) {
				break
			}
			if err != nil || len(got) > 64<<10 {
				r.add(model.Critical, "%s: expected %q, got %q", address, expect, got[:min(len(got), 200)])
				return
			}
		}
	}
	judgeLatency(a, r, env.now().Sub(began), address+" answers")
}

func judgeLatency(a args, r *report, took time.Duration, what string) {
	most := a.levels("warn", "crit", atMost)
	r.add(most.status(took.Seconds()), "%s in %s", what, ageText(took))
	r.measure("time", took.Seconds(), "s", most, 0, nan())
}

func certProbe() Probe {
	return Probe{
		Name: "cert", Summary: "Expiry of a certificate: in a file, or of a TLS server.",
		Args: []Arg{
			{Name: "file", Type: Text, Help: "PEM file; the certificate that expires first counts"},
			{Name: "address", Type: Text, Help: "host:port of a TLS server"},
			{Name: "serverName", Type: Text, Help: "server name to request and verify; default: the host of address"},
			{Name: "verify", Type: Bool, Default: "true", Help: "critical when the server's chain or name does not verify"},
			{Name: "ca", Type: Text, Help: "PEM file to verify against; default: the system's"},
			{Name: "warn", Type: Duration, Default: "21d", Help: "warning when it expires within this time"},
			{Name: "crit", Type: Duration, Default: "7d", Help: "critical when it expires within this time"},
		},
		run: runCert,
	}
}

func runCert(ctx context.Context, env *Env, a args, r *report) {
	file, address := a.text("file"), a.text("address")
	switch {
	case (file == "") == (address == ""):
		r.add(model.Unknown, "set either file or address")
	case file != "":
		certs, err := readCertificates(env.path(file))
		if err != nil {
			r.add(model.Unknown, "%v", err)
			return
		}
		judgeExpiry(env, a, r, "warn", "crit", firstToExpire(certs))
	default:
		runCertAddress(ctx, env, a, r, address)
	}
}

func runCertAddress(ctx context.Context, env *Env, a args, r *report, address string) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		r.add(model.Unknown, "address %q: want host:port", address)
		return
	}
	host = cmp.Or(a.text("serverName"), host)
	roots, err := rootsFrom(env, a.text("ca"))
	if err != nil {
		r.add(model.Unknown, "%v", err)
		return
	}
	raw, err := env.dial(ctx, "tcp", address)
	if err != nil {
		r.add(model.Critical, "%s: %v", address, err)
		return
	}
	defer raw.Close()
	// The chain is verified below, so that expiry is told whatever is wrong with it.
	conn := tls.Client(raw, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	if err := conn.HandshakeContext(ctx); err != nil {
		r.add(model.Critical, "%s: TLS: %v", address, err)
		return
	}
	chain := conn.ConnectionState().PeerCertificates
	if a.bool("verify") {
		options := x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: env.now()}
		for _, c := range chain[1:] {
			options.Intermediates.AddCert(c)
		}
		if _, err := chain[0].Verify(options); err != nil && !expired(err) {
			r.add(model.Critical, "%s: %v", address, err)
		}
	}
	judgeExpiry(env, a, r, "warn", "crit", chain[0])
}

func expired(err error) bool {
	invalid, ok := err.(x509.CertificateInvalidError)
	return ok && invalid.Reason == x509.Expired // judgeExpiry says it better
}

func judgeExpiry(env *Env, a args, r *report, warnArg, critArg string, cert *x509.Certificate) {
	left := cert.NotAfter.Sub(env.now())
	name := cmp.Or(cert.Subject.CommonName, "serial "+cert.SerialNumber.Text(16))
	if len(cert.DNSNames) > 0 {
		name = cert.DNSNames[0]
	}
	day := cert.NotAfter.UTC().Format("2006-01-02")
	if left <= 0 {
		r.add(model.Critical, "certificate of %s expired %s ago (%s)", name, ageText(-left), day)
	} else {
		status := a.levels(warnArg, critArg, atLeast).status(left.Seconds())
		r.add(status, "certificate of %s expires in %s (%s)", name, ageText(left), day)
	}
	days := a.levels(warnArg, critArg, func(seconds float64) *model.Range { return atLeast(math.Floor(seconds / (24 * 3600))) })
	r.measure("days", float64(int(left.Hours()/24)), "d", days, nan(), nan())
}

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

func firstToExpire(certs []*x509.Certificate) *x509.Certificate {
	return slices.MinFunc(certs, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}

func rootsFrom(env *Env, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	certs, err := readCertificates(env.path(file))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}
