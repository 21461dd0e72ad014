//go:build linux

package test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// joiningMachine is a simulated machine that joins the fleet. It has its folders, and methods that run muster agent.
type joiningMachine struct {
	t      *testing.T
	state  string
	config string
}

// newJoiningMachine returns a simulated machine with empty folders.
func newJoiningMachine(t *testing.T) *joiningMachine {
	dir := t.TempDir()
	return &joiningMachine{t, filepath.Join(dir, "state"), filepath.Join(dir, "agent.env")}
}

// env returns the environment variables for the folders of the simulated machine.
func (m *joiningMachine) env() []string {
	return []string{"MUSTER_CONFIG=" + m.config, "MUSTER_STATE_DIR=" + m.state}
}

// runAgent runs `muster agent` and waits until the command ends.
func (m *joiningMachine) runAgent(words ...string) harness.Result {
	m.t.Helper()
	return harness.Run(m.t, m.env(), append([]string{"agent"}, words...)...)
}

// launchAgent starts `muster agent` with the given arguments.
func (m *joiningMachine) launchAgent(words ...string) *harness.Process {
	m.t.Helper()
	return harness.Launch(m.t, m.env(), append([]string{"agent"}, words...)...)
}

// mustJoin runs `muster agent join`, fails the test on an error, and returns the new identity.
func (m *joiningMachine) mustJoin(words ...string) *pki.Identity {
	m.t.Helper()
	r := m.runAgent(append([]string{"join"}, words...)...)
	require(m.t, r.Code == 0, "join: code %d\n%s%s", r.Code, r.Out, r.Errors)
	return m.identity()
}

// identity returns the machine's stored identity.
func (m *joiningMachine) identity() *pki.Identity {
	m.t.Helper()
	id := testenv.Value(pki.LoadIdentity(m.state))(m.t)
	return id
}

// expectRefusal runs `muster agent`, and fails the test unless the command fails with the given code and texts.
func (m *joiningMachine) expectRefusal(code int, want string, words ...string) {
	m.t.Helper()
	if r := m.runAgent(words...); r.Code != code || !strings.Contains(r.Errors, want) {
		m.t.Errorf("%v: code %d, want %d and %q\n%s%s", words, r.Code, code, want, r.Out, r.Errors)
	}
}

// newJoinArguments creates a join token, and returns the arguments of the printed join command.
func newJoinArguments(t *testing.T, s *harness.Server, flags ...string) []string {
	t.Helper()
	return parseJoinArguments(t, s.CLI(append([]string{"node", "token"}, flags...)...))
}

// parseJoinArguments returns the arguments of the join command that a text contains.
func parseJoinArguments(t *testing.T, text string) []string {
	t.Helper()
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "muster-agent" {
			return words[1:]
		}
	}
	t.Fatalf("no line to paste in\n%s", text)
	return nil
}

// nodeNames returns the names of all nodes on the test server, in all namespaces.
func nodeNames(t *testing.T, s *harness.Server) (names []string) {
	t.Helper()
	var list []struct{ Metadata struct{ Name string } }
	decodeJSON(t, s.CLI("get", "nodes", "-A", "-o", "json", "--limit", "0"), &list)
	for _, n := range list {
		names = append(names, n.Metadata.Name)
	}
	return names
}

// A machine can join with the printed command, and its agent then needs no further flags. Joining again changes
// nothing.
func TestSmokeJoin(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	m := newJoiningMachine(t)
	line := append(newJoinArguments(t, s, "--groups", "web,db", "--labels", "env=prod,tier=1", "--for", "1h", "--uses", "1"), "--name", "web01", "--labels=rack=7")
	require(t, line[0] == "join" && strings.HasPrefix(line[1], "mj1."), "the line is %v", line)
	id := m.mustJoin(line[1:]...)
	assert(t, id.Name == "web01", "node %s", id.Name)
	settings, err := os.ReadFile(m.config)
	assert(t, err == nil && strings.Contains(string(settings), "MUSTER_NAME=web01\n") && strings.Contains(string(settings), "MUSTER_LABELS=rack=7\n") && !strings.Contains(string(settings), "mj1."),
		"settings %q %v", settings, err)
	info, err := os.Stat(m.config)
	assert(t, err == nil && info.Mode().Perm() == 0o600, "%v %v", info, err)
	s.Try("get", "node", "web01", "-o", "yaml").Expect(0, "web", "db", "env: prod", `tier: "1"`)
	agent := m.launchAgent()
	agent.AwaitLog("msg=connected")

	again := m.runAgent("join", line[1])
	again.Expect(0, "already node web01 ")
	m.expectRefusal(4, "is in use by another agent", "reset-identity", "--yes")
	agent.Stop()
	m.expectRefusal(10, "--yes", "reset-identity")
	now := m.identity()
	assert(t, now.Node == id.Node, "a reset that was not confirmed changed the identity")
	reset := m.runAgent("reset-identity", "--yes")
	reset.Expect(0, id.Node.String(), "spool")
	left, _ := os.ReadDir(m.state)
	assert(t, len(left) == 1 && left[0].Name() == "lock", "left: %v", left)
	m.expectRefusal(5, "muster-agent join TOKEN")
	other := m.mustJoin(newJoinArguments(t, s)[1])
	assert(t, other.Node != id.Node && other.Name == "web01-2", "after the reset it is %s %s", other.Node, other.Name)
}

