//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestHandlerSetsGetSensuRegistrations expects handler sets to get registration and deregistration events of a
// real sensu-agent. The events come when a real sensu-agent connects for the first time, and when its node is
// removed.
func TestHandlerSetsGetSensuRegistrations(t *testing.T) {
	program := sensuProgram("MUSTER_SENSU_AGENT", "sensu-agent")
	if program == "" {
		testenv.Skip(t, "there is no sensu-agent of Sensu Go 6", "MUSTER_SENSU_AGENT=/path/to/sensu-agent go test ./test -run TestHandlerSetsGetSensuRegistrations")
	}
	t.Parallel()
	listen := harness.ReservePort(t)
	s := harness.StartServer(t, "--sensu-listen", listen)
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", tempFile(t, "password", "P@ssw0rd!"))
	dir := t.TempDir()
	handler := func(name, spec string) string {
		return fmt.Sprintf(`{"type": "Handler", "api_version": "core/v2", "metadata": {"name": %q, "namespace": "default"}, "spec": {%s}}`+"\n", name, spec)
	}
	writer := func(name string) string {
		return handler(name, fmt.Sprintf(`"type": "pipe", "command": "cat > %s.new && mv %[1]s.new %[1]s"`, filepath.Join(dir, name)))
	}
	importSensu(t, s, handler("registration", `"type": "set", "handlers": ["greeter"]`)+handler("leave", `"type": "set", "handlers": ["cmdb", "greeter2"]`)+writer("greeter")+writer("cmdb")+writer("greeter2"))
	event := func(name, check string, within time.Duration) {
		t.Helper()
		harness.Until(t, within, name+" gets the event "+check, func() (string, bool) {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err.Error(), false
			}
			var e map[string]any
			if err := json.Unmarshal(data, &e); err != nil {
				return err.Error(), false
			}
			name, status := jsonField(e, "check", "metadata", "name"), jsonField(e, "check", "status")
			entity := jsonField(e, "entity", "metadata", "name")
			return string(data), name == check && status == 1.0 && entity == "Web-01" && jsonField(e, "entity", "system", "os") == "linux"
		})
	}
	agent := startSensuAgent(t, s, program, listen, "Web-01", "--deregister", "--deregistration-handler", "leave", "--keepalive-interval", "5", "--keepalive-warning-timeout", "10")
	event("greeter", "registration", 60*time.Second)
	if out := s.CLI("describe", "node", "web-01"); !strings.Contains(out, "notifies leave") || strings.Contains(out, "leave (does not exist") {
		t.Errorf("the node is\n%s", out)
	}
	agent.Kill()
	event("cmdb", "deregistration", 2*time.Minute)
	event("greeter2", "deregistration", 30*time.Second)
}
