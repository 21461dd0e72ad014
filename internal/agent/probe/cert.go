package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

func certProbe() Probe {
	return Probe{
		Name: "cert", Summary: "When a certificate expires: one in a file, or the one a TLS server shows.",
		Args: []Arg{
			{Name: "file", Type: Text, Help: "PEM file; the certificate in it that expires first counts"},
			{Name: "address", Type: Text, Help: "host:port of a TLS server"},
			{Name: "serverName", Type: Text, Help: "name to ask for and to verify; default: the host of address"},
			{Name: "verify", Type: Bool, Default: "true", Help: "critical when the server's chain or name does not verify"},
			{Name: "ca", Type: Text, Help: "PEM file to verify against; default: the system's"},
			{Name: "warn", Type: Duration, Default: "21d", Help: "warning when less is left"},
			{Name: "crit", Type: Duration, Default: "7d", Help: "critical when less is left"},
		},
		run: runCert,
	}
}

func runCert(ctx context.Context, env *Env, a args, r *report) {
	file, address := a.text("file"), a.text("address")
	switch {
	case (file == "") == (address == ""):
		r.add(model.Unknown, "give either file or address")
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
	if name := a.text("serverName"); name != "" {
		host = name
	}
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
	warn, hasWarn := a.duration(warnArg)
	crit, hasCrit := a.duration(critArg)
	status := model.OK
	switch {
	case left <= 0 || hasCrit && left < crit:
		status = model.Critical
	case hasWarn && left < warn:
		status = model.Warning
	}
	name := cert.Subject.CommonName
	if len(cert.DNSNames) > 0 {
		name = cert.DNSNames[0]
	}
	if name == "" {
		name = "serial " + cert.SerialNumber.Text(16)
	}
	day := cert.NotAfter.UTC().Format("2006-01-02")
	if left <= 0 {
		r.add(status, "certificate of %s expired %s ago (%s)", name, ageText(-left), day)
	} else {
		r.add(status, "certificate of %s expires in %s (%s)", name, ageText(left), day)
	}
	atLeast := func(d time.Duration, ok bool) *model.Range {
		if !ok {
			return nil
		}
		floor, _ := model.ParseRange(fmt.Sprintf("%d:", int(d.Hours()/24)))
		return &floor
	}
	r.measure("days", float64(int(left.Hours()/24)), "d", atLeast(warn, hasWarn), atLeast(crit, hasCrit), nan(), nan())
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
	first := certs[0]
	for _, c := range certs {
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	return first
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