// A join with an invalid, expired or used token creates no node. The error names the command to type.
func TestInvalidTokenMakesNoNode(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	once := newJoinArguments(t, s, "--uses", "1")[1]
	newJoiningMachine(t).mustJoin(once)
	newJoiningMachine(t).expectRefusal(5, "was used 1 times, its limit", "join", once)

	taken := newJoinArguments(t, s)[1]
	tokens := testenv.Value(s.API.Enrolment.Tokens(t.Context()))(t)
	for _, token := range tokens.Items {
		s.CLI("node", "token", "delete", token.ID)
	}
	newJoiningMachine(t).expectRefusal(5, "the join token is unknown to the server", "join", taken)

	short := newJoinArguments(t, s, "--for", "1s")[1]
	token := testenv.Value(pki.ParseToken(short))(t)
	sleep(t.Context(), time.Until(token.Expiry)+1010*time.Millisecond) // the server compares fractions of a second
	newJoiningMachine(t).expectRefusal(5, "expired", "join", short)
	token.Expiry = time.Time{} // without an expiry the agent cannot refuse; the server does
	newJoiningMachine(t).expectRefusal(5, "expired", "join", token.String())

	newJoiningMachine(t).expectRefusal(2, "incomplete or mistyped", "join", once[:40])
	newJoiningMachine(t).expectRefusal(9, "check that the server runs", "join", once, "--server", harness.ReservePort(t))
	newJoiningMachine(t).expectRefusal(2, "did you mean --service?", "join", once, "--servic")
	newJoiningMachine(t).expectRefusal(2, "muster-agent join", once)
	names := nodeNames(t, s)
	assert(t, len(names) == 1, "nodes %v, want the first alone", names)
}

// An agent that joins at a server with an unexpected CA sends nothing after the TLS handshake.
func TestJoinSendsNothingToForeignCA(t *testing.T) {
	t.Parallel()
	ours := testenv.Value(pki.Open(t.TempDir(), []string{"127.0.0.1"}, nil))(t)
	theirs := testenv.Value(pki.Open(t.TempDir(), []string{"127.0.0.1"}, nil))(t)
	l := testenv.Value(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: theirs.GetCertificate}))(t)
	defer l.Close()
	var heard atomic.Int64
	met := make(chan struct{}, 16)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n, _ := io.Copy(io.Discard, conn)
			heard.Add(n)
			conn.Close()
			met <- struct{}{}
		}
	}()
	token, _, err := ours.NewToken([]string{l.Addr().String()}, pki.JoinToken{})
	testenv.NoError(t, err)
	m := newJoiningMachine(t)
	m.expectRefusal(5, "the certificate is signed by the CA", "join", token.String())
	m.expectRefusal(5, "the certificate is signed by the CA", "join", "--server", l.Addr().String(), "--ca-hash", pki.FormatSum(ours.CASum()))
	for range 2 {
		select {
		case <-met:
		case <-time.After(10 * time.Second):
			t.Fatal("the server was not met")
		}
	}
	assert(t, heard.Load() == 0, "it heard %d bytes", heard.Load())
}

