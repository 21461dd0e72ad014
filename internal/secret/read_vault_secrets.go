package secret

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/outbound"
)

// maxAnswer bounds the bytes that are read of Vault's answer.
const maxAnswer = 1 << 20

// readVault reads one key from the KV engine of Vault. Version 1 has GET /v1/MOUNT/PATH, version 2 GET
// /v1/MOUNT/data/PATH (developer.hashicorp.com/vault/api-docs/secret/kv).
func (r *Resolver) readVault(ctx context.Context, at *model.Vault, lease time.Duration) (Value, error) {
	token, err := r.o.ReadFile(at.TokenFile)
	if err != nil {
		return Value{}, fmt.Errorf("read the file with Vault's token, on the server: %w", err)
	}
	if strings.TrimSpace(string(token)) == "" {
		return Value{}, fmt.Errorf("the file with Vault's token, on the server: %s is empty: check the program that logs in to Vault", at.TokenFile)
	}
	client, err := r.o.Client(at.CA)
	if err != nil {
		return Value{}, err
	}
	v1 := at.Engine == "v1"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, vaultURL(at), nil)
	if err != nil {
		return Value{}, errors.New("the address of Vault cannot be used")
	}
	req.Header.Set("X-Vault-Token", strings.TrimSpace(string(token)))
	req.Header.Set("X-Vault-Request", "true") // Vault Agent's listener may require it
	if at.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", at.Namespace)
	}
	resp, err := client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the address, which has the path
		}
		return Value{}, fmt.Errorf("Vault at %s: %w", model.RedactURL(at.Address), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Value{}, fmt.Errorf("Vault at %s: the answer ended early", model.RedactURL(at.Address))
	}
	if resp.StatusCode != http.StatusOK {
		return Value{}, vaultError(at, resp.StatusCode, body)
	}
	said, err := decodeKV(body, v1)
	if err != nil {
		return Value{}, fmt.Errorf("Vault at %s: %w", model.RedactURL(at.Address), err)
	}
	text, err := said.textOf(at.Key)
	if err != nil {
		return Value{}, fmt.Errorf("read secret %s in Vault: %w", vaultPath(at), err)
	}
	if said.lease > 0 {
		lease = min(lease, said.lease)
	}
	return Value{Text: text, Lease: lease}, nil
}

// vaultURL returns the URL of a secret in Vault.
func vaultURL(at *model.Vault) string {
	parts := pathParts(at)
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.TrimSuffix(at.Address, "/") + "/v1/" + strings.Join(parts, "/")
}

// pathParts returns the parts of the URL path at which Vault's HTTP API serves a secret. For engines of version 2,
// data follows the mount.
func pathParts(at *model.Vault) []string {
	parts := strings.Split(cmp.Or(at.Mount, "secret"), "/")
	if at.Engine != "v1" {
		parts = append(parts, "data")
	}
	return append(parts, strings.Split(at.Path, "/")...)
}

// vaultPath returns a secret's path in Vault as MOUNT/PATH, with the mount named secret by default.
func vaultPath(at *model.Vault) string { return cmp.Or(at.Mount, "secret") + "/" + at.Path }

// kvValues holds the keys and values at one path of Vault, with their lease time.
type kvValues struct {
	data  map[string]json.RawMessage
	lease time.Duration
}

// decodeKV decodes Vault's answer from a KV engine of version 1 or 2.
func decodeKV(body []byte, v1 bool) (kvValues, error) {
	var answer struct {
		Data  json.RawMessage `json:"data"`
		Lease int64           `json:"lease_duration"` // seconds; zero in version 2
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return kvValues{}, errors.New("the answer is not JSON: check that the address is Vault")
	}
	out := kvValues{lease: time.Duration(min(max(answer.Lease, 0), 1<<31)) * time.Second}
	if !v1 {
		var inner struct {
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(answer.Data, &inner); err != nil || len(inner.Data) == 0 {
			return kvValues{}, errors.New("the answer is not from a KV engine of version 2: try engine: v1")
		}
		answer.Data = inner.Data
	}
	if err := json.Unmarshal(answer.Data, &out.data); err != nil {
		return kvValues{}, errors.New("the answer has no values")
	}
	return out, nil
}

// textOf returns the value of one key in Vault's answer as text. A string stays as it is, and another value
// becomes JSON.
func (k kvValues) textOf(name string) (string, error) {
	raw, ok := k.data[name]
	if !ok || string(bytes.TrimSpace(raw)) == "null" {
		return "", fmt.Errorf("the secret has no key %q", name)
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	return string(bytes.TrimSpace(raw)), nil
}

// vaultError returns an error for an unsuccessful answer of Vault, with Vault's own message on one line.
func vaultError(at *model.Vault, status int, body []byte) error {
	var said struct {
		Errors []string `json:"errors"`
	}
	_ = json.Unmarshal(body, &said) // a balancer may answer anything
	words := ""
	if len(said.Errors) > 0 {
		words = ": " + model.Shorten(oneLine(said.Errors[0]))
	}
	switch status {
	case http.StatusForbidden:
		return fmt.Errorf("Vault refuses %s to the token in %s%s: add a policy with read on %s, or renew it", vaultPath(at), at.TokenFile, words, strings.Join(pathParts(at), "/"))
	case http.StatusNotFound:
		return fmt.Errorf("Vault has no value at %s (engine %s)%s: check that the secret exists and that engine (v1 or v2) matches the mount", vaultPath(at), cmp.Or(at.Engine, "v2"), words)
	case http.StatusServiceUnavailable:
		return fmt.Errorf("Vault at %s is sealed or in maintenance%s", model.RedactURL(at.Address), words)
	}
	if status == http.StatusBadRequest && strings.HasPrefix(at.Address, "http:") && words == "" {
		words = ": is it https://?"
	}
	return fmt.Errorf("Vault at %s answers %d%s", model.RedactURL(at.Address), status, words)
}

// oneLine joins the lines of Vault's error text to one line.
func oneLine(text string) string {
	var parts []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "* "))
		if line != "" && !strings.HasSuffix(line, "errors occurred:") && !strings.HasSuffix(line, "error occurred:") {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, ", ")
}

// clientCache keeps one HTTP client per CA of Vault, with its connections.
type clientCache struct {
	outbound *outbound.Policy
	readFile func(string) ([]byte, error)
	mu       sync.Mutex
	by       map[string]cachedClient
}

// cachedClient is an HTTP client with the CA certificates that the client trusts.
type cachedClient struct {
	pem  string
	http *http.Client
}

// get returns the HTTP client that trusts the certificates in a CA file. After the file has changed, it makes a new
// client.
func (c *clientCache) get(ca string) (*http.Client, error) {
	var roots *tls.Config
	pem := []byte(nil)
	if ca != "" {
		var err error
		if pem, err = c.readFile(ca); err != nil {
			return nil, fmt.Errorf("read the file with Vault's CA certificate, on the server: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file with Vault's CA certificate, on the server: %s has no PEM certificate", ca)
		}
		roots = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if had, ok := c.by[ca]; ok && had.pem == string(pem) {
		return had.http, nil
	}
	if c.by == nil {
		c.by = map[string]cachedClient{}
	}
	made := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: c.outbound.Dialer().DialContext, TLSClientConfig: roots, ForceAttemptHTTP2: true, MaxConnsPerHost: 16, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute},
		// A standby redirects to the leader, once; like Vault's own client, follow with the token.
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > 1 || via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
				return errors.New("the server redirects the request: set the address of Vault's leader")
			}
			return c.outbound.CheckRedirect(req, via)
		},
	}
	c.by[ca] = cachedClient{string(pem), made}
	return made, nil
}
