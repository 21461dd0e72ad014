package secret

import (
	"context"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// newTestResolver returns a resolver over test declarations with a fake environment and clock.
func newTestResolver(specs map[string]*model.SecretSpec, change func(*Options)) *Resolver {
	o := Options{
		Secret: func(namespace, name string) (*model.SecretSpec, bool) {
			s, ok := specs[namespace+"/"+name]
			return s, ok
		},
		Getenv: func(name string) (string, bool) { return "from " + name, name == "THERE" },
		After:  func(time.Duration, func()) func() bool { return nil }, // never expires
	}
	if change != nil {
		change(&o)
	}
	return New(o)
}

// TestSecretValuesComeFromDeclaredSource expects a Secret's value from its declared source. The source is the
// environment, a file or a Vault path.
func TestSecretValuesComeFromDeclaredSource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testenv.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	vault := testenv.NewVault(t, "the token")
	vault.Put("secret/app/db", map[string]any{"password": "correct horse", "port": 54320, "short": "abc", "none": nil})
	vault.Put("secret/gone", map[string]any{"password": "was here"})
	vault.Delete("secret/gone")
	vault.Put("kv/a b/c", map[string]any{"password": "version one", "ttl": "30s"})
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vault.Certificate().Raw})))
	token, wrong, empty := write("token", "the token\n"), write("wrong", "another"), write("empty", "\n")
	at := func(change func(*model.Vault)) *model.SecretSpec {
		v := &model.Vault{Address: vault.URL, Path: "app/db", Key: "password", TokenFile: token, CA: ca}
		change(v)
		return &model.SecretSpec{Vault: v}
	}
	for name, c := range map[string]struct {
		spec  *model.SecretSpec
		value string
		lease time.Duration
		err   string
	}{
		"env":               {spec: &model.SecretSpec{Env: "THERE"}, value: "from THERE"},
		"env lease":         {spec: &model.SecretSpec{Env: "THERE", Lease: model.Duration(time.Hour)}, value: "from THERE", lease: time.Hour},
		"no env":            {spec: &model.SecretSpec{Env: "GONE"}, err: "the server's environment has no variable GONE"},
		"file":              {spec: &model.SecretSpec{File: write("f", " two words \r\n")}, value: " two words "},
		"no file":           {spec: &model.SecretSpec{File: filepath.Join(dir, "none")}, err: "no such file"},
		"empty":             {spec: &model.SecretSpec{File: write("e", "\n")}, err: "it is empty"},
		"short":             {spec: &model.SecretSpec{File: write("s", "abc")}, err: "shorter than 4 bytes"},
		"long":              {spec: &model.SecretSpec{File: write("l", strings.Repeat("x", model.MaxSecret+1))}, err: "longer than 16KiB"},
		"zero byte":         {spec: &model.SecretSpec{File: write("z", "abcd\x00e")}, err: "zero byte"},
		"on the node":       {spec: &model.SecretSpec{AgentFile: "x"}, err: "the value of the Secret is on the node"},
		"vault":             {spec: at(func(*model.Vault) {}), value: "correct horse"},
		"vault number":      {spec: at(func(v *model.Vault) { v.Key = "port" }), value: "54320"},
		"vault no key":      {spec: at(func(v *model.Vault) { v.Key = "user" }), err: `secret/app/db in Vault: the secret has no key "user"`},
		"vault null":        {spec: at(func(v *model.Vault) { v.Key = "none" }), err: `no key "none"`},
		"vault short":       {spec: at(func(v *model.Vault) { v.Key = "short" }), err: "shorter than"},
		"vault nothing":     {spec: at(func(v *model.Vault) { v.Path = "x" }), err: "Vault has no value at secret/x (engine v2)"},
		"vault deleted":     {spec: at(func(v *model.Vault) { v.Path = "gone" }), err: "check that the secret exists"},
		"vault v1":          {spec: at(func(v *model.Vault) { v.Engine, v.Mount, v.Path = "v1", "kv", "a b/c" }), value: "version one"},
		"vault v1 as v2":    {spec: at(func(v *model.Vault) { v.Mount, v.Path = "kv", "a b/c" }), err: "Vault has no value at kv/a b/c"},
		"vault v2 as v1":    {spec: at(func(v *model.Vault) { v.Engine = "v1" }), err: "add a policy with read on secret/app/db, or renew it"},
		"vault token":       {spec: at(func(v *model.Vault) { v.TokenFile = wrong }), err: "Vault refuses secret/app/db to the token in " + wrong + ": permission denied"},
		"vault empty token": {spec: at(func(v *model.Vault) { v.TokenFile = empty }), err: empty + " is empty"},
		"vault no token":    {spec: at(func(v *model.Vault) { v.TokenFile = "/none" }), err: "Vault's token, on the server"},
		"vault ca":          {spec: at(func(v *model.Vault) { v.CA = "" }), err: "certificate"},
		"vault ca is none":  {spec: at(func(v *model.Vault) { v.CA = token }), err: "has no PEM certificate"},
		"vault is not here": {spec: at(func(v *model.Vault) { v.Address = "https://127.0.0.1:1" }), err: "Vault at https://127.0.0.1:1: dial"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestResolver(map[string]*model.SecretSpec{"default/s": c.spec}, nil)
			v, err := r.Resolve(t.Context(), "default", "s")
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) || v != (Value{}) {
					t.Fatalf("got %+v, %v, want %q", v, err, c.err)
				}
				for _, never := range []string{"the token", "correct horse", "another"} {
					if strings.Contains(strings.ReplaceAll(err.Error(), "to the token in", ""), never) {
						t.Errorf("the error holds %q: %v", never, err)
					}
				}
			case err != nil || v.Text != c.value:
				t.Fatalf("got %+v, %v", v, err)
			default:
				want := c.lease
				if want == 0 {
					want = model.DefaultSecretLease
				}
				if v.Lease != want {
					t.Errorf("lease %v, want %v", v.Lease, want)
				}
			}
		})
	}
	if _, err := newTestResolver(nil, nil).Resolve(t.Context(), "default", "s"); err == nil || !strings.Contains(err.Error(), "Secret default/s does not exist") {
		t.Error(err)
	}
	vault.Seal(true)
	if _, err := newTestResolver(map[string]*model.SecretSpec{"default/s": at(func(*model.Vault) {})}, nil).Resolve(t.Context(), "default", "s"); err == nil || !strings.Contains(err.Error(), "is sealed") {
		t.Error(err)
	}
}