// TestLostAnswerMakesNoSecondNode kills an agent during its enrolment, and expects the same node after the next
// attempt. The answer of the server to the first try is lost.
func TestLostAnswerMakesNoSecondNode(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	m := newJoiningMachine(t)
	token := newJoinArguments(t, s, "--uses", "1")[1]
	first := m.launchAgent("join", token, "--name", "once", "--server", startAnswerLossProxy(t, s.Listen))
	awaitEqual(t, "the node exists", true, func() bool { return strings.Contains(strings.Join(nodeNames(t, s), " "), "once") })
	first.Kill()
	_, err := pki.LoadIdentity(m.state)
	require(t, err != nil, "the answer was not lost")
	id := m.mustJoin(token, "--name", "once")
	names := nodeNames(t, s)
	assert(t, id.Name == "once" && len(names) == 1, "it is %s, and there are %v", id.Name, names)
}

// startAnswerLossProxy starts a proxy that forwards requests to the server but drops its answers. It forwards the
// client's request.
func startAnswerLossProxy(t *testing.T, server string) string {
	l := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	var lines sync.WaitGroup
	t.Cleanup(func() { l.Close(); lines.Wait() })
	lines.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				return
			}
			var flights atomic.Int32
			lines.Go(func() { // to the server
				defer behind.Close()
				b := make([]byte, 64<<10)
				for {
					n, err := client.Read(b)
					if err != nil {
						return
					}
					flights.Add(1) // the first flight is ClientHello, the second ends the handshake and holds the request
					if _, err := behind.Write(b[:n]); err != nil {
						return
					}
				}
			})
			lines.Go(func() { // from the server; the client does not see that the connection is dead
				b := make([]byte, 64<<10)
				for {
					n, err := behind.Read(b)
					if err != nil {
						return
					}
					if flights.Load() == 1 {
						_, _ = client.Write(b[:n])
					}
				}
			})
			t.Cleanup(func() { client.Close(); behind.Close() })
		}
	})
	return l.Addr().String()
}

// A machine whose node was retired by mistake joins again with the command in the agent's log.
func TestRetiredNodeRejoins(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	m := newJoiningMachine(t)
	was := m.mustJoin(newJoinArguments(t, s)[1], "--name", "web01")
	agent := m.launchAgent()
	agent.AwaitLog("msg=connected")
	s.CLI("node", "retire", "web01", "-m", "the wrong one", "--yes")
	hint := regexp.MustCompile(`on the server: (.*?); on this machine: ([^"]*)`)
	var said []string
	harness.Until(t, 30*time.Second, "the agent's log names the commands to type", func() (string, bool) {
		said = hint.FindStringSubmatch(agent.Log())
		return agent.Log(), said != nil && strings.Contains(agent.Log(), "(retired)")
	})

	var line []string
	for _, step := range append([]string{said[1]}, strings.Split(said[2], "; ")...) {
		switch words := strings.Fields(step); {
		case words[0] == "muster":
			line = parseJoinArguments(t, s.CLI(words[1:]...))
		case step == "systemctl stop muster-agent":
			agent.Stop()
		case words[0] == "muster-agent":
			r := m.runAgent(append(words[1:], "--yes")...)
			require(t, r.Code == 0, "%s: %s%s", step, r.Out, r.Errors)
		case step == "the join command that the server printed":
			r := m.runAgent(line...)
			require(t, r.Code == 0, "%s: %s%s", line, r.Out, r.Errors)
		case step == "systemctl start muster-agent":
			agent = m.launchAgent()
		default:
			t.Fatalf("the test cannot type the step %q", step)
		}
	}
	agent.AwaitLog("msg=connected")
	is := m.identity()
	assert(t, is.Node != was.Node && is.Name == "web01", "it is %s %s, and was %s", is.Node, is.Name, was.Node)
	agent.Stop()
}

// requestApproval starts an agent without a join token, so the agent waits for a person's approval. It returns
// the process, and the key fingerprint that the agent prints.
func (m *joiningMachine) requestApproval(s *harness.Server, words ...string) (p *harness.Process, key string) {
	m.t.Helper()
	p = m.launchAgent(append([]string{"join", "--server", s.Listen}, words...)...)
	p.AwaitLog("Ctrl-C")
	j := testenv.Value(pki.LoadJoinState(m.state))(m.t)
	if key = j.Fingerprint(); !strings.Contains(p.Log(), "\n  "+key+"\n") {
		m.t.Fatalf("the output lacks the key %s:\n%s", key, p.Log())
	}
	return p, key
}

