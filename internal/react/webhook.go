package react

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// post sends one notification. 2xx is delivered; 408, 429, 5xx and what the network
// says are tried again; any other answer is final.
func post(ctx context.Context, hook *model.Webhook, one history.Delivery, now time.Time) error {
	client, err := clientFor(hook)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(one.Payload))
	if err != nil {
		return &FinalError{fmt.Errorf("webhook: %w", withoutURL(err))}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "muster")
	req.Header.Set("Idempotency-Key", one.Key)
	for name, value := range hook.Headers {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("webhook at %s: %w", req.URL.Host, withoutURL(err))
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		err := fmt.Errorf("webhook answered %s: %s", resp.Status, strings.TrimSpace(string(body)))
		return &BusyError{err, retryAfter(resp.Header.Get("Retry-After"), now)}
	default:
		return &FinalError{fmt.Errorf("webhook answered %s: %s", resp.Status, strings.TrimSpace(string(body)))}
	}
}

// retryAfter reads the header: seconds, or a time (RFC 9110, 10.2.3). Zero: it says nothing.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(0, min(seconds, 86400))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// withoutURL is what went wrong without the address, whose path may be a secret: the
// error is logged, and kept where everybody may read it.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func clientFor(hook *model.Webhook) (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if hook.CA != "" {
		pem, err := os.ReadFile(hook.CA)
		if err != nil {
			return nil, fmt.Errorf("webhook: read CA: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("webhook: %s holds no certificate", hook.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
