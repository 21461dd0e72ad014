package secret

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestResolverReadsRealVault reads secrets from a real OpenBao server, and compares values and error messages. It
// tries tokens, OpenBao's own agent with AppRole, both KV engines, namespaces, and a sealed, restarted and absent
// server.
func TestResolverReadsRealVault(t *testing.T) {
	b := testenv.NewBao(t)
	const password, other = "correct horse battery", "the value of a team"
	b.MustRequest("POST", "secret/data/app/db", "", map[string]any{"data": map[string]any{"password": password, "port": 54320, "none": nil}}, nil)
	b.MustRequest("POST", "secret/data/gone", "", map[string]any{"data": map[string]any{"password": password}}, nil)
	b.MustRequest("DELETE", "secret/data/gone", "", nil, nil)
	b.MustRequest("POST", "secret/data/destroyed", "", map[string]any{"data": map[string]any{"password": password}}, nil)
	b.MustRequest("PUT", "secret/destroy/destroyed", "", map[string]any{"versions": []int{1}}, nil)
	b.MustRequest("POST", "secret/data/a%20b/c", "", map[string]any{"data": map[string]any{"password": other}}, nil)
	b.MustRequest("POST", "kv/old/one", "", map[string]any{"password": "version one", "ttl": "30s"}, nil)
	b.MustRequest("POST", "kv/old/two", "", map[string]any{"password": "version two"}, nil)
	b.MustRequest("POST", "sys/namespaces/team", "", map[string]any{}, nil)
	b.MountEngines("team")
	b.MustRequest("POST", "secret/data/app/db", "team", map[string]any{"data": map[string]any{"password": other}}, nil)

	good, wrong, none := b.Write("good", b.Token("", "1h")+"\n"), b.Write("wrong", "s.wrong"), b.Write("none", "")
	ofTeam := b.Write("team", b.Token("team", "1h"))
	at := func(change func(*model.Vault)) *model.SecretSpec {
		v := &model.Vault{Address: b.URL, Path: "app/db", Key: "password", TokenFile: good, CA: b.CA}
		change(v)
		return &model.SecretSpec{Vault: v}
	}
	ask := func(spec *model.SecretSpec) (Value, error) {
		return newTestResolver(map[string]*model.SecretSpec{"default/s": spec}, nil).Resolve(t.Context(), "default", "s")
	}
	refused := func(name string, spec *model.SecretSpec, says string) {
		t.Helper()
		v, err := ask(spec)
		if err == nil || !strings.Contains(err.Error(), says) || v != (Value{}) {
			t.Errorf("%s: %+v, %v; want %q", name, v, err, says)
			return
		}
		t.Logf("%-16s %v", name, err)
		token, _ := os.ReadFile(spec.Vault.TokenFile)
		for _, never := range []string{password, other, strings.TrimSpace(string(token)), b.Root} {
			if never != "" && strings.Contains(err.Error(), never) {
				t.Errorf("%s: the error holds a secret: %v", name, err)
			}
		}
		if strings.ContainsAny(err.Error(), "\n\t") {
			t.Errorf("%s: more than a line: %q", name, err)
		}
	}
	for name, c := range map[string]struct {
		spec  *model.SecretSpec
		value string
		lease time.Duration
	}{
		"v2":           {at(func(*model.Vault) {}), password, model.DefaultSecretLease},
		"v2 number":    {at(func(v *model.Vault) { v.Key = "port" }), "54320", model.DefaultSecretLease},
		"v2 blank":     {at(func(v *model.Vault) { v.Path = "a b/c" }), other, model.DefaultSecretLease},
		"v1 with ttl":  {at(func(v *model.Vault) { v.Engine, v.Mount, v.Path = "v1", "kv", "old/one" }), "version one", 30 * time.Second},
		"v1":           {at(func(v *model.Vault) { v.Engine, v.Mount, v.Path = "v1", "kv", "old/two" }), "version two", model.DefaultSecretLease},
		"namespace":    {at(func(v *model.Vault) { v.Namespace, v.TokenFile = "team", ofTeam }), other, model.DefaultSecretLease},
		"namespace, /": {at(func(v *model.Vault) { v.Namespace, v.TokenFile = "team/", ofTeam }), other, model.DefaultSecretLease},
	} {
		if v, err := ask(c.spec); err != nil || v != (Value{Text: c.value, Lease: c.lease}) {
			t.Errorf("%s: %+v, %v; want %q for %v", name, v, err, c.value, c.lease)
		}
	}
	for _, c := range []struct {
		name string
		spec *model.SecretSpec
		says string
	}{
		{"no key", at(func(v *model.Vault) { v.Key = "user" }), `secret/app/db in Vault: key "user" does not exist`},
		{"null", at(func(v *model.Vault) { v.Key = "none" }), "does not exist"},
		{"nothing there", at(func(v *model.Vault) { v.Path = "app/none" }), "Vault has no value at secret/app/none (engine v2)"},
		{"deleted", at(func(v *model.Vault) { v.Path = "gone" }), "check that the secret exists"},
		{"destroyed", at(func(v *model.Vault) { v.Path = "destroyed" }), "check that the secret exists"},
		{"v1 as v2", at(func(v *model.Vault) { v.Mount, v.Path = "kv", "old/one" }), "kv/old/one"},
		{"v2 as v1", at(func(v *model.Vault) { v.Engine = "v1" }), "add a policy with read on secret/app/db, or renew it"},
		{"no mount", at(func(v *model.Vault) { v.Mount = "nowhere" }), "give it a policy with read on nowhere/data/app/db"},
		{"wrong token", at(func(v *model.Vault) { v.TokenFile = wrong }), "Vault refuses secret/app/db to the token in " + wrong},
		{"empty token", at(func(v *model.Vault) { v.TokenFile = none }), none + " is empty"},
		{"token of another", at(func(v *model.Vault) { v.TokenFile = ofTeam }), "Vault refuses secret/app/db"},
		{"no namespace", at(func(v *model.Vault) { v.Namespace = "nobody" }), "secret/app/db"},
		{"http", at(func(v *model.Vault) { v.Address = "http" + strings.TrimPrefix(b.URL, "https") }), "answers 400: is it https://?"},
		{"no ca", at(func(v *model.Vault) { v.CA = "" }), "certificate"},
	} {
		refused(c.name, c.spec, c.says)
	}

	// A token that expires, and another in the same file.
	short := b.Write("short", b.Token("", "2s"))
	spec := at(func(v *model.Vault) { v.TokenFile = short })
	if v, err := ask(spec); err != nil || v.Text != password {
		t.Errorf("before it expires: %v, %v", v, err)
	}
	testenv.Until(t, "the token has expired", func() bool { _, err := ask(spec); return err != nil })
	refused("expired token", spec, "to the token in "+short)
	b.Write("short", b.Token("", "1h"))
	if v, err := ask(spec); err != nil || v.Text != password {
		t.Errorf("with a new token: %v, %v", v, err)
	}
	// A changed value is in the next answer.
	b.MustRequest("POST", "secret/data/app/db", "", map[string]any{"data": map[string]any{"password": "rotated value"}}, nil)
	if v, err := ask(spec); err != nil || v.Text != "rotated value" {
		t.Errorf("rotated: %v, %v", v, err)
	}
	testAppRole(t, b, at, ask)

	b.Seal()
	refused("sealed", spec, "is sealed or in maintenance")
	b.Stop()
	refused("away", spec, "Vault at "+b.URL+": dial")
	b.Start()
	refused("restarted", spec, "is sealed or in maintenance")
	b.Unseal()
	if v, err := ask(spec); err != nil || v.Text != "rotated value" {
		t.Errorf("after a restart: %v, %v", v, err)
	}
}

