//go:build linux

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// comparedServer is one of the two servers in the comparison, either sensu-backend or Muster. It is a real
// sensu-backend or a Muster server, each with a real agent.
type comparedServer struct {
	name string
	dir  string // handlers write a file for each event; checks count their runs
	api  string // address for sensuctl
	ca   string // authority of the API; empty: no TLS
	url  string // address for agents
	home string // of sensuctl
}

// sensuctl runs sensuctl against one of the two compared installations.
func (s *comparedServer) sensuctl(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "HOME="+s.home, "XDG_CONFIG_HOME="+s.home)
	out, err := cmd.CombinedOutput()
	require(t, err == nil, "%s: sensuctl %v: %v\n%s", s.name, args, err, out)
	return string(out)
}

// startSensuBackend starts a sensu-backend with its embedded etcd, on loopback.
func startSensuBackend(t *testing.T, program string) *comparedServer {
	t.Helper()
	dir := t.TempDir()
	port := func() (address, number string) {
		address = harness.ReservePort(t)
		_, number, _ = net.SplitHostPort(address)
		return address, number
	}
	client, _ := port()
	peer, _ := port()
	agents, agentPort := port()
	api, _ := port()
	_, dashboard := port()
	backend := harness.LaunchCommand(t, []string{"SENSU_BACKEND_MAX_SILENCED_EXPIRY_TIME_ALLOWED=24h"}, program, "start", "--state-dir", filepath.Join(dir, "state"), "--cache-dir", filepath.Join(dir, "cache"),
		"--agent-host", "127.0.0.1", "--agent-port", agentPort, "--api-listen-address", api, "--dashboard-host", "127.0.0.1", "--dashboard-port", dashboard,
		"--etcd-listen-client-urls", "http://"+client, "--etcd-advertise-client-urls", "http://"+client, "--etcd-listen-peer-urls", "http://"+peer,
		"--etcd-initial-advertise-peer-urls", "http://"+peer, "--etcd-initial-cluster", "default=http://"+peer, "--disable-platform-metrics", "--log-level", "warn")
	harness.Until(t, time.Minute, "the backend is initialised", func() (string, bool) {
		cmd := exec.CommandContext(t.Context(), program, "init", "--etcd-client-urls", "http://"+client, "--wait", "--timeout", "20")
		cmd.Env = append(os.Environ(), "SENSU_BACKEND_CLUSTER_ADMIN_USERNAME=admin", "SENSU_BACKEND_CLUSTER_ADMIN_PASSWORD=P@ssw0rd!")
		out, err := cmd.CombinedOutput()
		return string(out) + backend.Log(), err == nil || strings.Contains(string(out), "already")
	})
	harness.Until(t, time.Minute, "the backend answers", func() (string, bool) {
		answer, err := http.Get("http://" + api + "/health") // loopback
		if err != nil {
			return err.Error(), false
		}
		defer answer.Body.Close()
		return answer.Status, answer.StatusCode == http.StatusOK
	})
	return &comparedServer{name: "backend", dir: t.TempDir(), api: "http://" + api, url: "ws://" + agents, home: t.TempDir()}
}

// statusSequence is the sequence of exit codes that both sides judge: failures, changes within a failure, flapping and
// its end.
var statusSequence = strings.Fields("0 0 1 1 1 0 2 2 2 2 2 0 1 2 3 2 1 0 0 1 0 1 0 1 0 1 0 1 0 1 0 2 0 2 0 0 0 0 0 0 1 1 1 1 0")

