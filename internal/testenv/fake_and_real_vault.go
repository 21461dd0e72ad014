package testenv

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Vault is a fake HashiCorp Vault for tests, with KV secret engines of versions 1 and 2. It replaces a real one
// (NewBao), with whose answers its own were compared.
type Vault struct {
	*httptest.Server
	Token string // with read on secret/data/* and kv/*

	mu       sync.Mutex
	values   map[string]map[string]any // by mount/path
	deleted  map[string]bool           // present versions that were deleted
	sealed   bool
	requests int
}

// NewVault starts a fake Vault on loopback with TLS. The CA is Server.Certificate.
func NewVault(t testing.TB, token string) *Vault {
	v := &Vault{Token: token, values: map[string]map[string]any{}, deleted: map[string]bool{}}
	v.Server = httptest.NewTLSServer(v)
	t.Cleanup(v.Close)
	return v
}

// Put stores secret values at a path of the fake Vault.
func (v *Vault) Put(path string, values map[string]any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[path] = values
	delete(v.deleted, path)
}

// Delete deletes the newest version of the secret at a path, as vault kv delete does.
func (v *Vault) Delete(path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deleted[path] = true
}

// Seal locks or unlocks the fake Vault, like the seal of a real Vault. A sealed Vault answers no request for secrets.
func (v *Vault) Seal(sealed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sealed = sealed
}

// Requests returns the number of requests to the fake Vault.
func (v *Vault) Requests() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.requests
}

// ServeHTTP answers a request of Vault's API.
func (v *Vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests++
	say := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	fail := func(status int, errors ...string) {
		say(status, map[string]any{"errors": append([]string{}, errors...)})
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/v1/")
	switch {
	case v.sealed:
		fail(http.StatusServiceUnavailable, "Vault is sealed")
	case r.Header.Get("X-Vault-Token") != v.Token:
		fail(http.StatusForbidden, "permission denied")
	case r.Header.Get("X-Vault-Namespace") != "":
		fail(http.StatusNotFound, "namespace not found")
	case !ok || r.Method != http.MethodGet:
		fail(http.StatusMethodNotAllowed, "unsupported operation")
	case strings.HasPrefix(path, "kv/"):
		if values := v.values[path]; values != nil {
			say(http.StatusOK, map[string]any{"request_id": "1", "lease_id": "", "renewable": false, "lease_duration": 2764800, "data": values})
			return
		}
		fail(http.StatusNotFound)
	case strings.HasPrefix(path, "secret/data/"):
		at := "secret/" + strings.TrimPrefix(path, "secret/data/")
		metadata := map[string]any{"created_time": "2026-11-22T10:00:00Z", "custom_metadata": nil, "deletion_time": "", "destroyed": false, "version": 1}
		switch values := v.values[at]; {
		case values == nil:
			fail(http.StatusNotFound)
		case v.deleted[at]:
			metadata["deletion_time"] = "2026-11-22T11:00:00Z"
			say(http.StatusNotFound, map[string]any{"request_id": "1", "lease_duration": 0, "data": map[string]any{"data": nil, "metadata": metadata}})
		default:
			say(http.StatusOK, map[string]any{"request_id": "1", "lease_duration": 0, "data": map[string]any{"data": values, "metadata": metadata}})
		}
	default: // outside the policy, whether the mount exists or not
		fail(http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
	}
}

// Bao is a real OpenBao (or HashiCorp Vault) server on loopback for tests. It has TLS, two KV secret engines, and a
// policy muster that may read both.
type Bao struct {
	URL, CA string // CA is a PEM file
	Root    string // root token
	Program string

	t   testing.TB
	dir string
	key string // unseals the storage
	cmd *exec.Cmd
	web *http.Client
}

// NewBao starts an OpenBao server, or skips the test if the program is not installed.
func NewBao(t testing.TB) *Bao {
	t.Helper()
	b := &Bao{t: t, Program: os.Getenv("MUSTER_BAO")}
	for _, name := range []string{"bao", "vault"} {
		if path, err := exec.LookPath(name); err == nil && b.Program == "" {
			b.Program = path
		}
	}
	if b.Program == "" {
		Skip(t, "there is no OpenBao", "MUSTER_BAO=/path/to/bao go test ./internal/secret ./test -run 'RealVault|VaultSecrets'")
	}
	b.dir = t.TempDir()
	address := Port(t)
	b.URL = "https://" + address
	pool := b.certificate()
	b.web = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: 20 * time.Second}
	b.Write("server.hcl", fmt.Sprintf("storage \"file\" {\n  path = %q\n}\nlistener \"tcp\" {\n  address = %q\n  tls_cert_file = %q\n  tls_key_file = %q\n}\napi_addr = %q\ndisable_mlock = true\nui = false\n",
		filepath.Join(b.dir, "data"), address, b.CA, filepath.Join(b.dir, "key.pem"), b.URL))
	b.Start()
	t.Cleanup(b.Stop)
	var made struct {
		Keys  []string `json:"keys"`
		Token string   `json:"root_token"`
	}
	b.MustRequest("PUT", "sys/init", "", map[string]any{"secret_shares": 1, "secret_threshold": 1}, &made)
	b.key, b.Root = made.Keys[0], made.Token
	b.Unseal()
	b.MountEngines("")
	return b
}

// MountEngines mounts both KV secret engines in an OpenBao namespace, and creates the access policy named
// muster. An empty namespace is the root.
func (b *Bao) MountEngines(namespace string) {
	b.t.Helper()
	b.MustRequest("POST", "sys/mounts/secret", namespace, map[string]any{"type": "kv", "options": map[string]string{"version": "2"}}, nil)
	b.MustRequest("POST", "sys/mounts/kv", namespace, map[string]any{"type": "kv", "options": map[string]string{"version": "1"}}, nil)
	b.MustRequest("PUT", "sys/policies/acl/muster", namespace, map[string]string{"policy": "path \"secret/data/*\" { capabilities = [\"read\"] }\npath \"kv/*\" { capabilities = [\"read\"] }"}, nil)
}

// Write writes a file into the test folder of OpenBao and returns its path.
func (b *Bao) Write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	NoError(b.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Start starts the OpenBao process. The process is sealed at first.
func (b *Bao) Start() {
	b.t.Helper()
	b.cmd = b.Command("server", "-config="+filepath.Join(b.dir, "server.hcl"))
	NoError(b.t, b.cmd.Start())
	Until(b.t, "OpenBao answers", func() bool {
		status, _, err := b.request("GET", "sys/seal-status", "", "", nil)
		return err == nil && status == http.StatusOK
	})
}

// Command returns a command that runs the OpenBao program. Its environment has no variables that name another server.
func (b *Bao) Command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(b.t.Context()), b.Program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir}
	return cmd
}

