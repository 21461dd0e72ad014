//go:build linux

package test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

const sensuResources = `type: CheckConfig
api_version: core/v2
metadata: {name: Disk_Root, namespace: default, labels: {team: ops}}
spec:
  command: "echo disk full; exit 2"
  interval: 1
  timeout: 1
  publish: true
  subscriptions: ["entity:web01"]
  handlers: [keep]
  check_hooks: [{critical: [ps]}]
---
type: HookConfig
api_version: core/v2
metadata: {name: ps, namespace: default}
spec: {command: ps aux, timeout: 10}
---
type: Handler
api_version: core/v2
metadata: {name: keep, namespace: default}
spec: {type: pipe, command: cat, filters: [is_incident], timeout: 5}
---
type: Entity
api_version: core/v2
metadata: {name: router, namespace: default}
spec: {entity_class: proxy}
`

// keptResources is a file that users keep in their repository and create again after each change.
const keptResources = sensuResources + `---
type: Handler
api_version: core/v2
metadata: {name: page, namespace: default}
spec: {type: pipe, command: sensu-pagerduty-handler --token k, filters: [is_incident]}
---
type: Handler
api_version: core/v2
metadata: {name: tell, namespace: default}
spec: {type: set, handlers: [keep, page]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: backup, namespace: default}
spec:
  command: check_backup
  interval: 3600
  publish: true
  subscriptions: [db]
  handlers: [tell]
  subdues: [{begin: "2026-01-01T17:00:00Z", end: "2026-01-02T09:00:00Z", repeat: [daily]}]
`

// startFailingCheck starts a server with resources from sensuctl, and an agent with a failing check.
func startFailingCheck(t *testing.T, create func(s *harness.Server)) *harness.Server {
	s := harness.StartServer(t, "--sensu-listen", harness.ReservePort(t))
	a := s.NewAgent("web01")
	create(s)
	a.Start()
	s.AwaitOutput("get events", "disk full")
	return s
}

// awaitResolvedBy waits until history shows that the given user resolved an event. It must be the given user.
func awaitResolvedBy(t *testing.T, s *harness.Server, user string) {
	t.Helper()
	s.AwaitOutput("get history", "resolved by "+user)
}

// The server answers the requests of sensuctl's configure, create, event and silenced commands.
func TestSensuctlRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	var token string
	var s *harness.Server
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		pem := readFile(t, filepath.Join(s.Data, "pki", "ca.crt"))
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		r := testenv.Value(http.NewRequestWithContext(t.Context(), method, "https://"+s.Listen+path, strings.NewReader(body)))(t)
		if token == "" {
			r.SetBasicAuth("admin", "four plain test words")
		} else {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		defer transport.CloseIdleConnections()
		answer := testenv.Value((&http.Client{Transport: transport}).Do(r))(t)
		defer answer.Body.Close()
		text := testenv.Value(io.ReadAll(answer.Body))(t)
		return answer.StatusCode, string(text)
	}
	const base = "/api/core/v2/namespaces/default"
	startFailingCheck(t, func(started *harness.Server) {
		s = started
		_, text := ask("GET", "/auth", "")
		var got map[string]any
		decodeJSON(t, text, &got)
		token, _ = got["access_token"].(string)
		code, text := ask("PUT", base+"/checks/Disk_Root", `{"metadata":{"name":"Disk_Root","namespace":"default"},"command":"echo disk full; exit 2","interval":1,"timeout":1,"publish":true,"subscriptions":["entity:web01"]}`)
		require(t, code == 201, "%d %s", code, text)
	})
	if _, text := ask("GET", base+"/events?limit=100", ""); !strings.Contains(text, `"status":2`) || !strings.Contains(text, `"Disk_Root"`) {
		t.Errorf("%s", text)
	}
	code, text := ask("POST", base+"/silenced", `{"check":"Disk_Root","reason":"planned","expire":600}`)
	assert(t, code == 201, "%d %s", code, text)
	s.Try("get", "silences").Expect(0, "planned")
	code, text = ask("DELETE", base+"/silenced/%2A:Disk_Root", "")
	assert(t, code == 204, "%d %s", code, text)
	code, text = ask("PUT", base+"/events/web01/Disk_Root", `{"check":{"status":0,"output":"Resolved manually by sensuctl"}}`)
	assert(t, code == 201, "%d %s", code, text)
	awaitResolvedBy(t, s, "admin")
	code, text = ask("PUT", "/api/core/v2/clusterroles/mine", "{}")
	assert(t, code == 501 && strings.Contains(text, "muster auth user create"), "%d %s", code, text)
	n := s.Metric("muster_sensuctl_requests_total", `class="write"`)
	assert(t, n >= 4, "%v writes counted", n)
}