// fieldFilters are the filters of the comparison, on every field that is compared.
var fieldFilters = map[string]string{
	"occurrences": "event.check.occurrences == 1 || event.check.occurrences % 3 == 0",
	"watermark":   "event.check.occurrences_watermark >= 3",
	"state":       "event.check.state == 'flapping'",
	"change":      "event.check.total_state_change > 20",
	"label":       "event.entity.labels.team == 'a' && event.entity.labels.region == 'eu'",
	"redact":      "event.entity.labels.db_password == 'REDACTED' && event.entity.annotations.api_key == 'REDACTED' && event.entity.redact.length == 3",
	"annotation":  "event.entity.annotations.note == 'n 1'",
	"facts":       "event.entity.labels.os === undefined && event.entity.labels.hostname === undefined",
	"system":      "event.entity.system.os == 'linux' && event.entity.system.arch != '' && event.entity.system.network.interfaces.length > 0",
	"user":        "event.entity.user == 'agent' && event.entity.deregister && event.entity.deregistration.handler == 'bye'",
	"subscribed":  "event.entity.subscriptions.indexOf('entity:Web_01') >= 0 && event.entity.subscriptions.indexOf('Web') >= 0",
	"checklabel":  "event.check.labels.owner == 'ann' && event.check.annotations['sensu.io/plugins/x'] == 'z'",
	"history":     "event.check.history.length > 3 && event.check.history[event.check.history.length - 2].executed > 0",
	"resolution":  "event.is_resolution",
	"incident":    "event.is_incident",
	"processed":   "event.check.processed_by == 'Web_01' && event.check.scheduler == 'memory'",
	"handlers":    "event.check.handlers.indexOf('all') >= 0 && event.check.pipelines.length == 1",
	"sequence":    "event.sequence % 2 == 0",
	"hooks":       "event.check.hooks[0].status == 7 && event.check.hooks[0].output == 'hooked\\n' && event.check.hooks[0].command != ''",
	"output":      "/^run \\d+\\n$/.test(event.check.output)",
	"throws":      "event.check.missing.field == 1",
	"unset":       "event.check.labels.missing",
	"number":      "event.check.status",
	"undeclared":  "n = 0; for (i in event.check.history) n++; n % 2",
	"has":         "event.has_check && !event.has_metrics",
}

