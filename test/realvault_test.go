//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// The whole way from a real OpenBao (or Vault) to the commands of muster-agent and of a real sensu-agent: the value
// reaches them and nothing else; it changes, its Vault is sealed, restarted and unsealed, its token expires.
func TestRealVault(t *testing.T) {
	t.Parallel()
	vault := testenv.NewBao(t)
	dir := t.TempDir()
	makeCertificates(t, dir, "web02")
	values := map[string]string{"first": randomText(t), "second": randomText(t), "token": vault.Token("", "1h"), "root": vault.Root}
	put := func(value string) {
		t.Helper()
		vault.Must("POST", "secret/data/app/db", "", map[string]any{"data": map[string]any{"password": value}}, nil)
	}
	put(values["first"])
	token := vault.Write("token", values["token"])
	listen := harness.Port(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-client-ca", filepath.Join(dir, "sensu-ca.crt"), "--log-level", "debug")
	s.Login()
	ours := s.NewAgent("web01", "--log-level", "debug")
	ours.Start()
	nodes, logs := []string{"web01"}, map[string]func() string{"the agent's log": ours.Log}
	if program := sensuProgramPath(t); program != "" {
		s.CLI("auth", "user", "create", "agent", "--role", "agent") // with a password that nobody uses
		theirs := harness.LaunchCommand(t, nil, program, "start", "--backend-url", "wss://"+listen, "--name", "web02", "--subscriptions", "web",
			"--trusted-ca-file", filepath.Join(s.Data, "pki", "ca.crt"), "--cache-dir", t.TempDir(), "--disable-api", "--disable-sockets", "--statsd-disable",
			"--log-level", "debug", "--cert-file", filepath.Join(dir, "web02.crt"), "--key-file", filepath.Join(dir, "web02.key"))
		nodes, logs["the Sensu agent's log"] = append(nodes, "web02"), theirs.Log
	}
	harness.Until(t, time.Minute, "the agents are nodes", func() (string, bool) {
		out := s.CLI("get", "nodes")
		return out, strings.Count(out, "web0") == len(nodes)
	})
	canary := "canary-" + randomText(t)
	s.Apply(fmt.Sprintf(`{kind: Group, metadata: {name: db}, spec: {trusted: true, nodes: [%s]}}
---
{kind: Secret, metadata: {name: db}, spec: {lease: 1s, vault: {address: %q, path: app/db, key: password, tokenFile: %q, ca: %q}}}
---
kind: Check
metadata: {name: db}
spec:
  targets: {groups: [db]}
  interval: 1s
  command: 'echo %s; printf %%s "$DB" | sha256sum | cut -c 1-16; echo "the password is $DB"; printf %%s "x$DB" | base64; exit 1'
  secrets: [{env: DB, secret: db}]
`, strings.Join(nodes, ", "), vault.URL, token, vault.CA, canary))
	shown := ""
	all := func(want string) {
		t.Helper()
		for _, node := range nodes {
			shown += awaitShownEvent(t, s, node+"/db", want)
		}
	}
	all(digest(values["first"]))
	if strings.Count(shown, "the password is (hidden)") != len(nodes) {
		t.Errorf("not hidden:\n%s", shown)
	}
	put(values["second"])
	all(digest(values["second"]))
	vault.Seal()
	all("secret default/db cannot be had: Vault at " + vault.URL + " is sealed")
	vault.Unseal()
	all(digest(values["second"]))
	vault.Stop()
	all("secret default/db cannot be had: Vault at " + vault.URL + ": dial")
	vault.Start()
	all("is sealed")
	vault.Unseal()
	all(digest(values["second"]))
	short := vault.Token("", "5s")
	values["short token"] = short
	vault.Write("token", short)
	all("Vault refuses secret/app/db to the token in " + token)
	vault.Write("token", values["token"])
	all(digest(values["second"]))

	find := &secretFinder{t, values}
	said := map[string]string{"what is shown": shown, "log of the server": s.Log(), "events": s.CLI("get", "events", "-o", "json"), "history": s.CLI("get", "history", "-o", "json"),
		"problems": s.CLI("get", "problems", "-o", "json"), "secrets": s.CLI("get", "secrets", "-o", "yaml"), "audit": s.CLI("audit", "-o", "json"), "run": s.Try("run", "db", "--on", "web01").Out}
	for what, log := range logs {
		said[what] = log()
	}
	for where, text := range said {
		if names := find.search(where, []byte(text)); len(names) > 0 {
			t.Errorf("%s holds %v", where, names)
		}
	}
	ours.Stop()
	s.Stop()
	if n := find.searchFolder(s.Data, canary); n < 2 {
		t.Errorf("the canary stands in %d files of the server: the journal and history should have it", n)
	}
	find.searchFolder(ours.State, canary)
}

// sensuProgramPath is the program, where there is one.
func sensuProgramPath(t *testing.T) string {
	t.Helper()
	program := os.Getenv("MUSTER_SENSU_AGENT")
	if program == "" {
		program, _ = exec.LookPath("sensu-agent")
	}
	if program == "" {
		testenv.Shortened(t, "there is no sensu-agent of Sensu Go 6", "MUSTER_SENSU_AGENT=/path/to/sensu-agent MUSTER_BAO=/path/to/bao go test ./test -run TestRealVault")
	}
	return program
}
