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
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// secretFinder searches data for secret values. It finds plain values, base64, hex, and values within gzip.
type secretFinder struct {
	t      *testing.T
	values map[string]string // by name
}

// search returns the names of the secrets whose values occur in the given data.
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

// expectNoSecret fails the test if any of the given texts contains a secret.
func (f *secretFinder) expectNoSecret(texts map[string]string) {
	f.t.Helper()
	for where, text := range texts {
		names := f.search(where, []byte(text))
		assert(f.t, len(names) == 0, "%s contains the secrets %v", where, names)
	}
}

// expectNoSecretInFolder fails the test if a file in a folder contains a secret. It also counts the files with a harmless test
// value.
func (f *secretFinder) expectNoSecretInFolder(dir, canary string) (canaries int) {
	f.t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil // gone meanwhile
		}
		names := f.search(path, data)
		assert(f.t, len(names) == 0, "%s contains the secrets %v", path, names)
		if bytes.Contains(data, []byte(canary)) {
			canaries++
		}
		return nil
	})
	return canaries
}

// randomText returns a random text of 24 characters.
func randomText(t *testing.T) string {
	t.Helper()
	b := make([]byte, 18)
	testenv.Value(rand.Read(b))(t)
	return base64.URLEncoding.EncodeToString(b)
}

// shortHash returns the first digits of a text's SHA-256. They name a secret without showing it.
func shortHash(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:8]) }

