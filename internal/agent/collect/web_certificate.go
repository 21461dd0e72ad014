package collect

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// certificateTime is the start or end of a certificate's validity, in the JSON format of Zabbix agent 2.
type certificateTime struct {
	Value     string `json:"value"`
	Timestamp int64  `json:"timestamp"`
}

// certificateJSON is the JSON value of the item web.certificate.get, with the fields that Zabbix agent 2 has.
type certificateJSON struct {
	X509 struct {
		Version            int             `json:"version"`
		SerialNumber       string          `json:"serial_number"`
		SignatureAlgorithm string          `json:"signature_algorithm"`
		Issuer             string          `json:"issuer"`
		NotBefore          certificateTime `json:"not_before"`
		NotAfter           certificateTime `json:"not_after"`
		Subject            string          `json:"subject"`
		PublicKeyAlgorithm string          `json:"public_key_algorithm"`
		AlternativeNames   []string        `json:"alternative_names"`
	} `json:"x509"`
	Result struct {
		Value   string `json:"value"`
		Message string `json:"message"`
	} `json:"result"`
	SHA1   string `json:"sha1_fingerprint"`
	SHA256 string `json:"sha256_fingerprint"`
}

// webCertificate collects the item web.certificate.get[HOST,PORT,ADDRESS], the certificate of a TLS server as JSON.
// The JSON also says whether the certificate is valid for the host now.
func webCertificate(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	host := k.Parameter(0, "")
	if of, err := url.Parse(host); err == nil && of.Scheme == "https" {
		host = of.Hostname()
		if port := of.Port(); port != "" && k.Parameter(1, "") == "" {
			k = &Key{Name: k.Name, Parameters: []string{host, port, k.Parameter(2, "")}}
		}
	}
	host = strings.Trim(host, "[]") // of an IPv6 address
	if host == "" {
		return item.Value{}, fmt.Errorf("%s: the host is missing; write %s[HOST,PORT,ADDRESS]", k.Name, k.Name)
	}
	port, err := portParameter(k, 1, "443")
	if err != nil {
		return item.Value{}, err
	}
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} // describeCertificate verifies it
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(strings.Trim(k.Parameter(2, host), "[]"), port))
	if err != nil {
		return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
	}
	defer conn.Close()
	text, err := json.Marshal(describeCertificate(host, conn.(*tls.Conn).ConnectionState().PeerCertificates, nil, time.Now()))
	if err != nil {
		return item.Value{}, err
	}
	return item.FromText(string(text)), nil
}

// describeCertificate describes the first certificate of a chain with the fields of Zabbix agent 2. roots are the
// trusted authorities; nil: the system's.
func describeCertificate(host string, chain []*x509.Certificate, roots *x509.CertPool, now time.Time) *certificateJSON {
	c, out := chain[0], &certificateJSON{}
	at := func(t time.Time) certificateTime {
		return certificateTime{t.UTC().Format("Jan 02 15:04:05 2006 GMT"), t.Unix()}
	}
	x := &out.X509
	x.Version, x.SerialNumber, x.SignatureAlgorithm = c.Version, hex.EncodeToString(c.SerialNumber.Bytes()), c.SignatureAlgorithm.String()
	x.Issuer, x.Subject, x.PublicKeyAlgorithm = c.Issuer.String(), c.Subject.String(), c.PublicKeyAlgorithm.String()
	x.NotBefore, x.NotAfter, x.AlternativeNames = at(c.NotBefore), at(c.NotAfter), append([]string{}, c.DNSNames...)
	for _, address := range c.IPAddresses {
		x.AlternativeNames = append(x.AlternativeNames, address.String())
	}
	one, two := sha1.Sum(c.Raw), sha256.Sum256(c.Raw)
	out.SHA1, out.SHA256 = hex.EncodeToString(one[:]), hex.EncodeToString(two[:])
	between := x509.NewCertPool()
	for _, other := range chain[1:] {
		between.AddCert(other)
	}
	_, err := c.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between, CurrentTime: now})
	out.Result.Value, out.Result.Message = "valid", "certificate verified successfully"
	if err != nil {
		out.Result.Value, out.Result.Message = "invalid", "failed to verify certificate: "+err.Error()
		own := x509.NewCertPool()
		own.AddCert(c)
		if _, err := c.Verify(x509.VerifyOptions{DNSName: host, Roots: own, CurrentTime: now}); err == nil && strings.EqualFold(c.Issuer.String(), c.Subject.String()) {
			out.Result.Value, out.Result.Message = "valid-but-self-signed", "certificate verified successfully, but determined to be self signed"
		}
	}
	return out
}
