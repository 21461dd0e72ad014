//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// filesPolicy holds a node to a file of an archive, a template of it, a file with a secret, and a component that only audits.
const filesPolicy = `
{kind: Secret, metadata: {name: db}, spec: {env: DB_PASSWORD}}
---
kind: Technique
metadata: {name: app}
spec:
  parameters: [{name: password, type: secret}, {name: port, type: integer}]
  methods:
    - {component: binary, fileContent: {path: %[1]s/binary, asset: app, file: share/binary}}
    - {component: settings, fileContent: {path: %[1]s/settings, asset: app, file: share/settings, template: true}}
    - {component: password, fileContent: {path: %[1]s/password, content: "{{ .params.password }}\n"}}
    - {component: by hand, mode: audit, filePresent: {path: %[1]s/by-hand}}
---
{kind: Directive, metadata: {name: app}, spec: {technique: app, mode: enforce, interval: 10s, parameters: {password: %[2]s, port: %[3]d}}}
---
{kind: Policy, metadata: {name: app}, spec: {directives: [app], targets: {groups: [app]}}}
---
{kind: Group, metadata: {name: app}, spec: {nodes: [web1], trusted: %[4]v}}
`

// TestDirectiveWritesSecretToOneFile lets a directive write a secret to a file, and expects the secret in no
// other place. No report, plan, history, log or other file of server and agent has the secret; the directive also
// writes files of an uploaded archive.
func TestDirectiveWritesSecretToOneFile(t *testing.T) {
	t.Parallel()
	folder, secret := t.TempDir(), "hidden-"+randomText(t)
	s := harness.NewServer(t)
	s.Environ = []string{"DB_PASSWORD=" + secret}
	s.Args = []string{"--log-level", "debug"}
	s.Start()
	s.Environ = nil // the environment of commands
	s.Login()
	binary := strings.Repeat("\x00\xff{{ .x }}\n", 300_000) // larger than the arguments of a component may be
	archive, _ := writeArchive(t, map[string]string{"share/binary": binary, "share/settings": "port {{ .params.port }}\n"})
	s.CLI("asset", "add", "app", archive, "-m", "settings of the application")
	agent := s.StartAgent("web1", "--policy-enforce", "--log-level", "debug")
	s.AwaitOutput("get nodes", "web1")
	s.Apply(fmt.Sprintf(filesPolicy, folder, "db", 80, true))
	s.AwaitOutput("get compliance web1/app", "enforce", "75.00 %", "non-compliant (1 of 4)")
	s.AwaitOutput("describe compliance web1/app", "by hand  non-compliant (audit)", "binary  success", "settings  success", "password  success")
	expect := func(name, want string) {
		t.Helper()
		if got := string(testenv.Value(os.ReadFile(filepath.Join(folder, name)))(t)); got != want {
			t.Errorf("%s has %d bytes %.40q, want %d bytes %.40q", name, len(got), got, len(want), want)
		}
	}
	expect("binary", binary)
	expect("settings", "port 80\n")
	expect("password", secret+"\n")
	if info := testenv.Value(os.Stat(filepath.Join(folder, "password")))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the secret has mode %v", info.Mode())
	}

	// A file that somebody has changed is repaired, and a changed parameter changes the template. Nothing shows the secret.
	shown := s.CLI("plan", "-f", tempFile(t, "plan.yaml", fmt.Appendf(nil, filesPolicy, folder, "db", 81, true)))
	testenv.NoError(t, os.WriteFile(filepath.Join(folder, "password"), []byte("old "+secret+"\n"), 0o600))
	s.Apply(fmt.Sprintf(filesPolicy, folder, "db", 81, true))
	s.AwaitOutput("describe compliance web1/app", "password  success", "settings  success")
	harness.Until(t, 40*time.Second, "the files are repaired", func() (string, bool) {
		data, err := os.ReadFile(filepath.Join(folder, "password"))
		settings, _ := os.ReadFile(filepath.Join(folder, "settings"))
		return fmt.Sprint(string(data), string(settings), err), string(data) == secret+"\n" && string(settings) == "port 81\n"
	})
	s.CLI("report", "evidence", "save", filepath.Join(t.TempDir(), "evidence.json"))
	for _, command := range [][]string{{"describe", "compliance", "web1/app"}, {"describe", "directive", "app"}, {"get", "directive", "app", "-o", "yaml"}, {"why", "web1/app"}, {"audit"}} {
		shown += s.CLI(command...)
	}
	shown += s.Log() + agent.Log()
	if strings.Contains(shown, secret) || !strings.Contains(shown, "parameters.port") {
		t.Errorf("the secret is shown, or the plan has no difference:\n%s", shown)
	}
	for _, dir := range []string{s.Data, agent.State} {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), secret) {
					t.Errorf("%s has the secret", path)
				}
			}
			return nil
		})
	}

	// No machine gets a secret by claims about itself.
	s.Try("apply", "--yes", "-f", tempFile(t, "open.yaml", fmt.Appendf(nil, filesPolicy, folder, "db", 81, false))).Expect(harness.AnyFailure, "the policy gives the secret db to nodes, but group app is not trusted")
	s.Try("apply", "--yes", "-f", tempFile(t, "group.yaml", "{kind: Group, metadata: {name: app}, spec: {nodes: [web1]}}")).Expect(harness.AnyFailure, "group app is not trusted")
	s.Try("apply", "--yes", "-f", tempFile(t, "policy.yaml", "{kind: Policy, metadata: {name: app}, spec: {directives: [app], targets: {nodes: [web1]}}}")).Expect(harness.AnyFailure, "the names of nodes in a policy are not reserved")

	// A Secret that does not exist is refused; one without a value stops its components alone: a template may read it.
	s.Try("apply", "--yes", "-f", tempFile(t, "refused.yaml", fmt.Appendf(nil, filesPolicy, folder, "none", 81, true))).Expect(harness.AnyFailure, "there is no Secret default/none")
	s.Apply(`{kind: Secret, metadata: {name: empty}, spec: {env: NO_SUCH_PASSWORD}}`)
	s.Apply(fmt.Sprintf(filesPolicy, folder, "empty", 81, true))
	s.AwaitOutput("describe compliance web1/app", "password  could not check: secret default/empty is not available", "settings  could not check", "binary  success")
}
