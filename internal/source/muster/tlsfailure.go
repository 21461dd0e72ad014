package muster

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

// tlsFailure is why a handshake failed, as the metric has it.
func tlsFailure(err error) string {
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var network net.Error
	switch {
	case errors.As(err, &record):
		if looksLikeHTTP(record.RecordHeader) {
			return "tls_plain_http"
		}
		if looksLikeProxy(record.RecordHeader) {
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
	case errors.Is(err, errNoNode):
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

// looksLikeHTTP: the first five bytes where TLS would have a record's header.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH", "CONNE", "PRI *":
		return true
	}
	return false
}

const plainHTTPAnswer = "HTTP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nThis port speaks TLS: write https:// before the address.\n"