// TestSecretsOnlyInCommands gives a check secrets, and expects their values only in the commands of the check. No
// output, file, log or page has the values.
func TestSecretsOnlyInCommands(t *testing.T) {
	t.Parallel()
	values := map[string]string{"file": randomText(t), "env": randomText(t), "vault": randomText(t), "vault1": randomText(t), "agent file": randomText(t), "agent env": randomText(t), "token": randomText(t)}
	dir := t.TempDir()
	write := func(name, text string) string { return writeFileInFolder(t, dir, name, text) }
	vault := testenv.NewVault(t, values["token"])
	vault.Put("secret/app/db", map[string]any{"password": values["vault"]})
	vault.Put("kv/old", map[string]any{"password": values["vault1"]})
	ca := write("vault-ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vault.Certificate().Raw})))

	s := harness.NewServer(t)
	s.Environ = []string{"DB_PASSWORD=" + values["env"]}
	s.Args = []string{"--log-level", "debug"}
	s.Start()
	s.Environ = nil // the environment of commands
	s.Login()
	own := filepath.Join(dir, "own")
	testenv.NoError(t, os.MkdirAll(own, 0o700))
	write("own/pin", values["agent file"]+"\n")
	a := s.NewAgent("web01", "--secrets-dir", own, "--log-level", "debug")
	a.Environ = []string{"MUSTER_SECRET_PIN=" + values["agent env"]}
	a.Start()
	s.AwaitOutput("get nodes", "web01")
	canary := "canary-" + randomText(t)
	testenv.NoError(t, os.Mkdir(filepath.Join(dir, "items"), 0o700))
	for _, name := range []string{"file", "vault1", "agent file"} { // files whose names are the secrets
		write("items/"+values[name], name+" is "+values[name])
	}
	resources := fmt.Sprintf(`{kind: Group, metadata: {name: db}, spec: {trusted: true, nodes: [web01]}}
---
{apiVersion: muster/v1, kind: Secret, metadata: {name: file}, spec: {file: %q}}
---
{apiVersion: muster/v1, kind: Secret, metadata: {name: env}, spec: {env: DB_PASSWORD}}
---
{kind: Secret, metadata: {name: vault},
  spec: {vault: {address: %q, path: app/db, key: password, tokenFile: %q, ca: %q}, lease: 1s}}
---
{kind: Secret, metadata: {name: vault1},
  spec: {vault: {address: %q, mount: kv, engine: v1, path: old, key: password, tokenFile: %q, ca: %q}}}
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
---
kind: Template
metadata: {name: items}
spec:
  targets: {groups: [db]}
  secrets: [{macro: "{$FILE}", secret: file}, {macro: "{$VAULT}", secret: vault1}, {macro: "{$PIN}", secret: agent-file}]
  items:
    - {key: "vfs.file.contents[{$DIR}/{$FILE}]", type: text, interval: 1s}
    - {key: "vfs.file.contents[{$DIR}/{$VAULT}]", type: text, interval: 1s}
    - {key: "vfs.file.contents[{$DIR}/{$PIN}]", type: text, interval: 1s}
    - {key: "vfs.file.contents[/nosuch/{$PIN}]", type: text, interval: 1s}
---
{kind: Property, metadata: {name: dir}, spec: {property: "{$DIR}", scope: global, value: %q}}
---
{kind: Property, metadata: {name: not-pin}, spec: {property: "{$PIN}", scope: global, value: open}}
`, write("secret-file", values["file"]+"\n"), vault.URL, write("vault-token", values["token"]+"\n"), ca, vault.URL, filepath.Join(dir, "vault-token"), ca, canary, filepath.Join(dir, "items"))
	s.Apply(resources)
	shown := s.AwaitOutput("describe event web01/leaks", shortHash(values["agent env"]))
	find := &secretFinder{t, values}
	for name, value := range values {
		expectEqual(t, "the command has the value of", strings.Contains(shown, shortHash(value)), (name != "token"))
	}
	expectTexts(t, shown, "plain (hidden)", "hook has (hidden)")
	expectNoTexts(t, shown, "MUSTER_SECRET_")
	items := s.AwaitOutput("get items", "file is (hidden)", "vault1 is (hidden)", "agent file is (hidden)", "nosuch/(hidden)", "{$DIR}/{$FILE}")
	streamed := s.Try("run", "leaks", "--on", "web01") // the live output
	expectTexts(t, streamed.Out, canary)
	said := map[string]string{
		"items": items + s.CLI("get", "items", "-o", "yaml") + s.CLI("describe", "item", "web01/vfs.file.contents[{$DIR}/{$FILE}]"), "texts": s.CLI("get", "texts", "web01/vfs.file.contents[{$DIR}/{$PIN}]", "-o", "json"),
		"template":  s.CLI("get", "template", "items", "-o", "yaml") + s.CLI("describe", "template", "items") + s.CLI("describe", "node", "web01") + s.CLI("explain", "template"),
		"the event": shown, "a run": streamed.Out + streamed.Errors, "log of the server": s.Log(), "log of the agent": a.Log(),
		"audit": s.CLI("audit", "-o", "json"), "history": s.CLI("get", "history", "-o", "json"), "checks": s.CLI("get", "checks", "-o", "yaml"),
		"secrets": s.CLI("get", "secrets", "-o", "yaml") + s.CLI("get", "secrets"), "nodes": s.CLI("get", "nodes", "-o", "yaml"), "describe": s.CLI("describe", "secret", "vault"),
	}
	for _, path := range []string{"/metrics", "/debug/states"} {
		_, text, err := s.GetAdmin(path)
		assert(t, err == nil, "%v", err)
		said[path] = text
	}
	find.expectNoSecret(said)
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	s.Try("debug", "bundle", "--admin", s.Admin, "--data", s.Data, "--out", bundle, "--seconds", "1").Expect(0)
	files := unpackBundle(t, bundle)
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, ".pprof") }) // stack traces name types, not values
	find.expectNoSecret(files)

	// A check whose secret cannot be read is UNKNOWN and says why. The lease of a second ends soon.
	vault.Seal(true)
	s.AwaitOutput("describe event web01/leaks", "Vault at "+vault.URL+" is sealed")
	vault.Seal(false)
	s.AwaitOutput("describe event web01/leaks", canary)
	a.Stop()
	s.Stop()
	n := find.expectNoSecretInFolder(s.Data, canary)
	assert(t, n >= 2, "the canary stands in %d files of the server: the journal and history should have it", n)
	find.expectNoSecretInFolder(a.State, canary)
	assert(t, vault.Requests() != 0, "Vault was not asked")
}

