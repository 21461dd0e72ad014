//go:build linux

package test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// makeCertificates makes a CA and machines' certificates by the commands of a page in docs. They create a
// CA and the machines' certificates. revoke runs those that revoke a certificate.
func makeCertificates(t *testing.T, page, dir string, machines ...string) (revoke func(machine string)) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		testenv.Skip(t, "there is no openssl", "sudo apt-get install openssl")
	}
	text := readFile(t, "../docs/"+page)
	var blocks []string
	for _, block := range regexp.MustCompile("(?s)```[a-z]*\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[1], "openssl ") {
			blocks = append(blocks, block[1])
		}
	}
	require(t, len(blocks) == 3 && strings.HasPrefix(blocks[1], "name=web01") && strings.Contains(blocks[2], "-gencrl"),
		"docs/%s makes certificates and lists by %q", page, blocks)
	run := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require(t, err == nil, "%s: %v\n%s", script, err, out)
	}
	run(blocks[0])
	for _, name := range machines {
		run(strings.Replace(blocks[1], "name=web01", "name="+name, 1))
	}
	return func(name string) { run(strings.ReplaceAll(blocks[2], "web01.crt", name+".crt")) }
}

// A real sensu-agent can log in with a certificate instead of a password. It gets the secrets of its checks. An agent
// with a password gets none, and yields its name to the agent with the certificate.
func TestSensuAgentLogsInByCertificate(t *testing.T) {
	program := sensuProgram("MUSTER_SENSU_AGENT", "sensu-agent")
	if program == "" {
		testenv.Skip(t, "there is no sensu-agent of Sensu Go 6", "MUSTER_SENSU_AGENT=/path/to/sensu-agent go test ./test -run TestSensuAgentLogsInByCertificate")
	}
	t.Parallel()
	dir := t.TempDir()
	revoke := makeCertificates(t, "sensu-certificates.md", dir, "web01", "web02", "web09")
	revoke("web09")
	values := map[string]string{"db": randomText(t)}
	write := func(name, text string) string { return writeFileInFolder(t, dir, name, text) }
	file := write("db", values["db"]+"\n")
	listen := harness.ReservePort(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-client-ca", filepath.Join(dir, "sensu-ca.crt"),
		"--sensu-client-crl", filepath.Join(dir, "sensu-ca.crl"), "--log-level", "debug")
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", write("password", "P@ssw0rd!"))
	start := func(name string, more ...string) *harness.Process {
		return startSensuAgent(t, s, program, listen, name, more...)
	}
	with := func(name string) []string {
		return []string{"--cert-file", filepath.Join(dir, name+".crt"), "--key-file", filepath.Join(dir, name+".key")}
	}
	proven := start("web01", with("web01")...)
	byPassword := start("web02", "--user", "agent", "--password", "P@ssw0rd!")
	start("web03", with("web02")...) // the certificate of another machine
	s.AwaitOutput("get nodes", "web01", "web02")
	s.Apply(fmt.Sprintf(`{kind: Secret, metadata: {name: db}, spec: {file: %q}}
---
{kind: Check, metadata: {name: db},
  spec: {targets: {nodes: [web01, web02]}, interval: 1s, command: printf %%s "$DB" | sha256sum | cut -c 1-16; echo "the password is $DB"; printf %%s "x$DB" | base64, secrets: [{env: DB, secret: db}]}}
`, file))
	shown := s.AwaitOutput("describe event web01/db", shortHash(values["db"]), "the password is (hidden)")
	shown += s.AwaitOutput("describe event web02/db", "gets no secrets: several machines share the agent's password")
	s.AwaitLog("that of the machine web03")
	start("web09", with("web09")...) // a revoked certificate
	s.AwaitMetric(1, "muster_sensu_logins_total", `outcome="forbidden"`)
	start("web02", with("web02")...)
	shown += s.AwaitOutput("describe event web02/db", shortHash(values["db"]))
	byPassword.AwaitLog("409")
	s.Try("get", "nodes").Expect(0).ExpectNot("web03", "web09")
	shown += s.CLI("describe", "node", "web01")
	expectTexts(t, shown, "certificate")
	given := s.Metric("muster_sensu_secrets_total", `outcome="given"`)
	assert(t, given >= 2, "%v given", given)
	find := &secretFinder{t, values}
	find.expectNoSecret(map[string]string{"what is shown": shown, "log": s.Log(), "the agent's log": proven.Log(), "events": s.CLI("get", "events", "-o", "json"),
		"history": s.CLI("get", "history", "-o", "json"), "run": s.Try("run", "db", "--on", "web01").Out})
	// A second CA is added: its machines are accepted, and those of the first stay.
	other := t.TempDir()
	makeCertificates(t, "sensu-certificates.md", other, "web04")
	both := ""
	for _, from := range []string{dir, other} {
		text := readFile(t, filepath.Join(from, "sensu-ca.crt"))
		both += string(text)
	}
	ended := s.Metric("muster_sensu_ended_total")
	write("sensu-ca.crt", both)
	s.AwaitLog("reloaded the authorities of --sensu-client-ca")
	start("web04", "--cert-file", filepath.Join(other, "web04.crt"), "--key-file", filepath.Join(other, "web04.key"))
	s.AwaitOutput("describe node web04", "certificate")
	expectEqual(t, "sessions ended", s.Metric("muster_sensu_ended_total"), ended)
	// A certificate is revoked while its machine is connected.
	revoke("web01")
	proven.AwaitLog("403")
	s.Stop()
	assert(t, find.expectNoSecretInFolder(s.Data, "web01") != 0, "no file of the server names a node: where was looked?")
}