// listenForEvents opens a TCP and a UDP socket for handlers, and writes received events to files. The handlers
// with commands write the same files. It returns the ports.
func (s *comparedServer) listenForEvents(t *testing.T) (tcp, udp int) {
	t.Helper()
	write := func(name string, from io.Reader) {
		for decoder := json.NewDecoder(from); ; {
			var event json.RawMessage
			if decoder.Decode(&event) != nil {
				return
			}
			file, err := os.CreateTemp(s.dir, name+".*")
			if err != nil {
				return // the test has ended
			}
			_, _ = file.Write(event)
			_ = file.Close()
		}
	}
	l := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	packets := testenv.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _, _ = l.Close(), packets.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				write("tcp", conn)
			}()
		}
	}()
	go func() {
		for buffer := make([]byte, 1<<16); ; {
			n, _, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			write("udp", bytes.NewReader(buffer[:n]))
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, packets.LocalAddr().(*net.UDPAddr).Port
}

// comparedResources returns the YAML of the Sensu resources that both compared servers get. Their handlers write files
// into dir, or send events to ports.
func comparedResources(dir string, tcp, udp int) string {
	var b strings.Builder
	resource := func(kind, name, spec string) {
		fmt.Fprintf(&b, "type: %s\napi_version: core/v2\nmetadata: {name: %s}\nspec: %s\n---\n", kind, name, spec)
	}
	handler := func(name, more string) {
		resource("Handler", name, fmt.Sprintf(`{type: pipe, command: "cat > $(mktemp -p %s %s.XXXXXXXX)"%s}`, dir, name, more))
	}
	handler("all", "")
	handler("passing", ", filters: [is_incident, not_silenced]")
	handler("quiet", ", filters: [not_silenced]")
	handler("bye", "")
	handler("registration", "")
	handler("keepalive", "")
	handler("member", "")
	resource("Handler", "tcp", fmt.Sprintf("{type: tcp, socket: {host: 127.0.0.1, port: %d}}", tcp))
	resource("Handler", "udp", fmt.Sprintf("{type: udp, socket: {host: 127.0.0.1, port: %d}}", udp))
	resource("Handler", "group", "{type: set, handlers: [member]}")
	resource("Mutator", "script", `{type: javascript, eval: "return event.entity.name + ' ' + event.check.name + ' ' + event.check.status + ' ' + event.check.output"}`)
	handler("mutated", ", mutator: script")
	handler("output", ", mutator: only_check_output")
	workflows := ""
	for _, name := range slices.Sorted(maps.Keys(fieldFilters)) {
		expression, _ := json.Marshal(fieldFilters[name])
		resource("EventFilter", "on-"+name, fmt.Sprintf("{action: allow, expressions: [%s]}", expression))
		handler("on-"+name, "")
		workflows += fmt.Sprintf("{name: %s, filters: [{name: on-%[1]s, type: EventFilter, api_version: core/v2}], handler: {name: on-%[1]s, type: Handler, api_version: core/v2}}, ", name)
	}
	resource("Pipeline", "fields", "{workflows: ["+workflows+"]}")
	resource("HookConfig", "look", `{command: "echo hooked; exit 7", timeout: 5}`)
	count := func(name string) string {
		return fmt.Sprintf("n=$(cat %s/count-%s 2>/dev/null || echo 0); echo $((n+1)) > %[1]s/new-%[2]s; mv %[1]s/new-%[2]s %[1]s/count-%[2]s; ", dir, name)
	}
	fmt.Fprintf(&b, `type: CheckConfig
api_version: core/v2
metadata: {name: steps, labels: {owner: ann}, annotations: {sensu.io/plugins/x: z}}
spec: {command: "%sset -- %s; test $n -ge $# && exit 0; shift $n; echo run $n; exit $1", interval: 1, timeout: 5, subscriptions: [Web], publish: true,
  handlers: [all, passing, group, mutated, output, tcp, udp], low_flap_threshold: 20, high_flap_threshold: 40, check_hooks: [{non-zero: [look]}], env_vars: ["A=b"],
  pipelines: [{name: fields, type: Pipeline, api_version: core/v2}]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: codes}
spec: {command: "%sset -- 4 126 127 255; shift $((n%%4)); echo run $n; exit $1", interval: 2, timeout: 5, subscriptions: [Web], publish: true, handlers: [all]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: silent}
spec: {command: "%secho run $n; exit 2", interval: 5, timeout: 5, subscriptions: [Web], publish: true, handlers: [all, quiet, passing]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: numbers}
spec: {command: "%secho 'run '$n' | used=41;80;90'", interval: 5, timeout: 5, subscriptions: [Web], publish: true, handlers: [all], output_metric_format: nagios_perfdata,
  output_metric_tags: [{name: host, value: h1}]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: website}
spec: {command: "%secho run $n from {{ .labels.team }}", interval: 5, timeout: 5, subscriptions: [Web], publish: true, handlers: [all], proxy_entity_name: site.example}
---
type: Entity
api_version: core/v2
metadata: {name: sw-1, labels: {kind: switch}, annotations: {note: rack 1}}
spec: {entity_class: proxy, subscriptions: ["entity:sw-1"]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: uplink}
spec: {command: "%secho run $n to {{ .name }}, {{ .annotations.note }}", interval: 5, timeout: 5, subscriptions: [Web], publish: true, handlers: [all],
  proxy_requests: {entity_attributes: ["entity.entity_class == 'proxy'", "entity.labels.kind == 'switch'"]}}
---
type: CheckConfig
api_version: core/v2
metadata: {name: turns}
spec: {command: "%secho run $n", interval: 5, timeout: 5, subscriptions: [Web], publish: true, round_robin: true, handlers: [all]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: clock}
spec: {command: "%secho run $n", cron: "* * * * *", timeout: 5, subscriptions: [Web], publish: true, handlers: [all]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: subdued}
spec: {command: "%secho run $n", interval: 2, timeout: 5, subscriptions: [Web], publish: true, handlers: [all], subdues: [{begin: "%s", end: "%s"}]}
---
type: CheckConfig
api_version: core/v2
metadata: {name: overdue}
spec: {command: "%stest $n = 0 || sleep 600; echo run $n", interval: 2, ttl: 6, subscriptions: [Web], publish: true, handlers: [all]}
`, count("steps"), strings.Join(statusSequence, " "), count("codes"), count("silent"), count("numbers"), count("website"), count("uplink"), count("turns"), count("clock"),
		count("subdued"), time.Now().Add(-time.Hour).Format(time.RFC3339), time.Now().Add(time.Hour).Format(time.RFC3339), count("overdue"))
	return b.String()
}

// handledEvent is the content of an event that a Sensu handler received. It has the text and, unless a mutator
// wrote the text, the decoded event.
type handledEvent struct {
	text  string
	event map[string]any // nil: a mutator wrote the text
}

// events returns the events that each handler got for the first runs of each check. The keys are HANDLER/CHECK/RUN.
func (s *comparedServer) events(t *testing.T, runs int) map[string]handledEvent {
	t.Helper()
	out := map[string]handledEvent{}
	for _, file := range testenv.Value(os.ReadDir(s.dir))(t) {
		name, _, ok := strings.Cut(file.Name(), ".")
		if !ok {
			continue
		}
		h := handledEvent{text: strings.ReplaceAll(string(readFile(t, filepath.Join(s.dir, file.Name()))), s.dir, "DIR")}
		check, run := "", 0
		if json.Unmarshal([]byte(h.text), &h.event) == nil {
			check, _ = jsonField(h.event, "check", "metadata", "name").(string)
			removeLabelOfSensuctl(h.event)
			output, _ := jsonField(h.event, "check", "output").(string)
			if n, _ := fmt.Sscanf(output, "run %d", &run); n == 0 {
				run = -1
			}
		} else if i := strings.Index(h.text, "run "); i < 0 {
			continue // after the last step
		} else {
			_, _ = fmt.Sscanf(h.text[i:], "run %d", &run)
		}
		if run >= 0 && run < runs {
			out[fmt.Sprintf("%s/%s/%02d", name, check, run)] = h
		}
	}
	return out
}

// removeLabelOfSensuctl removes the label that sensuctl adds to its resources.
func removeLabelOfSensuctl(event map[string]any) {
	for _, part := range []string{"check", "entity"} {
		metadata, _ := jsonField(event, part, "metadata").(map[string]any)
		if labels, ok := metadata["labels"].(map[string]any); ok {
			if delete(labels, "sensu.io/managed_by"); len(labels) == 0 {
				delete(metadata, "labels")
			}
		}
	}
}

// jsonField returns the value at a path of names in nested JSON objects. A missing field gives nil.
func jsonField(v any, names ...string) any {
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// TestSensuBackendAndMusterAgree gives the same resources to a real sensu-backend and to Muster, and compares the handlers'
// events. Both have the same agent. Handlers get the same events of both, run by run: filters, mutators, silences,
// hooks, counters and flapping agree.
func TestSensuBackendAndMusterAgree(t *testing.T) {
	backendProgram, agentProgram, ctl := sensuProgram("MUSTER_SENSU_BACKEND", "sensu-backend"), sensuProgram("MUSTER_SENSU_AGENT", "sensu-agent"), sensuProgram("MUSTER_SENSUCTL", "sensuctl")
	if backendProgram == "" || agentProgram == "" || ctl == "" {
		testenv.Skip(t, "there is no sensu-backend, sensu-agent or sensuctl of Sensu Go 6",
			"MUSTER_SENSU_BACKEND=… MUSTER_SENSU_AGENT=… MUSTER_SENSUCTL=… go test ./test -run TestSensuBackendAndMusterAgree")
	}
	t.Parallel()
	listen := harness.ReservePort(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-tls", "off")
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", tempFile(t, "password", "P@ssw0rd!"))
	s.CLI("auth", "user", "create", "ops", "--role", "admin", "--password-file", tempFile(t, "ops", "P@ssw0rd!"))
	ours := &comparedServer{name: "server", dir: t.TempDir(), api: "https://" + s.Listen, ca: filepath.Join(s.Data, "pki", "ca.crt"), url: "ws://" + listen, home: t.TempDir()}
	theirs := startSensuBackend(t, backendProgram)
	password, key := randomText(t), randomText(t)
	agents := map[*comparedServer]*harness.Process{}
	for _, side := range []*comparedServer{theirs, ours} {
		user := map[*comparedServer]string{theirs: "admin", ours: "ops"}[side]
		args := []string{"configure", "-n", "--url", side.api, "--username", user, "--password", "P@ssw0rd!", "--namespace", "default", "--format", "json"}
		if side.ca != "" {
			args = append(args, "--trusted-ca-file", side.ca)
		}
		side.sensuctl(t, ctl, args...)
		file := filepath.Join(side.home, "resources.yaml")
		tcp, udp := side.listenForEvents(t)
		writeFile(t, file, comparedResources(side.dir, tcp, udp))
		side.sensuctl(t, ctl, "create", "-f", file)
		side.sensuctl(t, ctl, "silenced", "create", "-s", "entity:Web_01", "-c", "silent", "-r", "known", "--expire", "3600")
		agents[side] = harness.LaunchCommand(t, nil, agentProgram, "start", "--backend-url", side.url, "--name", "Web_01", "--subscriptions", "Web,Linux", "--user", "agent", "--password", "P@ssw0rd!",
			"--labels", "team=a,region=eu,db_password="+password, "--annotations", "note=n 1,api_key="+key, "--redact", "password,db_password,api_key", "--deregister", "--deregistration-handler", "bye",
			"--keepalive-interval", "5", "--keepalive-warning-timeout", "10", "--cache-dir", t.TempDir(), "--disable-api", "--disable-sockets", "--statsd-disable")
	}
	steps := len(statusSequence)
	var events [2]map[string]handledEvent
	defer func() { compareHandledEvents(t, events[0], events[1]) }() // also where a wait has failed
	harness.Until(t, 6*time.Minute, "both have run all steps", func() (string, bool) {
		done := true
		text := ""
		for i, side := range []*comparedServer{theirs, ours} {
			events[i] = side.events(t, steps)
			for _, handler := range []string{"all", "member", "tcp", "udp", "mutated", "output", "passing", "on-watermark", "on-resolution"} {
				_, has := events[i][fmt.Sprintf("%s/steps/%02d", handler, steps-1)]
				if handler == "mutated" || handler == "output" {
					_, has = events[i][fmt.Sprintf("%s//%02d", handler, steps-1)]
				}
				done = done && has
			}
			for _, other := range []string{"website", "uplink", "turns", "clock", "numbers"} {
				_, has := events[i]["all/"+other+"/00"]
				done = done && has
			}
			for occurrences := range 2 {
				done = done && side.findServerEvent(t, serverEvent{"all", "overdue", 1, float64(occurrences + 1)}) != nil
			}
			text += fmt.Sprintf("%s: %d events\n", side.name, len(events[i]))
		}
		return text, done
	})
	find := &secretFinder{t, map[string]string{"label": password, "annotation": key}}
	find.expectNoSecret(map[string]string{"describe": s.CLI("describe", "node", "web_01"), "node": s.CLI("get", "node", "web_01", "-o", "yaml"), "log": s.Log(),
		"events": s.CLI("get", "events", "-o", "json"), "entity": ours.sensuctl(t, ctl, "entity", "info", "Web_01", "--format", "json")})
	assert(t, find.expectNoSecretInFolder(s.Data, "Web_01")+find.expectNoSecretInFolder(ours.dir, "Web_01") > 0, "no file names the agent: where was looked?")
	for i, side := range []*comparedServer{theirs, ours} {
		for key := range events[i] {
			assert(t, !strings.Contains(key, "/subdued/"), "%s: %s ran although it is subdued", side.name, key)
		}
	}
	// Each agent ends without a farewell, so that its entity is deregistered.
	for _, agent := range agents {
		agent.Kill()
	}
	for _, made := range []struct {
		serverEvent
		differs []string // fields that differ on purpose
	}{
		{serverEvent{"registration", "registration", 1, 0}, nil},
		{serverEvent{"all", "overdue", 1, 1}, []string{".check.output"}},
		{serverEvent{"all", "overdue", 1, 2}, []string{".check.output"}},
		{serverEvent{"all", "silent", 0, 0}, []string{".sequence", ".check.occurrences", ".check.occurrences_watermark", ".check.total_state_change", ".check.is_silenced"}}, // of the removed entity
		{serverEvent{"bye", "deregistration", 1, 0}, nil},
	} {
		var of [2]map[string]any
		harness.Until(t, 3*time.Minute, fmt.Sprintf("both sides get %v", made.serverEvent), func() (string, bool) {
			for i, side := range []*comparedServer{theirs, ours} {
				of[i] = side.findServerEvent(t, made.serverEvent)
			}
			return fmt.Sprintf("backend %v, server %v", of[0] != nil, of[1] != nil), of[0] != nil && of[1] != nil
		})
		for _, difference := range differences(nil, "", of[1], of[0]) {
			if path, _, _ := strings.Cut(difference, ": "); !slices.Contains(made.differs, path) {
				t.Errorf("%v: %s", made.serverEvent, difference)
			}
		}
	}
}

// serverEvent describes an event that the server is expected to create by itself, such as a node's
// registration.
type serverEvent struct {
	handler, check      string
	status, occurrences float64 // occurrences zero: any
}

// findServerEvent finds, among a handler's events, an event that the server itself created. If no event has the
// fields of want, it returns nil.
func (s *comparedServer) findServerEvent(t *testing.T, want serverEvent) map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, want.handler+".*"))
	testenv.NoError(t, err)
	for _, file := range files {
		var event map[string]any
		data := bytes.ReplaceAll(readFile(t, file), []byte(s.dir), []byte("DIR"))
		if json.Unmarshal(data, &event) == nil && jsonField(event, "check", "metadata", "name") == want.check && jsonField(event, "check", "status") == want.status &&
			(want.occurrences == 0 || jsonField(event, "check", "occurrences") == want.occurrences) {
			removeLabelOfSensuctl(event)
			return event
		}
	}
	return nil
}