// TestSimultaneousRequestsShareOneRead sends simultaneous requests for one secret, and expects a single read of its
// source. Later requests read again.
func TestSimultaneousRequestsShareOneRead(t *testing.T) {
	vault := testenv.NewVault(t, "token")
	vault.Put("secret/x", map[string]any{"k": "a value"})
	var forget func()
	told := make(chan struct{}, 2)
	r := newTestResolver(map[string]*model.SecretSpec{"default/s": {Vault: &model.Vault{Address: vault.URL, Path: "x", Key: "k", TokenFile: "token", CA: "ca"}}}, func(o *Options) {
		o.ReadFile = func(name string) ([]byte, error) {
			if name == "ca" {
				return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vault.Certificate().Raw}), nil
			}
			return []byte(name), nil
		}
		o.After = func(_ time.Duration, f func()) func() bool { forget = f; told <- struct{}{}; return nil }
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if v, err := r.Resolve(context.Background(), "default", "s"); err != nil || v.Text != "a value" {
				t.Error(v, err)
			}
		})
	}
	all.Wait()
	if n := vault.Requests(); n != 1 {
		t.Errorf("Vault got %d requests", n)
	}
	<-told
	forget()
	if _, err := r.Resolve(t.Context(), "default", "s"); err != nil || vault.Requests() != 2 {
		t.Errorf("Vault got %d requests, error %v", vault.Requests(), err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	stuck := newTestResolver(map[string]*model.SecretSpec{"default/s": {File: "x"}}, func(o *Options) {
		o.ReadFile = func(string) ([]byte, error) { <-t.Context().Done(); return nil, nil }
	})
	if _, err := stuck.Resolve(ctx, "default", "s"); err == nil {
		t.Error("waits for ever")
	}
}

// TestVaultMessagesAreOneLine expects a Vault error of several lines to become one line.
func TestVaultMessagesAreOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"permission denied":                                                "permission denied",
		"1 error occurred:\n\t* permission denied\n\n":                     "permission denied",
		"2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n": "permission denied, invalid token",
		"": "",
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzVaultAnswer decodes random bytes as an answer of Vault, and expects no negative lease time.
func FuzzVaultAnswer(f *testing.F) {
	f.Add([]byte(`{"data":{"data":{"k":"v","n":1},"metadata":{}},"lease_duration":0}`), false)
	f.Add([]byte(`{"data":{"k":"v"},"lease_duration":2764800}`), true)
	f.Add([]byte(`{"errors":["permission denied\nand more"]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, v1 bool) {
		said, err := decodeKV(body, v1)
		if err == nil && said.lease < 0 {
			t.Fatal("a lease that is over before it begins")
		}
		for name := range said.data {
			_, _ = said.textOf(name)
		}
		if text := vaultError(&model.Vault{}, 500, body).Error(); len(text) > 1000 || strings.Contains(text, "\n") {
			t.Fatalf("no line: %q", text)
		}
	})
}