// TestSecretsNeedTrustedGroup gives secrets to untrusted groups of machines, and expects refusals.
func TestSecretsNeedTrustedGroup(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	apply := func(yaml string) harness.Result {
		t.Helper()
		file := tempFile(t, "r.yaml", yaml)
		return s.Try("apply", "-f", file)
	}
	check := func(targets string) string {
		return `
---
{apiVersion: muster/v1, kind: Check, metadata: {name: c}, spec: {targets: ` + targets + `, interval: 1m, command: "true", secrets: [{env: A, secret: s}]}}
`
	}
	const template = `
---
{kind: Template, metadata: {name: t}, spec: {targets: {groups: [g]}, items: [{key: "page[{$A}]"}], secrets: [{macro: "{$A}", secret: s}]}}
`
	const served = `{apiVersion: muster/v1, kind: Secret, metadata: {name: s}, spec: {file: /etc/muster/s}}`
	const local = `{apiVersion: muster/v1, kind: Secret, metadata: {name: s}, spec: {agentFile: s}}`
	const trusted = `
---
{apiVersion: muster/v1, kind: Group, metadata: {name: g}, spec: {trusted: true, where: 'node.labels.role == "db"'}}`
	const untrusted = `
---
{apiVersion: muster/v1, kind: Group, metadata: {name: g}, spec: {where: 'node.labels.role == "db"'}}`
	for _, c := range []struct{ yaml, want string }{
		{served + strings.Replace(check(`{groups: [all]}`), "interval", "disabled: true, interval", 1), ""}, // no node runs it yet
		{served + check(`{groups: [all]}`), "group all is not trusted"},
		{served + check(`{where: 'node.labels.role == "db"'}`), "a condition of the check reads facts that machines report"},
		{served + check(`{nodes: [web01]}`), "the first machine with that name would get it"},
		{served + untrusted + check(`{groups: [g]}`), "group g is not trusted"},
		{served + trusted + check(`{groups: [g], except: {groups: [all]}}`), "targets.except"},
		{served + trusted + check(`{groups: [g]}`), ""},
		{served + untrusted + template, "the template gives the secret s to nodes"},
		{served + trusted + template, ""},
		{served + untrusted, "gives the secret s to nodes"},
		{local + untrusted, ""}, // the value lies on the node, so the server does not send it
		{served, "gives the secret s to nodes"},
		{`{apiVersion: muster/v1, kind: Secret, metadata: {name: s}, spec: {value: hunter22}}`, "a Secret does not contain the value"},
	} {
		r := apply(c.yaml)
		assert(t, (c.want != "" || r.Code == 0) && (c.want == "" || r.Code != 0 && strings.Contains(r.Out+r.Errors, c.want)),
			"%s\ncode %d, want %q in\n%s%s", c.yaml, r.Code, c.want, r.Out, r.Errors)
	}
	s.Try("delete", "secret", "s", "--yes").Expect(harness.AnyFailure, "still refers to secret/s")
}