// testAppRole lets OpenBao's agent log in by AppRole, and expects a new token after expiry. The agent writes the token
// file as docs/secrets.md describes.
func testAppRole(t *testing.T, b *testenv.Bao, at func(func(*model.Vault)) *model.SecretSpec, ask func(*model.SecretSpec) (Value, error)) {
	t.Helper()
	b.MustRequest("POST", "sys/auth/approle", "", map[string]any{"type": "approle"}, nil)
	b.MustRequest("POST", "auth/approle/role/muster", "", map[string]any{"token_policies": "muster", "token_ttl": "5s", "token_max_ttl": "6s"}, nil)
	var role, secret struct{ Data map[string]any }
	b.MustRequest("GET", "auth/approle/role/muster/role-id", "", nil, &role)
	b.MustRequest("POST", "auth/approle/role/muster/secret-id", "", map[string]any{}, &secret)
	sink := b.Write("token-by-agent", "")
	config := b.Write("agent.hcl", fmt.Sprintf("vault {\n  address = %q\n  ca_cert = %q\n}\nauto_auth {\n  method \"approle\" {\n    config = {\n      role_id_file_path = %q\n      secret_id_file_path = %q\n      remove_secret_id_file_after_reading = false\n    }\n  }\n  sink \"file\" {\n    config = {\n      path = %q\n      mode = 0600\n    }\n  }\n}\n",
		b.URL, b.CA, b.Write("role-id", fmt.Sprint(role.Data["role_id"])), b.Write("secret-id", fmt.Sprint(secret.Data["secret_id"])), sink))
	agent := b.Command("agent", "-config="+config)
	testenv.NoError(t, agent.Start())
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	spec := at(func(v *model.Vault) { v.TokenFile = sink })
	err, first := errors.New("not asked"), ""
	testenv.Until(t, "a token by AppRole", func() bool {
		if _, err = ask(spec); err != nil {
			return false
		}
		text, _ := os.ReadFile(sink)
		first = string(text)
		return first != ""
	})
	testenv.Until(t, "the next token by AppRole", func() bool {
		text, _ := os.ReadFile(sink)
		if len(text) == 0 || string(text) == first {
			return false
		}
		_, err = ask(spec)
		return err == nil
	})
	if err != nil {
		t.Error(err)
	}
}
