//go:build linux

package test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// secretFinder looks for values, in plain text and in base64, in whatever it is shown.
type secretFinder struct {
	t      *testing.T
	values map[string]string // by what it is
}

func (f *secretFinder) search(where string, data []byte) (names []string) {
	for name, value := range f.values {
		for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value))} {
			if bytes.Contains(data, []byte(form)) {
				names = append(names, name)
			}
		}
	}
	if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if inside, err := io.ReadAll(z); err == nil {
			names = append(names, f.search(where+" (unpacked)", inside)...)
		}
	}
	return names
}

// searchFolder looks into every file, and returns how many bytes hold the canary.
func (f *secretFinder) searchFolder(dir, canary string) (canaries int) {
	f.t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil // gone meanwhile
		}
		if names := f.search(path, data); len(names) > 0 {
			f.t.Errorf("%s holds %v", path, names)
		}
		if bytes.Contains(data, []byte(canary)) {
			canaries++
		}
		return nil
	})
	return canaries
}

func randomText(t *testing.T) string {
	t.Helper()
	b := make([]byte, 18)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return base64.URLEncoding.EncodeToString(b)
}

func digest(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:8]) }

// A check has the values of its secrets, from everywhere that they may be, and they are nowhere else:
// not in what the command prints, not in files of server or agent, not in what people are shown.
func TestSecretsOnlyInCommands(t *testing.T) {
	t.Parallel()
	values := map[string]string{"file": randomText(t), "env": randomText(t), "vault": randomText(t), "vault1": randomText(t), "agent file": randomText(t), "agent env": randomText(t), "token": randomText(t)}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	vault := testenv.NewVault(t, values["token"])
	vault.Put("secret/app/db", map[string]any{"password": values["vault"]})
	vault.Put("kv/old", map[string]any{"password": values["vault1"]})
	ca := write("vault-ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vault.Certificate().Raw})))

	s := harness.NewServer(t)
	s.Environ = []string{"DB_PASSWORD=" + values["env"]}
	s.Args = []string{"--log-level", "debug"}
	s.Start()
	s.Environ = nil // of commands
	s.Login()
	own := filepath.Join(dir, "own")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	write("own/pin", values["agent file"]+"\n")
	a := s.NewAgent("web01", "--secrets-dir", own, "--log-level", "debug")
	a.Environ = []string{"MUSTER_SECRET_PIN=" + values["agent env"]}
	a.Start()
	harness.Until(t, time.Minute, "the machine has joined", func() (string, bool) {
		out := s.CLI("get", "nodes")
		return out, strings.Contains(out, "web01")
	})
	canary := "canary-" + randomText(t)
	resources := fmt.Sprintf(`apiVersion: muster/v1
kind: Group
metadata: {name: db}
spec: {trusted: true, nodes: [web01]}
---
{apiVersion: muster/v1, kind: Secret, metadata: {name: file}, spec: {file: %q}}
---
{apiVersion: muster/v1, kind: Secret, metadata: {name: env}, spec: {env: DB_PASSWORD}}
---
apiVersion: muster/v1
kind: Secret
metadata: {name: vault}
spec:
  vault: {address: %q, path: app/db, key: password, tokenFile: %q, ca: %q}
  lease: 1s
---
apiVersion: muster/v1
kind: Secret
metadata: {name: vault1}
spec:
  vault: {address: %q, mount: kv, engine: v1, path: old, key: password, tokenFile: %q, ca: %q}
---
{apiVersion: muster/v1, kind: Secret, metadata: {name: agent-file}, spec: {agentFile: pin}}
---
{apiVersion: muster/v1, kind: Secret, metadata: {name: agent-env}, spec: {agentEnv: PIN}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: leaks}
spec:
  targets: {groups: [db]}
  interval: 1s
  secrets:
    - {env: A, secret: file}
    - {env: B, secret: env}
    - {env: C, secret: vault}
    - {env: D, secret: vault1}
    - {env: E, secret: agent-file}
    - {env: F, secret: agent-env}
  command: |
    echo %s
    for v in "$A" "$B" "$C" "$D" "$E" "$F"; do
      printf %%s "$v" | sha256sum
      echo "plain $v"
      printf %%s "$v" | base64
      printf 'ann:%%s!' "$v" | base64
      printf %%s "$v" | od -An -v -tx1 | tr -d ' \n'; echo
    done
    env
    exit 2
  hooks:
    - {name: look, when: [critical], command: 'echo "hook has $A"'}
`, write("secret-file", values["file"]+"\n"), vault.URL, write("vault-token", values["token"]+"\n"), ca, vault.URL, filepath.Join(dir, "vault-token"), ca, canary)
	s.Apply(resources)
	shown := awaitShownEvent(t, s, "web01/leaks", digest(values["agent env"]))
	find := &secretFinder{t, values}
	for name, value := range values {
		if has := strings.Contains(shown, digest(value)); has != (name != "token") {
			t.Errorf("the command has the value of %s: %v", name, has)
		}
	}
	if !strings.Contains(shown, "plain (hidden)") || !strings.Contains(shown, "hook has (hidden)") || strings.Contains(shown, "MUSTER_SECRET_") {
		t.Errorf("not hidden:\n%s", shown)
	}
	streamed := s.Try("run", "leaks", "--on", "web01") // the output on its way, live
	if !strings.Contains(streamed.Out, canary) {
		t.Errorf("a run shows nothing: %s%s", streamed.Out, streamed.Errors)
	}
	said := map[string]string{
		"the event": shown, "a run": streamed.Out + streamed.Errors, "log of the server": s.Log(), "log of the agent": a.Log(),
		"audit": s.CLI("audit", "-o", "json"), "history": s.CLI("get", "history", "-o", "json"), "checks": s.CLI("get", "checks", "-o", "yaml"),
		"secrets": s.CLI("get", "secrets", "-o", "yaml") + s.CLI("get", "secrets"), "nodes": s.CLI("get", "nodes", "-o", "yaml"), "describe": s.CLI("describe", "secret", "vault"),
	}
	for _, path := range []string{"/metrics", "/debug/states"} {
		_, text, err := s.Get(path)
		if err != nil {
			t.Error(err)
		}
		said[path] = text
	}
	for where, text := range said {
		if names := find.search(where, []byte(text)); len(names) > 0 {
			t.Errorf("%s holds %v", where, names)
		}
	}
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if r := harness.Run(t, s.Env(), "debug", "bundle", "--admin", s.Admin, "--data", s.Data, "--out", bundle, "--seconds", "1"); r.Code != 0 {
		t.Errorf("bundle: %s%s", r.Out, r.Errors)
	}
	for name, text := range unpackBundle(t, bundle) {
		if strings.HasSuffix(name, ".pprof") {
			continue // stacks and types, no values
		}
		if names := find.search(name, []byte(text)); len(names) > 0 {
			t.Errorf("the bundle's %s holds %v", name, names)
		}
	}

	// Where one cannot be had, the result is UNKNOWN and says why; a lease of a second is soon over.
	vault.Seal(true)
	awaitShownEvent(t, s, "web01/leaks", "Vault at "+vault.URL+" is sealed")
	vault.Seal(false)
	awaitShownEvent(t, s, "web01/leaks", canary)
	a.Stop()
	s.Stop()
	if n := find.searchFolder(s.Data, canary); n < 2 {
		t.Errorf("the canary stands in %d files of the server: the journal and history should have it", n)
	}
	find.searchFolder(a.State, canary)
	if vault.Requests() == 0 {
		t.Error("Vault was not asked")
	}
}

// What the server knows goes to no machine that could have brought itself in.
func TestSecretsNeedApprovedMachine(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	apply := func(yaml string) harness.Result {
		t.Helper()
		file := filepath.Join(t.TempDir(), "r.yaml")
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		return s.Try("apply", "-f", file)
	}
	check := func(targets string) string {
		return `
---
{apiVersion: muster/v1, kind: Check, metadata: {name: c}, spec: {targets: ` + targets + `, interval: 1m, command: "true", secrets: [{env: A, secret: s}]}}
`
	}
	const served = `{apiVersion: muster/v1, kind: Secret, metadata: {name: s}, spec: {file: /etc/muster/s}}`
	const local = `{apiVersion: muster/v1, kind: Secret, metadata: {name: s}, spec: {agentFile: s}}`
	const trusted = `
---
{apiVersion: muster/v1, kind: Group, metadata: {name: g}, spec: {trusted: true, where: 'node.labels.role == "db"'}}`
	const untrusted = `
---
{apiVersion: muster/v1, kind: Group, metadata: {name: g}, spec: {where: 'node.labels.role == "db"'}}`
	for _, c := range []struct{ yaml, want string }{
		{served + check(`{groups: [all]}`), "group all is not trusted"},
		{served + check(`{where: 'node.labels.role == "db"'}`), "a condition here reads what machines say of themselves"},
		{served + check(`{nodes: [web01]}`), "whoever joins first under that name would get it"},
		{served + untrusted + check(`{groups: [g]}`), "group g is not trusted"},
		{served + trusted + check(`{groups: [g], except: {groups: [all]}}`), "targets.except"},
		{served + trusted + check(`{groups: [g]}`), ""},
		{served + untrusted, "hands out the secret s"},
		{local + untrusted, ""}, // the value is on the node already: nobody hands it out
		{served, "hands out the secret s"},
		{`{apiVersion: muster/v1, kind: Secret, metadata: {name: s}, spec: {value: hunter22}}`, "a Secret does not hold the value itself"},
	} {
		r := apply(c.yaml)
		if c.want == "" && r.Code != 0 || c.want != "" && (r.Code == 0 || !strings.Contains(r.Out+r.Errors, c.want)) {
			t.Errorf("%s\ncode %d, want %q in\n%s%s", c.yaml, r.Code, c.want, r.Out, r.Errors)
		}
	}
	if r := s.Try("delete", "secret", "s", "--yes"); r.Code == 0 || !strings.Contains(r.Errors, "check/c refers to secret/s") {
		t.Errorf("deleted although a check names it: %s%s", r.Out, r.Errors)
	}
}

// event waits until what is shown of an event has a text, and returns it.
func awaitShownEvent(t *testing.T, s *harness.Server, which, want string) (shown string) {
	t.Helper()
	harness.Until(t, time.Minute, which+" shows "+want, func() (string, bool) {
		r := s.Try("describe", "event", which)
		shown = r.Out
		return r.Out + r.Errors, strings.Contains(r.Out, want)
	})
	return shown
}
