//go:build linux

package test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// rudderAgent simulates a Rudder agent. It sends inventories and the reports of policy runs, signed as Rudder does. It
// signs them with openssl.
type rudderAgent struct {
	t             *testing.T
	address, node string
	key, cert     string // files
}

// newRudderAgent creates the key and certificate of a simulated Rudder agent.
func newRudderAgent(t *testing.T, address, node string) *rudderAgent {
	t.Helper()
	testenv.Program(t, "openssl", "openssl")
	folder := t.TempDir()
	a := &rudderAgent{t, address, node, filepath.Join(folder, "key"), filepath.Join(folder, "cert")}
	a.openssl(nil, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", a.key, "-out", a.cert, "-subj", "/UID="+node, "-days", "10")
	return a
}

// openssl runs openssl and returns its output.
func (a *rudderAgent) openssl(in []byte, args ...string) []byte {
	a.t.Helper()
	c := exec.CommandContext(a.t.Context(), "openssl", args...)
	c.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	assert(a.t, err == nil, "openssl %v: %v: %s", args, err, &stderr)
	return out
}

// uploadFile uploads a file by PUT, and fails the test unless the answer is right. The answer has the given status and text;
// a file whose name ends with .gz is compressed.
func (a *rudderAgent) uploadFile(path string, data []byte, status int, text string) {
	a.t.Helper()
	if strings.HasSuffix(path, ".gz") {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(data)
		_ = w.Close()
		data = b.Bytes()
	}
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodPut, "https://"+a.address+path, bytes.NewReader(data))
	testenv.NoError(a.t, err)
	request.SetBasicAuth("rudder", "rudder")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: time.Minute} // as curl --insecure
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	testenv.NoError(a.t, err)
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	assert(a.t, answer.StatusCode == status && strings.Contains(string(body), text), "PUT %s: %s %s, want %d with %q", path, answer.Status, body, status, text)
}