// compareHandledEvents compares the events that handlers got from a sensu-backend and from Muster. It fails the test for
// each difference that is not intended.
func compareHandledEvents(t *testing.T, theirs, ours map[string]handledEvent) {
	t.Helper()
	table := map[string][2]int{}
	for key, h := range theirs {
		handler, _, _ := strings.Cut(key, "/")
		if _, ok := ours[key]; !ok && (strings.Contains(key, "/steps/") || h.event == nil) {
			t.Errorf("%s: the backend's handler got it alone", key)
		}
		n := table[handler]
		n[0]++
		table[handler] = n
	}
	for key, h := range ours {
		handler, _, _ := strings.Cut(key, "/")
		n := table[handler]
		n[1]++
		table[handler] = n
		want, ok := theirs[key]
		switch {
		case !ok && (strings.Contains(key, "/steps/") || h.event == nil):
			t.Errorf("%s: the server's handler got it alone", key)
		case !ok:
		case h.event == nil && h.text != want.text:
			t.Errorf("%s: %q, want %q", key, h.text, want.text)
		case h.event != nil && slices.Contains([]string{"all", "passing", "tcp", "udp"}, handler):
			for _, difference := range differences(nil, "", h.event, want.event) {
				path, _, _ := strings.Cut(difference, ": ")
				if strings.Contains(key, "/codes/") && (path == ".check.occurrences" || path == ".check.occurrences_watermark" || path == ".check.total_state_change") {
					continue // exit codes above 3 are one status
				}
				if strings.Contains(key, "/uplink/") && path == ".check.command" {
					continue // see intendedOnce
				}
				if strings.HasSuffix(key, "/silent/00") && path == ".check.is_silenced" {
					continue // the backend reads a new silence within a second
				}
				t.Errorf("%s: %s", key, difference)
			}
		}
	}
	for _, handler := range slices.Sorted(maps.Keys(table)) {
		t.Logf("%-16s backend %3d, server %3d events", handler, table[handler][0], table[handler][1])
	}
}

