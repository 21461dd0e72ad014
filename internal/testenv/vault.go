package testenv

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Vault answers as HashiCorp Vault documents its HTTP API (developer.hashicorp.com/vault/api-docs,
// "secret/kv/kv-v1", "secret/kv/kv-v2" and the status codes of the front page): a KV engine of
// version 2 at secret/, one of version 1 at kv/. It stands where there is no real one (NewBao), beside which it was held.
type Vault struct {
	*httptest.Server
	Token string // with read on secret/data/* and kv/*

	mu     sync.Mutex
	values map[string]map[string]any // by mount/path
	gone   map[string]bool           // deleted versions
	sealed bool
	asked  int
}

// NewVault starts a Vault on loopback with TLS; the certificate of its CA is Server.Certificate.
func NewVault(t testing.TB, token string) *Vault {
	v := &Vault{Token: token, values: map[string]map[string]any{}, gone: map[string]bool{}}
	v.Server = httptest.NewTLSServer(v)
	t.Cleanup(v.Close)
	return v
}

// Put writes the values at mount/path.
func (v *Vault) Put(path string, values map[string]any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[path] = values
	delete(v.gone, path)
}

// Delete deletes the present version, as vault kv delete does.
func (v *Vault) Delete(path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone[path] = true
}

// Seal seals it.
func (v *Vault) Seal(sealed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sealed = sealed
}

// Requests returns the number of requests.
func (v *Vault) Requests() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked
}

// ServeHTTP is the API.
func (v *Vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
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
		case v.gone[at]:
			metadata["deletion_time"] = "2026-11-22T11:00:00Z"
			say(http.StatusNotFound, map[string]any{"request_id": "1", "lease_duration": 0, "data": map[string]any{"data": nil, "metadata": metadata}})
		default:
			say(http.StatusOK, map[string]any{"request_id": "1", "lease_duration": 0, "data": map[string]any{"data": values, "metadata": metadata}})
		}
	default: // outside the policy, whether the mount exists or not
		fail(http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
	}
}