// TestHandlersGetSecrets expects notification handlers to get the current values of their secrets. The values
// appear in no output, log or file.
func TestHandlersGetSecrets(t *testing.T) {
	t.Parallel()
	values := map[string]string{"first": randomText(t), "second": randomText(t), "env": randomText(t)}
	asked := make(chan string, 100)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}))
	t.Cleanup(service.Close)
	next := func(what, value string) {
		t.Helper()
		require(t, receiveValue(t, asked) == value, "%s: the token is another", what)
	}
	dir := t.TempDir()
	file, told := filepath.Join(dir, "token"), filepath.Join(dir, "told")
	write := func(value string) {
		t.Helper()
		writeFile(t, file, value+"\n")
	}
	write(values["first"])

	s := harness.NewServer(t)
	s.Environ = []string{"PAGER_KEY=" + values["env"]}

	s.Start()
	s.Environ = nil
	s.Login()
	s.Apply(fmt.Sprintf(`{kind: Secret, metadata: {name: hook}, spec: {file: %q}}
---
{kind: Secret, metadata: {name: key, namespace: shared}, spec: {env: PAGER_KEY}}
---
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q, token: {secret: hook}}}}
---
{kind: Handler, metadata: {name: program},
  spec: {command: echo "the key is $KEY"; printf %%s "$KEY" | sha256sum >> %s, secrets: [{env: KEY, secret: shared/key}]}}
---
{kind: Namespace, metadata: {name: default}, spec: {handlers: [hook, program]}}
`, file, service.URL, told))
	tested := s.CLI("handler", "test", "hook") + s.CLI("handler", "test", "program")
	expectTexts(t, tested, "Authorization: Bearer (hidden)", "the key is (hidden)")
	next("the test", values["first"])

	// The next delivery has the next value. While none exists, the delivery waits and says why.
	testenv.NoError(t, os.Remove(file))
	harness.Until(t, time.Minute, "what a test says without the file", func() (string, bool) {
		r := s.Try("handler", "test", "hook")
		for len(asked) > 0 {
			<-asked // a request within the moment for which the value is cached
		}
		return r.Out + r.Errors, strings.Contains(r.Out, "read secret default/hook: read the secret's file on the server: open "+file) && r.Code == 9
	})
	a := s.StartAgent("web01")
	check := s.NewCountingCheck("disk", "web01")
	check.AwaitRuns(1)
	check.SetExitCode(2)
	waits := ""
	waits = s.AwaitOutput("why web01/disk", "read secret default/hook: read the secret's file on the server: open "+file)
	awaitFile(t, told, 2, shortHash(values["env"]))
	write(values["second"])
	next("the opening", values["second"])
	check.SetExitCode(0)
	next("the closing", values["second"])

	find := &secretFinder{t, values}
	find.expectNoSecret(map[string]string{
		"a test": tested, "why": waits + s.CLI("why", "web01/disk"), "log": s.Log(), "audit": s.CLI("audit", "-o", "json"), "history": s.CLI("get", "history", "-o", "json"),
		"handlers": s.CLI("get", "handlers", "-o", "yaml") + s.CLI("get", "handlers") + s.CLI("describe", "handler", "hook"), "secrets": s.CLI("get", "secrets", "-o", "yaml"),
	})
	s.Try("delete", "secret", "hook").Expect(4, "handler/hook still refers to secret/hook in the field spec.webhook.token.secret")
	a.Stop()
	s.Stop()
	assert(t, find.expectNoSecretInFolder(s.Data, told) != 0, "the handler stands in no file of the server: where was looked?")
}