// Stop kills OpenBao.
func (b *Bao) Stop() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}

// Unseal unlocks the OpenBao server, whose storage is sealed. Then OpenBao answers requests for secrets.
func (b *Bao) Unseal() {
	b.t.Helper()
	b.MustRequest("PUT", "sys/unseal", "", map[string]string{"key": b.key}, nil)
	Until(b.t, "OpenBao is unsealed", func() bool {
		status, _, err := b.request("GET", "sys/health", "", "", nil)
		return err == nil && status == http.StatusOK
	})
}

// Seal locks the OpenBao server (seals its storage). Then OpenBao answers no request for secrets.
func (b *Bao) Seal() { b.t.Helper(); b.MustRequest("PUT", "sys/seal", "", nil, nil) }

// Token creates an OpenBao token with the access policy named muster.
func (b *Bao) Token(namespace, ttl string) string {
	b.t.Helper()
	var made struct {
		Auth struct {
			Token string `json:"client_token"`
		} `json:"auth"`
	}
	b.MustRequest("POST", "auth/token/create", namespace, map[string]any{"policies": []string{"muster"}, "ttl": ttl, "no_default_policy": false}, &made)
	return made.Auth.Token
}

// MustRequest sends an API request with the root token, and ends the test if OpenBao refuses the request.
func (b *Bao) MustRequest(method, path, namespace string, in, out any) {
	b.t.Helper()
	status, text, err := b.request(method, path, namespace, b.Root, in)
	if err != nil || status > 299 {
		b.t.Fatalf("%s %s: %d %s %v", method, path, status, text, err)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(text), out); err != nil {
			b.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

// request sends an API request to OpenBao, and returns status, body and error.
func (b *Bao) request(method, path, namespace, token string, in any) (int, string, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return 0, "", err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(b.t.Context()), method, b.URL+"/v1/"+path, body)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("X-Vault-Token", token)
	}
	if namespace != "" {
		r.Header.Set("X-Vault-Namespace", namespace)
	}
	answer, err := b.web.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, string(text), err
}

// certificate creates a self-signed certificate that is also its own CA.
func (b *Bao) certificate() *x509.CertPool {
	key := Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(b.t)
	is := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := Value(x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key))(b.t)
	private := Value(x509.MarshalPKCS8PrivateKey(key))(b.t)
	b.CA = b.Write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	b.Write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return pool
}
