//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// sensuCheck returns a check in the format of sensuctl create.
func sensuCheck(name, command, more string) string {
	return fmt.Sprintf(`{"type": "CheckConfig", "api_version": "core/v2", "metadata": {"name": %q, "namespace": "default"}, "spec": {"command": %q, "interval": 1, "publish": true, "subscriptions": ["web"]%s}}`+"\n",
		name, command, more)
}

// importSensu imports files of Sensu and applies the resulting resources.
func importSensu(t *testing.T, s *harness.Server, text string) (notes string) {
	t.Helper()
	dir := t.TempDir()
	made := filepath.Join(dir, "muster.yaml")
	r := s.Try("import", "sensu", writeFileInFolder(t, dir, "sensu.json", text), "--out", made)
	require(t, r.Code == 0, "%s%s", r.Out, r.Errors)
	s.CLI("apply", "-f", made, "--yes")
	return r.Errors
}

// TestSensuAgentExpandsTokens runs imported checks on a real sensu-agent, and expects the agent's values in place of
// tokens. Tokens are in commands, metric tags and thresholds, and name labels and annotations. internal/model expands
// the same texts for other nodes.
func TestSensuAgentExpandsTokens(t *testing.T) {
	program := sensuProgram("MUSTER_SENSU_AGENT", "sensu-agent")
	if program == "" {
		testenv.Skip(t, "there is no sensu-agent of Sensu Go 6", "MUSTER_SENSU_AGENT=/path/to/sensu-agent go test ./test -run TestSensuAgentExpandsTokens")
	}
	t.Parallel()
	listen := harness.ReservePort(t)
	s := harness.StartServer(t, "--sensu-listen", listen)
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", tempFile(t, "password", "P@ssw0rd!"))
	var examples map[string]string
	if err := json.Unmarshal(readFile(t, "../internal/model/testdata/sensu-tokens.json"), &examples); err != nil {
		t.Fatal(err)
	}
	texts := slices.Sorted(maps.Keys(examples))
	var file strings.Builder
	for i, text := range texts {
		file.WriteString(sensuCheck(fmt.Sprintf("example%d", i), "printf %s '"+text+"'", ""))
	}
	file.WriteString(sensuCheck("env", `echo "$WARN and {{ .annotations.both }}"`, `, "env_vars": ["WARN={{ .labels.warn }}"]`))
	file.WriteString(sensuCheck("metrics", "echo 'metrics ok | load=90'", `, "output_metric_format": "nagios_perfdata", "output_metric_tags": [{"name": "host", "value": "{{ .name }}"}],
		"output_metric_thresholds": [{"name": "load", "tags": [], "null_status": 1, "thresholds": [{"min": "", "max": "{{ .labels.warn }}", "status": 2}]}]`))
	file.WriteString(sensuCheck("address", "echo {{ .name }} {{ .labels.address }}",
		`, "proxy_requests": {"entity_attributes": ["entity.entity_class == 'proxy'", "entity.labels.kind == 'switch'"]}`))
	file.WriteString(sensuCheck("site", "echo site by {{ .labels.warn }}", `, "proxy_entity_name": "site"`))
	file.WriteString(sensuCheck("secret", "echo the password is {{ .labels.password }}", ""))
	file.WriteString(sensuCheck("hooked", "exit 2", `, "check_hooks": [{"critical": ["who"]}]`))
	file.WriteString(`{"type": "HookConfig", "api_version": "core/v2", "metadata": {"name": "who", "namespace": "default"}, "spec": {"command": "echo hook of {{ .labels.warn }}", "timeout": 10}}` + "\n")
	for _, entity := range []string{`SW-1", "labels": {"kind": "switch", "address": "10.0.0.1"}`, `sw2", "labels": {"kind": "switch", "address": "10.0.0.2"}`} {
		file.WriteString(`{"type": "Entity", "api_version": "core/v2", "metadata": {"namespace": "default", "name": "` + entity + `}, "spec": {"entity_class": "proxy"}}` + "\n")
	}
	importSensu(t, s, file.String())
	settings := func(labels string) string {
		return tempFile(t, "agent.yml", "labels: {"+labels+"}\nannotations: {both: annotation, runbook/url: 'https://example.com'}\nsubscriptions: [linux, web]\n")
	}
	labels := `warn: "80", empty: "", both: label, a-b: dash`
	start := func(name, labels string) *harness.Process {
		return harness.LaunchCommand(t, nil, program, "start", "--backend-url", "wss://"+listen, "--name", name, "-c", settings(labels),
			"--trusted-ca-file", filepath.Join(s.Data, "pki", "ca.crt"), "--cache-dir", t.TempDir(), "--disable-api", "--disable-sockets", "--statsd-disable")
	}
	start("Web-01", labels)
	start("web-02", labels+`, password: hunter2`)
	event := func(node, check, about string, ok func(output string, status model.Status) bool) {
		t.Helper()
		harness.Until(t, 60*time.Second, about, func() (string, bool) {
			e := getEvent(t, s.API, node, check)
			return fmt.Sprintf("%s/%s: %v %q", node, check, e.Status, e.Output), e.Output != "" && ok(e.Output, e.Status)
		})
	}
	for i, text := range texts {
		want := strings.TrimSpace(examples[text])
		event("web-01", fmt.Sprintf("example%d", i), text+" is "+want, func(output string, status model.Status) bool {
			if want == "error" {
				return status == model.Unknown && strings.Contains(output, "token")
			}
			return output == want || want == "" && output == "(no output)"
		})
	}
	is := func(want string, status model.Status) func(string, model.Status) bool {
		return func(output string, got model.Status) bool { return strings.Contains(output, want) && got == status }
	}
	event("web-01", "env", "tokens in the environment", is("80 and annotation", model.OK))
	event("web-01", "metrics", "thresholds with tokens", is("metrics ok", model.Critical))
	event("sw-1", "address", "tokens of a proxy entity", is("SW-1 10.0.0.1", model.OK))
	event("sw2", "address", "tokens of a proxy entity", is("sw2 10.0.0.2", model.OK))
	event("site", "site", "tokens of the agent, not of the named proxy entity", is("site by 80", model.OK))
	event("web-02", "secret", "a redacted token is refused", is("token .labels.password is redacted", model.Unknown))
	event("web-01", "secret", "a missing token is refused by the agent", is("token", model.Unknown))
	s.AwaitOutput("describe event web-01/metrics", "host=Web-01")
	s.AwaitOutput("describe event web-01/hooked", "hook of 80")
}