// Commands of muster-agent and sensu-agent get secrets from a real OpenBao or Vault. They also get a changed value.
func TestVaultSecretsReachCommands(t *testing.T) {
	t.Parallel()
	vault := testenv.NewBao(t)
	dir := t.TempDir()
	makeCertificates(t, "sensu-certificates.md", dir, "web02")
	values := map[string]string{"first": randomText(t), "second": randomText(t), "token": vault.Token("", "1h"), "root": vault.Root}
	put := func(value string) {
		t.Helper()
		vault.MustRequest("POST", "secret/data/app/db", "", map[string]any{"data": map[string]any{"password": value}}, nil)
	}
	put(values["first"])
	token := vault.Write("token", values["token"])
	listen := harness.ReservePort(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-client-ca", filepath.Join(dir, "sensu-ca.crt"), "--log-level", "debug")
	ours := s.StartAgent("web01", "--log-level", "debug")
	nodes, logs := []string{"web01"}, map[string]func() string{"the agent's log": ours.Log}
	if program := sensuProgram("MUSTER_SENSU_AGENT", "sensu-agent"); program == "" {
		testenv.Shortened(t, "there is no sensu-agent of Sensu Go 6", "MUSTER_SENSU_AGENT=/path/to/sensu-agent MUSTER_BAO=/path/to/bao go test ./test -run TestVaultSecretsReachCommands")
	} else {
		s.CLI("auth", "user", "create", "agent", "--role", "agent") // a user with a password that no agent uses
		theirs := startSensuAgent(t, s, program, listen, "web02", "--cert-file", filepath.Join(dir, "web02.crt"), "--key-file", filepath.Join(dir, "web02.key"))
		nodes, logs["the Sensu agent's log"] = append(nodes, "web02"), theirs.Log
	}
	awaitEqual(t, "agents with a node", len(nodes), func() int { return strings.Count(s.CLI("get", "nodes"), "web0") })
	canary := "canary-" + randomText(t)
	s.Apply(fmt.Sprintf(`{kind: Group, metadata: {name: db}, spec: {trusted: true, nodes: [%s]}}
---
{kind: Secret, metadata: {name: db}, spec: {lease: 1s, vault: {address: %q, path: app/db, key: password, tokenFile: %q, ca: %q}}}
---
{kind: Check, metadata: {name: db},
  spec: {targets: {groups: [db]}, interval: 1s, command: echo %s; printf %%s "$DB" | sha256sum | cut -c 1-16; echo "the password is $DB"; printf %%s "x$DB" | base64; exit 1, secrets: [{env: DB, secret: db}]}}
`, strings.Join(nodes, ", "), vault.URL, token, vault.CA, canary))
	shown := ""
	all := func(want string) {
		t.Helper()
		for _, node := range nodes {
			shown += s.AwaitOutput("describe event "+node+"/db", want)
		}
	}
	all(shortHash(values["first"]))
	assert(t, strings.Count(shown, "the password is (hidden)") == len(nodes), "not hidden:\n%s", shown)
	put(values["second"])
	all(shortHash(values["second"]))
	vault.Seal()
	all("secret default/db is not available: Vault at " + vault.URL + " is sealed")
	vault.Unseal()
	all(shortHash(values["second"]))
	vault.Stop()
	all("secret default/db is not available: Vault at " + vault.URL + ": dial")
	vault.Start()
	all("is sealed")
	vault.Unseal()
	all(shortHash(values["second"]))
	short := vault.Token("", "5s")
	values["short token"] = short
	vault.Write("token", short)
	all("Vault refuses secret/app/db to the token in " + token)
	vault.Write("token", values["token"])
	all(shortHash(values["second"]))

	find := &secretFinder{t, values}
	said := map[string]string{"what is shown": shown, "log of the server": s.Log(), "events": s.CLI("get", "events", "-o", "json"), "history": s.CLI("get", "history", "-o", "json"),
		"problems": s.CLI("get", "problems", "-o", "json"), "secrets": s.CLI("get", "secrets", "-o", "yaml"), "audit": s.CLI("audit", "-o", "json"), "run": s.Try("run", "db", "--on", "web01").Out}
	for what, log := range logs {
		said[what] = log()
	}
	find.expectNoSecret(said)
	ours.Stop()
	s.Stop()
	n := find.expectNoSecretInFolder(s.Data, canary)
	assert(t, n >= 2, "the canary stands in %d files of the server: the journal and history should have it", n)
	find.expectNoSecretInFolder(ours.State, canary)
}

// sensuProgram returns the path of a Sensu Go 6 program, from an environment variable or PATH.
func sensuProgram(variable, name string) string {
	if program := os.Getenv(variable); program != "" {
		return program
	}
	program, _ := exec.LookPath(name)
	return program
}

// startSensuAgent starts a real sensu-agent.
func startSensuAgent(t *testing.T, s *harness.Server, program, listen, name string, more ...string) *harness.Process {
	t.Helper()
	return harness.LaunchCommand(t, nil, append([]string{program, "start", "--backend-url", "wss://" + listen, "--name", name, "--subscriptions", "web",
		"--trusted-ca-file", filepath.Join(s.Data, "pki", "ca.crt"), "--cache-dir", t.TempDir(), "--disable-api", "--disable-sockets", "--statsd-disable",
		"--log-level", "debug"}, more...)...)
}