// dialSensuAgent opens the connection of a Sensu agent that uses JSON.
func dialSensuAgent(t *testing.T, address, name string) (conn net.Conn) {
	t.Helper()
	d := ws.Dialer{Header: ws.HandshakeHeaderHTTP(http.Header{"Accept": {"application/json"}, "Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("agent:P@ssw0rd!"))},
		"Sensu-AgentName": {name}, "Sensu-Namespace": {"default"}, "Sensu-Subscriptions": {"web"}})}
	harness.Until(t, 20*time.Second, "the agent's node is accepted", func() (string, bool) {
		c, _, _, err := d.Dial(t.Context(), "ws://"+address+"/")
		if err != nil {
			return err.Error(), false
		}
		conn = c
		return "", true
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

// sensuMessage returns a Sensu agent's message with the result of a check. labels is the JSON object of the
// labels of its entity.
func sensuMessage(kind, name, labels, check string) []byte {
	meta := `"metadata":{"name":"` + name + `","namespace":"default"`
	return []byte(kind + "\n" + `{"timestamp":1,"entity":{` + meta + `,"labels":` + labels + `},"entity_class":"agent","subscriptions":["web"]},"check":` + check + `,` + meta + `}}`)
}

// sensuKeepalive is the check of a Sensu agent's keepalive.
const sensuKeepalive = `{"metadata":{"name":"keepalive","namespace":"default"},"interval":20,"timeout":120}`

// connectSensuAgent connects a Sensu agent that uses JSON and answers no request.
func connectSensuAgent(t *testing.T, address, name string) (say func(kind, check string), alive func()) {
	t.Helper()
	conn := dialSensuAgent(t, address, name)
	say = func(kind, check string) {
		t.Helper()
		if err := wsutil.WriteClientBinary(conn, sensuMessage(kind, name, "{}", check)); err != nil {
			t.Error(err)
		}
	}
	alive = func() {
		t.Helper()
		say("keepalive", sensuKeepalive)
	}
	alive()
	return say, alive
}

// TestSensuResultOfUnknownCheckCreatesCheck sends a result of an unknown check from a Sensu agent, and expects a new check.
// The check has the TTL of the result. Names over the limit are reported as an event.
func TestSensuResultOfUnknownCheckCreatesCheck(t *testing.T) {
	t.Parallel()
	listen := harness.ReservePort(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-tls", "off")
	password := tempFile(t, "password", "P@ssw0rd!")
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", password)
	s.Apply("kind: Namespace\nmetadata: {name: default}\nspec: {limits: {passivePerNode: 2}}\n---\nkind: Handler\nmetadata: {name: mail}\nspec: {command: 'true'}\n")
	say, alive := connectSensuAgent(t, listen, "web1")
	say("event", `{"metadata":{"name":"Backup","namespace":"default"},"status":2,"output":"no space","handlers":["mail","nobody"],"interval":1}`)
	say("event", `{"metadata":{"name":"queue","namespace":"default"},"status":0,"output":"fine","ttl":5,"interval":1}`)
	awaitEvent(t, s.API, "web1", "backup", "the event, and its problem", func(e v1.Event) bool { return e.Output == "no space" && e.Status == model.Critical && e.Problem != nil })
	s.Try("get", "check", "backup", "-o", "yaml").Expect(0, "passive: true", "- mail", `handler "nobody"`)
	say("event", `{"metadata":{"name":"third","namespace":"default"},"status":0,"output":"one too many","interval":1}`)
	harness.Until(t, 40*time.Second, "events report the limit and the expired TTL", func() (string, bool) {
		alive() // a TTL expires only while its node is alive
		limits, queue := getEvent(t, s.API, "web1", "limits"), getEvent(t, s.API, "web1", "queue")
		return limits.Output + "\n" + queue.Output, strings.Contains(limits.Output, "passivePerNode; refused: third") && queue.Status != model.OK
	})
	s.Kill()
	s.Start()
	say, _ = connectSensuAgent(t, listen, "web1")
	say("event", `{"metadata":{"name":"backup","namespace":"default"},"status":0,"output":"done","interval":1}`)
	awaitEvent(t, s.API, "web1", "backup", "it goes on, and the problem ends", func(e v1.Event) bool { return e.Output == "done" && e.Problem == nil })
}

// The server stores the results of simulated Sensu agents, sent as JSON and as protobuf.
func TestSimulatedSensuAgentsReachServer(t *testing.T) {
	skipIfShort(t, "two runs of seven seconds")
	t.Parallel()
	listen := harness.ReservePort(t)
	s := harness.StartServer(t, "--sensu-listen", listen, "--sensu-tls", "off")
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	writeFile(t, file, `scenario: muster.load/v1
title: A few Sensu agents
target: sensu
seed: 3
agents:
  - name: web
    count: 10
    checks:
      - {name: app, count: 3, interval: 1s, changes: 0.1}
phases:
  - ramp: 2s
  - steady: 4s
  - drain: 10s
`)
	password := tempFile(t, "password", "P@ssw0rd!")
	s.Login()
	s.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", password)
	for _, more := range [][]string{nil, {"--sensu-json"}, {"--admin", "http://" + s.Admin}} {
		dir := t.TempDir()
		out := s.CLI(append([]string{"load", "run", file, "--target", "sensu", "--server", "ws://" + listen, "--sensu-bridge", "--out", dir}, more...)...)
		t.Logf("%s", out)
		expectTexts(t, out, "bridge of Muster")
		rep := readReport(t, dir)
		// A run that knows the admin listener reports figures of the server.
		profile, _ := os.Stat(filepath.Join(dir, "profiles", "steady-allocs.pprof"))
		if seen := len(more) == 2; (rep.Inside != nil && rep.Inside.Allocs > 0) != seen || (profile != nil) != seen {
			t.Errorf("%v: %+v, files %v", more, rep.Inside, rep.Files)
		}
	}
	kept := s.Metric("muster_sensu_messages_total", `outcome="kept"`)
	assert(t, kept >= 100, "%v results kept", kept)
	s.Try("get", "events").Expect(0, "web-00003")
}

// TestSensuImportReachesNodes imports a Sensu dump, and expects the checks on their nodes.
func TestSensuImportReachesNodes(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	dump := testenv.Value(filepath.Abs("../internal/sensuimport/testdata/dump.yaml"))(t)
	made := filepath.Join(t.TempDir(), "muster.yaml")
	r := s.Try("import", "sensu", dump, "--out", made)
	if r.Code != 0 || r.Out != "" || !strings.Contains(r.Errors, "! "+dump+":1: CheckConfig default/Check_CPU: handler gone is not in these files\n") ||
		!strings.Contains(r.Errors, "marked !") || !strings.Contains(r.Errors, "muster plan -f "+made) {
		t.Errorf("%d %s%s", r.Code, r.Out, r.Errors)
	}
	info, err := os.Stat(made)
	assert(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
	s.Try("import", "sensu", dump, "--strict").Expect(20, "kind: Pipeline")
	s.Try("import", "sensu", "/nowhere/s.yaml").Expect(harness.AnyFailure, "file /nowhere/s.yaml does not exist")
	s.Try("apply", "-f", made, "-m", "from Sensu", "--yes").Expect(0, "check/check_cpu")
	s.AwaitOutput("describe node web01", "check_cpu")
	// So does one of a namespace that the import makes, whose check names no subscription.
	room := filepath.Join(t.TempDir(), "room.yaml")
	writeFile(t, room, "type: Namespace\napi_version: core/v2\nmetadata: {name: shop}\nspec: {}\n---\ntype: CheckConfig\napi_version: core/v2\n"+
		"metadata: {name: till, namespace: shop}\nspec: {command: \"true\", interval: 60, publish: true}\n")
	s.CLI("import", "sensu", room, "--out", made)
	s.Try("apply", "-f", made, "--yes").Expect(0, "group/shop/all").ExpectNot("does not exist")
	s.Try("get", "nodes", "-o", "wide").Expect(0, "sw1")
}

// TestSensuPipelinesFilterAndMutate expects filters and mutators of an imported Sensu pipeline to work. The command
// muster why names the filter that dropped a result. A failing expression is reported on the event. The namespace's
// own handlers are not notified.
func TestSensuPipelinesFilterAndMutate(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	book := newNotificationFile(t)
	dir := t.TempDir()
	events, short := filepath.Join(dir, "events"), filepath.Join(dir, "short")
	s.Apply(book.handlerYAML("pager") + `{kind: Namespace, metadata: {name: default}, spec: {handlers: [pager]}}
---
{kind: Handler, metadata: {name: events}, spec: {command: cat >> ` + events + `}}
---
{kind: Handler, metadata: {name: short}, spec: {command: cat >> ` + short + `}}
---
{kind: Filter, metadata: {name: second}, spec: {action: allow, expressions: [event.check.occurrences % 2 == 0]}}
---
{kind: Filter, metadata: {name: broken}, spec: {action: deny, expressions: [event.check.labels.team.name == 'x']}}
---
{kind: Mutator, metadata: {name: words},
  spec: {javascript: return event.entity.name + ' ' + event.check.labels.owner + ' ' + event.check.status}}
---
{kind: Pipeline, metadata: {name: alerts},
  spec: {workflows: [{name: every-second, filters: [is_incident, not_silenced, second], handler: events}, {name: words, filters: [is_incident, broken], mutator: words, handler: short}]}}
---
{kind: Check, metadata: {name: flag, labels: {owner: ann}},
  spec: {targets: {nodes: [web01]}, interval: 1s, command: test ! -e ` + dir + `/bad, pipelines: [alerts]}}
`)
	s.StartAgent("web01")
	s.AwaitOutput("why web01/flag", "alerts/every-second: filter is_incident dropped it: it is OK, and was before")
	writeFile(t, filepath.Join(dir, "bad"), "")
	type shape struct {
		Entity struct{ Metadata struct{ Name string } }
		Check  struct {
			Status, Occurrences int
			Metadata            struct{ Labels map[string]string }
		}
	}
	awaitFile(t, events, 3, "\n")
	for i, line := range strings.Split(string(readFile(t, events)), "\n")[:3] {
		var e shape
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Entity.Metadata.Name != "web01" || e.Check.Status != 1 || e.Check.Occurrences != 2*(i+1) || e.Check.Metadata.Labels["owner"] != "ann" {
			t.Errorf("event %d: %v: %s", i, err, line)
		}
	}
	data, err := os.ReadFile(short)
	lines := strings.Split(string(data), "\n")
	assert(t, err == nil && len(lines) >= 4 && lines[0] == "web01 ann 1", "%v: %q", err, data)
	s.Try("describe", "event", "web01/flag").Expect(0, "filter broken, expression 1", "Cannot read property")
	out := strings.Join(strings.Fields(s.CLI("why", "web01/flag")), " ")
	expectTexts(t, out, "alerts/words: passed on to handler short", "evaluation failed, without effect: filter broken")
	s.CLI("silence", "web01/flag", "--for", "1h", "-m", "known")
	s.AwaitOutput("why web01/flag", "filter not_silenced dropped it")
	told := book.kinds("flag")
	assert(t, len(told) == 0, "the namespace's own handlers were notified: %v", told)
	for _, c := range []struct{ args, want string }{
		{"get pipelines", "every-second: is_incident > not_silenced > second > events"},
		{"get filters", "Sensu kinds: they work as in Sensu"},
		{"describe pipeline alerts", "from Sensu     Pipeline"},
		{"describe check flag", "alerts receive every event"},
	} {
		s.Try(strings.Fields(c.args)...).Expect(0, c.want)
	}
	s.Try("delete", "filter", "second", "--yes").Expect(harness.AnyCode, "alerts")
}