// uploadInventory uploads an inventory with the given packages, and then the inventory's signature. It fails
// the test unless the last answer has the given status and text.
func (a *rudderAgent) uploadInventory(status int, text string, packages ...string) {
	a.t.Helper()
	cert, err := os.ReadFile(a.cert)
	testenv.NoError(a.t, err)
	var software strings.Builder
	for _, p := range packages {
		fmt.Fprintf(&software, "<SOFTWARES><ARCH>amd64</ARCH><FROM>deb</FROM><NAME>%s</NAME><VERSION>1.0-1</VERSION></SOFTWARES>", p)
	}
	data := fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8" ?>
<REQUEST><CONTENT><ACCESSLOG><LOGDATE>%s</LOGDATE></ACCESSLOG><HARDWARE><MEMORY>2048</MEMORY></HARDWARE>
<OPERATINGSYSTEM><ARCH>x86_64</ARCH><FULL_NAME>Debian GNU/Linux 12 (bookworm)</FULL_NAME><KERNEL_NAME>linux</KERNEL_NAME><NAME>Debian</NAME><VERSION>12</VERSION></OPERATINGSYSTEM>
<RUDDER><AGENT><AGENT_CERT>%s</AGENT_CERT><AGENT_NAME>cfengine-community</AGENT_NAME></AGENT><CUSTOM_PROPERTIES>[{"rack":"b7"}]</CUSTOM_PROPERTIES><HOSTNAME>web1.example.com</HOSTNAME><UUID>%s</UUID></RUDDER>
<SOFTWARES><NAME>rudder-agent</NAME><VERSION>8.1.0</VERSION></SOFTWARES>%s</CONTENT></REQUEST>`, time.Now().UTC().Format(time.DateTime), cert, a.node, &software)
	digest := hex.EncodeToString(a.openssl(data, "dgst", "-sha512", "-sign", a.key))
	a.uploadFile("/inventories/web1.ocs.gz", data, http.StatusCreated, "")
	a.uploadFile("/inventories/web1.ocs.sign", []byte("header=rudder-signature-v1\nalgorithm=sha512\ndigest="+digest+"\n"), status, text)
}

// uploadRunLog uploads the signed log of a policy run. It fails the test unless the answer has the given status and text. Each
// report is TYPE DIRECTIVE ID COMPONENT VALUE MESSAGE, separated by |.
func (a *rudderAgent) uploadRunLog(start time.Time, status int, text string, reports ...string) {
	a.t.Helper()
	at := start.UTC().Format("2006-01-02 15:04:05+00:00")
	var log strings.Builder
	for _, r := range reports {
		f := strings.Split(r, "|")
		rule := "rule1"
		if f[0] == "control" {
			rule = "rudder"
		}
		fmt.Fprintf(&log, "%s R: @@T@@%s@@%s@@%s@@%s@@%s@@%s@@%s##%s@#%s\n", start.UTC().Format(time.RFC3339), f[0], rule, f[1], f[2], f[3], f[4], at, a.node, f[5])
	}
	file := filepath.Join(a.t.TempDir(), "log")
	testenv.NoError(a.t, os.WriteFile(file, []byte(log.String()), 0o600))
	signed := a.openssl(nil, "smime", "-sign", "-text", "-nocerts", "-signer", a.cert, "-inkey", a.key, "-in", file)
	a.uploadFile("/reports/"+strings.ReplaceAll(start.UTC().Format(time.RFC3339), ":", "_")+"@"+a.node+".log.gz", signed, status, text)
}

// rudderPolicy expects two components of a directive of Rudder, and one of a directive with a schedule.
const rudderPolicy = `
{kind: Technique, metadata: {name: ntp}, spec: {methods: [{component: Package, rudder: {method: package_present, id: m1}}, {component: Service, rudder: {method: service_started, id: m2}}]}}
---
{kind: Directive, metadata: {name: ntp}, spec: {technique: ntp, rudder: d1}}
---
{kind: Technique, metadata: {name: backup}, spec: {methods: [{component: Backup, rudder: {method: command_execution, id: b1}}]}}
---
{kind: Directive, metadata: {name: nightly}, spec: {technique: backup, rudder: d2, cron: "0 3 * * *", splay: 1h}}
---
{kind: Group, metadata: {name: of-rudder}, spec: {where: 'node.facts.rudderNode != ""'}}
---
{kind: Policy, metadata: {name: base}, spec: {directives: [ntp, nightly], targets: {groups: [of-rudder]}}}
`

// Control lines of a run.
const (
	runStart = "control|run|0|start|20260102-030405-1|Start execution"
	runEnd   = "control|run|0|end|20260102-030405-1|End execution"
)

// TestRudderAgentReports uploads a Rudder agent's signed inventories and run logs, and expects a node with
// compliance. The signatures are like those of Rudder's own scripts; the node has its inventory and a problem.
// A kill of the server loses nothing that was answered. A run that is repeated, late, partial or signed by
// another key changes nothing.
func TestRudderAgentReports(t *testing.T) {
	t.Parallel()
	address := harness.ReservePort(t)
	s := harness.StartServer(t, "--rudder-listen", address)
	s.Login()
	a := newRudderAgent(t, address, "0f9a53c1-58c6-4a36-9a2e-6f7f0fd7a001")
	a.uploadFile("/inventories/web1.ocs.gz", []byte("<A/>"), http.StatusForbidden, "no namespace allows address 127.0.0.1")
	s.Apply("{kind: Namespace, metadata: {name: default}, spec: {rudderFrom: [127.0.0.1]}}")
	s.Apply(rudderPolicy)
	start := time.Now().Add(-3 * time.Minute).Truncate(time.Second)
	a.uploadRunLog(start, http.StatusNotFound, "its inventory has to come first", runStart, runEnd)
	a.uploadInventory(http.StatusCreated, "", "htop", "bash")
	s.AwaitOutput("get inventory web1.example.com packages", "htop", "1.0-1", "bash")
	s.AwaitOutput("get nodes", "web1.example.com", "debian 12 amd64")
	s.AwaitOutput("get compliance", "web1.example.com", "ntp", "pending")
	s.AwaitOutput("why web1.example.com", "no run of Rudder's agent came in time: on the machine, type: rudder agent run")

	a.uploadRunLog(start, http.StatusCreated, "", runStart, "result_success|d1|m1|Package|htop|is present", "result_error|d1|m2|Service|ntp|could not be started", runEnd)
	s.AwaitOutput("get compliance", "enforce", "50.00 %", "error (1 of 2)")
	s.AwaitOutput("describe compliance web1.example.com/ntp", "could not be started")
	s.AwaitOutput("get problems", "OPEN", "web1.example.com", "ntp:compliance")
	s.AwaitOutput("get nodes", "web1.example.com", "yes")
	if text := s.CLI("why", "web1.example.com/ntp"); !strings.Contains(text, "policy base is assigned to this node") || !strings.Contains(text, "CRITICAL") || !strings.Contains(text, "Rudder's agent sends its runs in time; last file") {
		t.Errorf("why:\n%s", text)
	}

	unchanged := func(what string) {
		t.Helper()
		s.AwaitOutput("get compliance", "50.00 %", "error (1 of 2)")
		if text := s.CLI("get", "compliance"); !strings.Contains(text, "error (1 of 2)") {
			t.Errorf("after %s:\n%s", what, text)
		}
	}
	allGood := []string{runStart, "result_success|d1|m1|Package|htop|", "result_success|d1|m2|Service|ntp|", runEnd}
	a.uploadRunLog(start, http.StatusCreated, "", allGood...)
	s.AwaitMetric(1, "muster_rudder_requests_total", "outcome", "run_repeated")
	a.uploadRunLog(start.Add(-time.Hour), http.StatusCreated, "", allGood...)
	s.AwaitMetric(1, "muster_rudder_requests_total", "outcome", "run_late")
	a.uploadRunLog(start.Add(time.Minute), http.StatusCreated, "", allGood[1:3]...)
	s.AwaitMetric(1, "muster_rudder_requests_total", "outcome", "run_partial")
	thief := newRudderAgent(t, address, a.node)
	thief.uploadRunLog(start.Add(time.Minute), http.StatusForbidden, "its key has not signed the run", allGood...)
	thief.uploadInventory(http.StatusForbidden, "another key than the first one")
	a.uploadRunLog(time.Now().Add(time.Hour), http.StatusUnprocessableEntity, "more than 10 minutes ahead", allGood...)
	unchanged("runs that do not count")

	s.Kill()
	s.Launch()
	s.WaitReady(60 * time.Second)
	unchanged("a kill of the server")
	a.uploadRunLog(start, http.StatusCreated, "", allGood...)
	s.AwaitMetric(1, "muster_rudder_requests_total", "outcome", "run_repeated")
	unchanged("a run that was repeated after the kill")
	a.uploadInventory(http.StatusCreated, "", "htop", "zsh")
	s.AwaitOutput("get inventory web1.example.com --since 1h", "zsh", "bash")

	a.uploadRunLog(start.Add(time.Minute), http.StatusCreated, "", runStart, "audit_compliant|d1|m1|Package|htop|", "result_success|d1|m9|Other|x|surprise", runEnd)
	s.AwaitOutput("describe compliance web1.example.com/ntp", "missing", "unexpected", "surprise")
	a.uploadRunLog(start.Add(2*time.Minute), http.StatusCreated, "", allGood[:3]...) // without an end
	s.AwaitOutput("describe compliance web1.example.com/ntp", "100.00 %", "the run has no end")
	s.AwaitOutput("get compliance web1.example.com/nightly", "pending")
	a.uploadRunLog(start.Add(140*time.Second), http.StatusCreated, "", runStart, "result_repaired|d2|b1|Backup|x|was made", runEnd)
	s.AwaitOutput("get compliance web1.example.com/nightly", "100.00 %", "repaired")
	a.uploadRunLog(start.Add(150*time.Second), http.StatusCreated, "", allGood...)
	s.AwaitOutput("get compliance web1.example.com/ntp", "100.00 %", "success")
	s.AwaitOutput("get compliance web1.example.com/nightly", "100.00 %", "repaired") // its agent does not run it now
	s.AwaitOutput("get problems", "closed", "web1.example.com", "ntp:compliance")
}

// TestRudderImportIsClean imports techniques, directives, rules and groups of Rudder, and expects lint, plan and apply
// to succeed. It tries with and without the bridge for Rudder's own agents. Every part that is left out has its file,
// line and reason.
func TestRudderImportIsClean(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	for _, bridge := range []string{"--bridge=false", "--bridge"} {
		out := filepath.Join(t.TempDir(), "rudder.yaml")
		folder := filepath.Join(harness.Root(), "internal", "rudderimport", "testdata")
		harness.Run(t, s.Env(), "import", "rudder", filepath.Join(folder, "web.yml"), filepath.Join(folder, "api.json"), bridge, "--out", out).
			Expect(0, "api.json:12: directive Packages: left out: technique packageManagement is not in the files", "review it, then: muster plan -f "+out)
		harness.Run(t, s.Env(), "lint", "-f", out).Expect(0)
		if bridge == "--bridge" { // two directives have no form with the bridge, and would lose their technique
			harness.Run(t, s.Env(), "plan", "-f", out).Expect(harness.AnyFailure, `: the technique has no parameter "root"`, "directive web-server-")
			harness.Run(t, s.Env(), "delete", "directives", "web-server-at-weekends", "web-server-once", "--yes").Expect(0)
		}
		harness.Run(t, s.Env(), "plan", "-f", out).Expect(0, "web-server-of-the-shop")
		harness.Run(t, s.Env(), "apply", "-f", out, "--yes").Expect(0, "web-server-of-the-shop")
		harness.Run(t, s.Env(), "import", "rudder", folder, bridge, "--strict").Expect(20)
	}
	harness.Run(t, s.Env(), "import", "rudder", t.TempDir()).Expect(harness.AnyFailure, "no files that end with .yml, .yaml, .json")
}
