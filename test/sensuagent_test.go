//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// makeCertificates runs the commands of docs/sensu-certificates.md that make an authority and the certificates of
// these machines in a folder. revoke runs those that revoke one.
func makeCertificates(t *testing.T, dir string, machines ...string) (revoke func(machine string)) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		testenv.LeftOut(t, "there is no openssl", "sudo apt-get install openssl")
	}
	page, err := os.ReadFile("../docs/sensu-certificates.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, block := range regexp.MustCompile("(?s)```[a-z]*\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], "openssl ") {
			blocks = append(blocks, block[1])
		}
	}
	if len(blocks) != 3 || !strings.HasPrefix(blocks[1], "name=web01") || !strings.Contains(blocks[2], "-gencrl") {
		t.Fatalf("docs/sensu-certificates.md makes certificates and lists by %q", blocks)
	}
	run := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	run(blocks[0])
	for _, name := range machines {
		run(strings.Replace(blocks[1], "name=web01", "name="+name, 1))
	}
	return func(name string) { run(strings.ReplaceAll(blocks[2], "web01.crt", name+".crt")) }
}

// A real sensu-agent of Sensu Go 6, with a certificate that docs/sensu-certificates.md made: it needs no password,
// is given the secrets of its checks, and they are nowhere else; one with a password is not, and
// gives way to the machine that proves its name.
func TestSensuAgentWithACertificate(t *testing.T) {
	program := os.Getenv("MUSTER_SENSU_AGENT")
	if program == "" {
		var err error
		if program, err = exec.LookPath("sensu-agent"); err != nil {
			testenv.LeftOut(t, "there is no sensu-agent of Sensu Go 6", "MUSTER_SENSU_AGENT=/path/to/sensu-agent go test ./test -run TestSensuAgentWithACertificate")
		}
	}
	t.Parallel()
	dir := t.TempDir()
	revoke := makeCertificates(t, dir, "web01", "web02", "web09")
	revoke("web09")
	values := map[string]string{"db": randomText(t)}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("db", values["db"]+"\n")
	listen := harness.Port(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-client-ca", filepath.Join(dir, "sensu-ca.crt"),
		"--sensu-client-crl", filepath.Join(dir, "sensu-ca.crl"), "--log-level", "debug")
	s.Login()
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", write("password", "P@ssw0rd!"))
	start := func(name string, more ...string) *harness.Process {
		t.Helper()
		return harness.LaunchCommand(t, nil, append([]string{program, "start", "--backend-url", "wss://" + listen, "--name", name, "--subscriptions", "web",
			"--trusted-ca-file", filepath.Join(s.Data, "pki", "ca.crt"), "--cache-dir", t.TempDir(), "--disable-api", "--disable-sockets", "--statsd-disable",
			"--log-level", "debug"}, more...)...)
	}
	with := func(name string) []string {
		return []string{"--cert-file", filepath.Join(dir, name+".crt"), "--key-file", filepath.Join(dir, name+".key")}
	}
	proven := start("web01", with("web01")...)
	byPassword := start("web02", "--user", "agent", "--password", "P@ssw0rd!")
	start("web03", with("web02")...) // another machine's
	harness.Until(t, time.Minute, "the agents are nodes", func() (string, bool) {
		out := s.CLI("get", "nodes")
		return out, strings.Contains(out, "web01") && strings.Contains(out, "web02")
	})
	s.Apply(fmt.Sprintf(`{kind: Secret, metadata: {name: db}, spec: {file: %q}}
---
kind: Check
metadata: {name: db}
spec:
  targets: {nodes: [web01, web02]}
  interval: 1s
  command: 'printf %%s "$DB" | sha256sum | cut -c 1-16; echo "the password is $DB"; printf %%s "x$DB" | base64'
  secrets: [{env: DB, secret: db}]
`, file))
	event := func(what, node string, texts ...string) string {
		t.Helper()
		out := ""
		harness.Until(t, time.Minute, what, func() (string, bool) {
			out = s.Try("describe", "event", node+"/db").Out
			for _, text := range texts {
				if !strings.Contains(out, text) {
					return out, false
				}
			}
			return out, true
		})
		return out
	}
	shown := event("the secret reaches the command", "web01", digest(values["db"]), "the password is (hidden)")
	shown += event("the other one is told why not", "web02", "given no secrets: its password is one that machines share")
	harness.Until(t, time.Minute, "the machine with another one's certificate is refused", func() (string, bool) {
		log := s.Log()
		return log, strings.Contains(log, "that of the machine web03")
	})
	start("web09", with("web09")...) // revoked
	harness.Until(t, time.Minute, "the machine with a revoked certificate is refused", func() (string, bool) {
		n := s.Metric("muster_sensu_logins_total", `outcome="forbidden"`)
		return fmt.Sprint(n), n > 0
	})
	start("web02", with("web02")...)
	shown += event("the proven one has the name", "web02", digest(values["db"]))
	harness.Until(t, time.Minute, "the other one is refused", func() (string, bool) {
		out := byPassword.Log()
		return out, strings.Contains(out, "409")
	})
	if out := s.CLI("get", "nodes"); strings.Contains(out, "web03") || strings.Contains(out, "web09") {
		t.Errorf("%s", out)
	}
	shown += s.CLI("describe", "node", "web01")
	if !strings.Contains(shown, "certificate") {
		t.Errorf("%s", shown)
	}
	if given := s.Metric("muster_sensu_secrets_total", `outcome="given"`); given < 2 {
		t.Errorf("%v given", given)
	}
	find := &secretFinder{t, values}
	for where, text := range map[string]string{"what is shown": shown, "log": s.Log(), "the agent's log": proven.Log(), "events": s.CLI("get", "events", "-o", "json"),
		"history": s.CLI("get", "history", "-o", "json"), "run": s.Try("run", "db", "--on", "web01").Out} {
		if names := find.search(where, []byte(text)); len(names) > 0 {
			t.Errorf("%s holds %v", where, names)
		}
	}
	// Another authority comes in beside the first one: its machines come, and the others stay.
	other := t.TempDir()
	makeCertificates(t, other, "web04")
	both := ""
	for _, from := range []string{dir, other} {
		text, err := os.ReadFile(filepath.Join(from, "sensu-ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		both += string(text)
	}
	ended := s.Metric("muster_sensu_ended_total")
	write("sensu-ca.crt", both)
	harness.Until(t, time.Minute, "the authorities are read again", func() (string, bool) {
		log := s.Log()
		return log, strings.Contains(log, "the authorities of Sensu's agents were read again")
	})
	start("web04", "--cert-file", filepath.Join(other, "web04.crt"), "--key-file", filepath.Join(other, "web04.key"))
	harness.Until(t, time.Minute, "a machine of the other authority", func() (string, bool) {
		out := s.Try("describe", "node", "web04").Out
		return out, strings.Contains(out, "certificate")
	})
	if now := s.Metric("muster_sensu_ended_total"); now != ended {
		t.Errorf("%v sessions ended", now-ended)
	}
	// A certificate is revoked while its machine is connected.
	revoke("web01")
	harness.Until(t, time.Minute, "the machine is let go", func() (string, bool) {
		out := proven.Log()
		return out, strings.Contains(out, "403")
	})
	s.Stop()
	if find.searchFolder(s.Data, "web01") == 0 {
		t.Error("no file of the server names a node: where was looked?")
	}
}