// Every command on the page docs/sensuctl.md works with a real sensuctl of Sensu Go 6.
func TestSensuctlWorks(t *testing.T) {
	program := sensuProgram("MUSTER_SENSUCTL", "sensuctl")
	if program == "" {
		testenv.Skip(t, "there is no sensuctl of Sensu Go 6", "MUSTER_SENSUCTL=/path/to/sensuctl go test ./test -run 'TestSensuctlWorks$'")
	}
	t.Parallel()
	home := t.TempDir()
	file := filepath.Join(home, "resources.yaml")
	writeFile(t, file, sensuResources)
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		exit := (*exec.ExitError)(nil)
		require(t, err == nil || errors.As(err, &exit), "%v", err)
		return out.String(), cmd.ProcessState.ExitCode()
	}
	does := func(want string, args ...string) {
		t.Helper()
		if out, code := run(args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("sensuctl %s: %d, want %q:\n%s", strings.Join(args, " "), code, want, out)
		}
	}
	refuses := func(want string, args ...string) {
		t.Helper()
		if out, code := run(args...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("sensuctl %s: %d, want a refusal with %q:\n%s", strings.Join(args, " "), code, want, out)
		}
	}
	s := startFailingCheck(t, func(s *harness.Server) {
		configure := []string{"configure", "-n", "--url", "https://" + s.Listen, "--trusted-ca-file", filepath.Join(s.Data, "pki", "ca.crt"), "--username", "admin", "--password"}
		refuses("user name or password is wrong", append(configure, "no")...)
		does("", append(configure, "four plain test words")...)
		does("", "create", "-f", file)
	})
	does("", "cluster", "health")
	does("https://"+s.Listen, "config", "view")
	does("keep", "handler", "list")
	does("critical: [ps]", "check", "info", "Disk_Root") // the check was created before its hook
	does(`"keep"`, "check", "info", "Disk_Root", "--format", "json")
	for _, format := range []string{"tabular", "json", "yaml", "wrapped-json"} {
		does("Disk_Root", "check", "list", "--format", format)
		does("disk full", "check", "info", "Disk_Root", "--format", format)
		does("router", "entity", "list", "--format", format)
		does("entity:web01", "entity", "info", "web01", "--format", format)
		does("disk full", "event", "list", "--format", format)
		does("disk full", "event", "info", "web01", "Disk_Root", "--format", format)
		does("default", "namespace", "list", "--format", format)
	}
	does("Created", "asset", "create", "Tools", "--url", "https://127.0.0.1:1/tools.tar.gz", "--sha512", strings.Repeat("a", 128), "--filter", "entity.system.os == 'linux'")
	for _, format := range []string{"tabular", "json", "yaml", "wrapped-json"} {
		does("tools.tar.gz", "asset", "list", "--format", format)
		does("entity.system.os == 'linux'", "asset", "info", "Tools", "--format", format)
	}
	s.Try("get", "asset", "tools", "-o", "yaml").Expect(0, "os: linux")
	refuses("not a SHA-512", "asset", "create", "Bad", "--url", "https://127.0.0.1:1/tools.tar.gz", "--sha512", strings.Repeat("x", 128))
	does("Created", "silenced", "create", "--check", "Disk_Root", "--reason", "planned")
	refuses("already", "silenced", "create", "--check", "Disk_Root", "--reason", "planned")
	for _, format := range []string{"tabular", "json", "yaml", "wrapped-json"} {
		does("planned", "silenced", "list", "--format", format)
	}
	does("*:disk_root", "event", "info", "web01", "Disk_Root")
	does("Deleted", "silenced", "delete", "--check", "Disk_Root", "--skip-confirm")
	does("Resolved", "event", "resolve", "web01", "Disk_Root")
	awaitResolvedBy(t, s, "admin")
	dumped := filepath.Join(home, "dump.yaml")
	does("", "dump", "all", "--all-namespaces", "--format", "yaml", "--file", dumped)
	text := readFile(t, dumped)
	expectTexts(t, string(text), "type: Asset", "type: CheckConfig", "type: Handler", "type: HookConfig", "type: Pipeline", "type: Entity", "type: Event", "type: Namespace", "type: User", "type: ClusterRole", "type: ClusterRoleBinding")
	changes := func() int { // changes of facts count too
		return strings.Count(s.CLI("audit", "-o", "json"), `"user": "admin"`)
	}
	before := changes()
	does("", "create", "-f", dumped) // the definition before: with all fields that Sensu lacks
	does("type: EntityConfig", "dump", "core/v3.EntityConfig,core/v3.EntityState", "--format", "yaml")
	does("", "dump", "core/v3.EntityConfig,core/v3.EntityState", "--file", dumped)
	does("", "create", "-f", dumped)
	does("", "dump", "assets,checks,hooks,handlers,pipelines", "--format", "wrapped-json", "--file", dumped)
	does("", "create", "-f", dumped)
	expectEqual(t, "changes by a dump that is given back", changes(), before)
	does("", "dump", "core/v2.CheckConfig,core/v2.HookConfig,core/v2.Handler,core/v2.Pipeline,core/v2.Asset", "--format", "yaml", "--file", dumped)
	s.Try("import", "sensu", "--strict", dumped).Expect(0, "sensu-keep")
	again := filepath.Join(home, "again.yaml")
	writeFile(t, again, keptResources)
	does("", "create", "-f", again)
	once := changes()
	does("", "create", "-f", again)
	does("", "create", "-f", again)
	expectEqual(t, "changes by a file that is sent again", changes(), once)
	does("default", "check", "list", "--field-selector", `check.name == "Disk_Root"`, "--format", "json")
	does("Disk_Root", "event", "list", "--field-selector", `event.check.name == Disk_Root && "entity:web01" in event.entity.subscriptions`)
	does("Disk_Root", "check", "list", "--label-selector", `team in [ops, web]`)
	does("router", "entity", "list", "--field-selector", `entity.entity_class == proxy`)
	refuses("check.name", "check", "list", "--field-selector", `entity.name == web01`)
	refuses("occurrences", "event", "list", "--field-selector", `event.check.state_of == failing`)
	refuses(`namespace/nope does not exist`, "--namespace", "nope", "check", "list")
	does("cluster-admins", "user", "list")
	for _, format := range []string{"tabular", "json", "yaml", "wrapped-json"} {
		does("operator", "cluster-role", "list", "--format", format)
		does("silenced", "cluster-role", "info", "operator", "--format", format)
		does("operators", "cluster-role-binding", "info", "operator", "--format", format)
		does("", "role", "list", "--format", format)
	}
	refuses("muster auth user create", "cluster-role", "create", "mine", "--verb", "get", "--resource", "checks")
	refuses("muster auth user create", "user", "create", "vera", "--password", "four other test words")
	refuses("muster run", "check", "execute", "Disk_Root")
	does("", "hook", "create", "procs", "--command", "ps aux", "--timeout", "5")
	does("Added", "check", "set-hooks", "Disk_Root", "--type", "critical", "--hooks", "procs")
	does("procs", "check", "info", "Disk_Root", "--format", "json")
	does("Removed", "check", "remove-hook", "Disk_Root", "critical", "procs")
	does("Deleted", "check", "delete", "Disk_Root", "--skip-confirm")
	does("Deleted", "asset", "delete", "Tools", "--skip-confirm")
	does("logged out", "logout")
	refuses("", "check", "list")
}