// varying lists the keys of Sensu's events that differ between any two agents and servers: times.
var varying = []string{
	".timestamp", ".check.issued", ".check.executed", ".check.last_ok", ".check.duration", ".check.history.executed", ".check.hooks.executed", ".check.hooks.duration",
	".entity.last_seen", ".metrics.points.timestamp",
}

// intended lists the keys that differ on purpose, each with the key in docs/parity/sensu.md that explains it.
var intended = map[string]string{
	".id": "id", ".check.silenced": "check.silenced", ".entity.system.network.interfaces": "entity.system.network.interfaces",
	".check.proxy_requests":        "check.subdues`, `proxy_requests",
	".check.hooks.metadata.labels": "check.hooks[].metadata", ".check.hooks.metadata.created_by": "check.hooks[].metadata",
}

// intendedOnce lists the rows of that page about keys that differ on purpose in some events only.
var intendedOnce = []string{"check.output` of an expired TTL", "check.is_silenced` of a deregistered entity's events", "check.command` of proxy entities that a condition selects"}

// TestIntendedDifferencesAreDocumented expects the documentation page about Sensu to explain each intended difference.
func TestIntendedDifferencesAreDocumented(t *testing.T) {
	_, section, _ := strings.Cut(string(readFile(t, "../docs/parity/sensu.md")), "\n## Events for handlers\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for path, key := range intended {
		assert(t, strings.Contains(section, "\n| `"+key+"`"), "the page has no row for %s of %s", key, path)
	}
	for _, row := range intendedOnce {
		assert(t, strings.Contains(section, "\n| `"+row+" |"), "the page has no row %s", row)
	}
}

// differences lists the paths at which two JSON values differ. Fields that vary from run to run or differ on purpose
// are left out.
func differences(list []string, path string, got, want any) []string {
	if _, ok := intended[path]; ok || slices.Contains(varying, path) {
		return list
	}
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			names := maps.Clone(want)
			maps.Copy(names, got)
			for name := range names {
				_, a := got[name]
				_, b := want[name]
				at := path + "." + name
				if _, ok := intended[at]; a != b && !ok && !slices.Contains(varying, at) {
					list = append(list, fmt.Sprintf("%s.%s: only in one of both: %v and %v", path, name, got[name], want[name]))
					continue
				}
				list = differences(list, path+"."+name, got[name], want[name])
			}
			return list
		}
	case []any:
		if got, ok := got.([]any); ok && len(got) == len(want) {
			for i := range want {
				list = differences(list, path, got[i], want[i])
			}
			return list
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		list = append(list, fmt.Sprintf("%s: %v, want %v", path, got, want))
	}
	return list
}