// TestApprovedMachineEnrols starts a machine without a token, and expects a new node after a person's approval.
// Until then the machine waits.
func TestApprovedMachineEnrols(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	hash := strings.Fields(s.CLI("node", "ca"))[0]
	m := newJoiningMachine(t)
	first, key := m.requestApproval(s, "--name", "web07", "--labels", "rack=7")
	expectTexts(t, first.Log(), hash)
	list := s.CLI("node", "list", "--pending")
	expectTexts(t, list, "web07  from 127.0.0.1", key, "rack=7", "os=linux", "muster node accept "+key[:16])
	s.Try("status").Expect(0, "muster node list --pending")
	expectEqual(t, "machines that wait", s.Metric("muster_queue_depth", `queue="pending"`), 1)
	first.Kill()
	s.Stop()
	s.Start() // a restart forgets pending machines
	second, again := m.requestApproval(s)
	assert(t, again == key, "another key after a restart: %s, was %s", again, key)
	s.Try("node", "accept", key[:16], "--groups", "web", "--labels", "env=prod").Expect(0, "node/")
	second.AwaitExit(0)
	id := m.identity()
	text := s.CLI("get", "node", id.Name, "-o", "yaml")
	expectTexts(t, text, "key: "+key, "- web", "env: prod")
	assert(t, pki.FormatSum(id.CASum) == hash, "another CA")
	s.Try("node", "list", "--pending").Expect(0, "no machine asks to join")
	agent := m.launchAgent()
	agent.AwaitLog("msg=connected")
	agent.Stop()
}

// TestRejectedMachineGetsTheReason rejects one of two machines with the same name, and expects an error with the
// reason. The rejected machine gets the reason now and at the next request.
func TestRejectedMachineGetsTheReason(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	hash := strings.Fields(s.CLI("node", "ca"))[0]
	good, bad := newJoiningMachine(t), newJoiningMachine(t)
	_, neighbourKey := good.requestApproval(s, "--name", "web01", "--ca-hash", hash)
	stranger, badKey := bad.requestApproval(s, "--name", "web01", "--ca-hash", hash)
	s.Try("node", "accept", "web01").Expect(4, neighbourKey, badKey)
	s.CLI("node", "refuse", badKey[:16], "-m", "not one of ours")
	s.CLI("node", "accept", "web01")
	stranger.AwaitExit(6, "not one of ours")
	bad.expectRefusal(6, "not one of ours", "join", "--server", s.Listen)
	id := good.mustJoin("--server", s.Listen)
	assert(t, id.Name == "web01", "the other one is %s", id.Name)
	s.Try("node", "accept", "nobody").Expect(3, "--pending")
	// A rejected machine can still join with a token.
	bad.mustJoin(newJoinArguments(t, s)[1])
}

// TestPendingOffRefusesMachinesWithoutToken expects a server with --pending off to refuse machines without a join token.
func TestPendingOffRefusesMachinesWithoutToken(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--pending", "off")
	newJoiningMachine(t).expectRefusal(6, "muster node token", "join", "--server", s.Listen)
}

// TestEnrolmentRequestFloodIsBounded sends ten thousand enrolment requests, and expects few pending requests
// and working joins by token.
func TestEnrolmentRequestFloodIsBounded(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	line := newJoinArguments(t, s)[1]
	const senders = 4
	requests := selectIfShort(400, 10_000)
	var answers [600]atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer client.CloseIdleConnections()
			for n := range requests / senders {
				body, err := json.Marshal(pki.EnrolRequest{CSR: newCSR(t), Name: fmt.Sprint("flood", n), Facts: map[string]string{"x": strings.Repeat("x", 10_000)}})
				if err != nil {
					t.Error(err)
					return
				}
				r, err := client.Post("https://"+s.Listen+pki.EnrolPath, "application/json", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
				answers[r.StatusCode].Add(1)
			}
		})
	}
	newJoiningMachine(t).mustJoin(line, "--name", "real")
	wg.Wait()
	let, refused := answers[http.StatusAccepted].Load(), answers[http.StatusTooManyRequests].Load()
	assert(t, let+refused == int64(requests) && let <= 64, "%d may wait, %d were refused, of %d", let, refused, requests)
	var list v1.PendingList
	list, err := s.API.Enrolment.Pending(t.Context())
	assert(t, err == nil && int64(len(list.Items)) == let, "%d wait, %v", len(list.Items), err)
	n := s.Metric("muster_queue_overflow_total", `queue="pending"`)
	assert(t, n == float64(refused), "the metric counts %v refused, want %d", n, refused)
}

// newCSR returns a certificate request with a new key.
func newCSR(t *testing.T) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Error(err)
		return nil
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	assert(t, err == nil, "%v", err)
	return csr
}
