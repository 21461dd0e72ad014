package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// ErrNoNode means that a client certificate of our CA names no node.
var ErrNoNode = errors.New("certificate names no node")

// Failure returns the metric label of a failed TLS handshake on c: the probe of a balancer's health check is no failure
// of an agent.
func (c *Conn) Failure(err error) string {
	cause := tlsFailure(err)
	if cause == "tls_gone" && c.healthCheck {
		return "proxy_check"
	}
	return cause
}

func tlsFailure(err error) string {
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var network net.Error
	switch {
	case errors.As(err, &record):
		if isHTTP(record.RecordHeader) {
			return "tls_plain_http"
		}
		if isProxyHeader(record.RecordHeader) {
			return "proxy_not_listed"
		}
		return "tls_no_tls"
	case errors.As(err, &certificate):
		if errors.As(certificate.Err, &invalid) && invalid.Reason == x509.Expired {
			return "tls_certificate_expired"
		}
		if errors.As(certificate.Err, new(x509.UnknownAuthorityError)) {
			return "tls_certificate_of_another_ca"
		}
		return "tls_certificate"
	case errors.Is(err, ErrNoNode):
		return "tls_certificate"
	case strings.Contains(err.Error(), "client didn't provide a certificate"):
		return "tls_no_certificate"
	case strings.Contains(err.Error(), "unsupported application protocols"):
		return "tls_alpn"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "tls_timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return "tls_gone"
	}
	return "tls"
}

// isHTTP reports whether the bytes in place of a TLS record's header begin a plain HTTP request.
func isHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH", "CONNE", "PRI *":
		return true
	}
	return false
}
