//go:build linux

package test

import (
	"encoding/json"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// balancer is the address from which HAProxy connects in these tests, which tells it from clients on the same machine.
const balancer = "127.0.0.2"

// TestAgentsWorkThroughHAProxy expects agents to stay connected through HAProxy despite its idle timeouts. The
// server sees the agents' own addresses. PROXY headers of other addresses are ignored.
func TestAgentsWorkThroughHAProxy(t *testing.T) {
	t.Parallel()
	// In full: the time-outs of the manual, and keepalives so rare that only pings remain.
	silent := harness.OutageDuration(t, 3*time.Second, 60*time.Second)
	keepalive := "1s"
	if silent > 3*time.Second {
		keepalive = "5m"
	}
	s := harness.NewServer(t, "--proxy-from", balancer, "--keepalive-interval", keepalive, "--keepalive-timeout", "11m", "--log-level", "info")
	front := harness.ReservePort(t)
	harness.StartHAProxy(t, silent, "send-proxy-v2 source "+balancer+" check inter 100ms", map[string]string{front: s.Listen})
	s.Start()
	s.Client()
	a := s.StartAgent("balanced", "--server", front)
	a.AwaitLog("msg=joined", "msg=connected server="+front)
	began := time.Now()

	t.Run("who is whose", func(t *testing.T) {
		harness.Until(t, 30*time.Second, "the agent's address is its own", func() (string, bool) {
			text := s.CLI("get", "agents", "-o", "json")
			return text, strings.Contains(text, `"address": "127.0.0.1"`) || strings.Contains(text, `"address": "127.0.0.1:`)
		})
		curl(t, 22, "--interface", "127.0.0.9", "--insecure", "--fail", "--json", `{"user": "admin", "password": "wrong"}`, "https://"+front+"/api/v1/login")
		awaitLogLine(t, s, `msg="login refused" user=admin from=127.0.0.9`)
		throughBalancer(t, s, front).CLI("node", "token", "--uses", "1")
		s.Try("audit", "-o", "json").Expect(0).ExpectNot(balancer)
	})
	t.Run("nobody else is believed", func(t *testing.T) {
		curl(t, -1, "--insecure", "--haproxy-protocol", "https://"+s.Listen+"/livez")
		awaitLogLine(t, s, "add --proxy-from 127.0.0.1;")
		curl(t, -1, "--insecure", "--interface", balancer, "https://"+s.Listen+"/livez")
		awaitLogLine(t, s, "without a PROXY header")
		curl(t, 0, "--insecure", "https://"+s.Listen+"/livez")
		for _, outcome := range []string{"proxy_not_listed", "proxy_missing"} {
			expectEqual(t, outcome, s.Metric("muster_session_handshakes_total", `outcome="`+outcome+`"`), 1)
		}
	})
	t.Run("silence is cut, agents are not", func(t *testing.T) {
		nc := testenv.Value(net.Dial("tcp", front))(t)
		defer nc.Close()
		if _, err := io.Copy(io.Discard, nc); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
		harness.Until(t, 2*silent, "the agent was connected for longer than a time-out", func() (string, bool) {
			return time.Since(began).String(), time.Since(began) > silent+silent/2
		})
		expectEqual(t, "sessions of the agent", strings.Count(a.Log(), "msg=connected"), 1)
	})
	t.Run("health checks", func(t *testing.T) {
		s.AwaitMetric(21, "muster_session_handshakes_total", `outcome="proxy_check"`)
		n := strings.Count(s.Log(), "\n")
		assert(t, n <= 60, "the log has %d lines:\n%s", n, s.Log())
	})
	s.Stop()
	c := strings.Count(a.Log(), "msg=connected")
	s.Start()
	harness.Until(t, 90*time.Second, "the agent is connected again", func() (string, bool) { return a.Log(), strings.Count(a.Log(), "msg=connected") > c })
	s.Stop()
}

// throughBalancer returns a copy of the test server whose commands connect through the load balancer. The
// commands connect to the load balancer's address.
func throughBalancer(t *testing.T, s *harness.Server, front string) *harness.Server {
	t.Helper()
	text := readFile(t, s.Context)
	through := *s
	through.Context = filepath.Join(t.TempDir(), "context.yaml")
	writeFile(t, through.Context, strings.ReplaceAll(string(text), s.Listen, front))
	return &through
}

// curl runs curl, and returns its output. It fails the test unless the exit code is right; -1 means any failure.
func curl(t *testing.T, code int, args ...string) string {
	t.Helper()
	program := testenv.Program(t, "curl", "curl")
	cmd := exec.Command(program, append([]string{"--silent", "--show-error", "--max-time", "20", "--noproxy", "*"}, args...)...)
	out, err := cmd.CombinedOutput()
	got := cmd.ProcessState.ExitCode()
	assert(t, got == code || code < 0 && got != 0, "curl %q: exit code %d (%v)\n%s", args, got, err, out)
	return string(out)
}

// awaitLogLine waits until the server's log has a text.
func awaitLogLine(t *testing.T, s *harness.Server, text string) {
	t.Helper()
	s.AwaitLog(text)
}

// With one HAProxy in front of two listeners, agents can use the agents' listener only.
func TestSeparateListenersWorkThroughHAProxy(t *testing.T) {
	t.Parallel()
	agents := harness.ReservePort(t)
	s := harness.NewServer(t, "--listen-agents", agents, "--proxy-from", balancer)
	forPeople, forAgents := harness.ReservePort(t), harness.ReservePort(t)
	harness.StartHAProxy(t, time.Minute, "send-proxy-v2 source "+balancer, map[string]string{forPeople: s.Listen, forAgents: agents})
	s.Start()
	s.Client()
	a := s.StartAgent("apart", "--server", forAgents)
	a.AwaitLog("msg=connected server=" + forAgents)
	s.NewCountingCheck("worked", "apart").AwaitRuns(1)
	awaitResultCount(t, s, "worked", 1)
	a.Stop()
	a.Args = []string{"--server", forPeople}
	a.Start()
	a.AwaitLog(forPeople+" does not serve agents", "--listen-agents")
	awaitLogLine(t, s, "refused an agent on the listener for people")
	a.Stop()
	throughBalancer(t, s, forPeople).Try("get", "nodes").Expect(0, "apart")
	s.Stop()
}

// On the shared port, only clients with the ALPN protocol muster.v1 are asked for a certificate.
func TestOnlyAgentsAreAskedForCertificates(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	if text := curl(t, 0, "--insecure", "--verbose", "https://"+s.Listen+"/livez"); strings.Contains(text, "Request CERT") || !strings.Contains(text, "TLS handshake, Finished") {
		t.Errorf("curl was asked for a certificate:\n%s", text)
	}
	openssl := testenv.Program(t, "openssl", "openssl")
	for protocol, asked := range map[string]bool{"": false, "h2,http/1.1": false, "muster.v1": true} {
		args := []string{"s_client", "-connect", s.Listen, "-msg"}
		if protocol != "" {
			args = append(args, "-alpn", protocol)
		}
		cmd := exec.Command(openssl, args...)
		cmd.Stdin = strings.NewReader("")
		out, _ := cmd.CombinedOutput() // curl has no certificate, so it fails if the server asks for one
		if text := string(out); strings.Contains(text, "CertificateRequest") != asked || !strings.Contains(text, "ServerHello") {
			t.Errorf("openssl with ALPN %q, asked %v:\n%s", protocol, !asked, text)
		}
	}
	s.Stop()
}

// An agent joins and works through an HTTP proxy that requires a password. It reconnects after a restart of the proxy.
func TestAgentsWorkThroughSquid(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	_, port, _ := net.SplitHostPort(s.Listen)
	squid := harness.NewSquid(t, []string{"muster.test"}, port)
	s.Start()
	s.Client()
	through := func(a *harness.Agent, userinfo *url.Userinfo, more ...string) *harness.Agent {
		proxy := url.URL{Scheme: "http", User: userinfo, Host: squid.Address}
		a.Args = []string{"--server", "muster.test:" + port} // a name that only squid resolves
		a.Environ = append([]string{"HTTPS_PROXY=" + proxy.String()}, more...)
		return a
	}
	right := url.UserPassword(harness.SquidUser, harness.SquidPassword)

	a := through(s.NewAgent("behind"), right)
	a.Start()
	a.AwaitLog("msg=joined", "msg=connected server=muster.test:"+port)
	c := s.NewCountingCheck("proxied", "behind")
	c.AwaitRuns(2)
	awaitResultCount(t, s, "proxied", 2)
	squid.Kill()
	a.AwaitLog("connect to the proxy http://agent:xxxxx@" + squid.Address)
	squid.Start()
	awaitResultCount(t, s, "proxied", c.Runs()+1)

	for _, refused := range []struct {
		name string
		a    *harness.Agent
		says []string
	}{
		{"wrong", through(s.NewAgent("wrong"), url.UserPassword(harness.SquidUser, "wrong")), []string{
			"the proxy http://agent:xxxxx@" + squid.Address + " refuses this user and password (407 Proxy Authentication Required)",
			"set HTTPS_PROXY=http://USER:PASSWORD@" + squid.Address, "NO_PROXY=muster.test"}},
		{"nobody", through(s.NewAgent("nobody"), nil), []string{
			"the proxy http://" + squid.Address + " requires user and password (407"}},
		{"port", func() *harness.Agent {
			a := through(s.NewAgent("port"), right)
			a.Args = []string{"--server", "muster.test:9"}
			return a
		}(), []string{"refuses to connect to muster.test:9 (403 Forbidden)", "squid: add the port to SSL_ports"}},
		{"scheme", func() *harness.Agent {
			a := through(s.NewAgent("scheme"), nil)
			a.Environ = []string{"HTTPS_PROXY=http://agent:se%zzcret@" + squid.Address}
			return a
		}(), []string{"HTTPS_PROXY cannot be read"}},
	} {
		t.Run(refused.name, func(t *testing.T) {
			refused.a.Start()
			refused.a.AwaitLog(refused.says...)
			expectNoTexts(t, refused.a.Log(), "wrong@", "cret@")
			refused.a.Kill()
		})
	}
	t.Run("settings", func(t *testing.T) {
		dir, token := t.TempDir(), s.NewAgent("kept").Token
		file := filepath.Join(dir, "agent.env")
		proxy := url.URL{Scheme: "http", User: right, Host: squid.Address}
		where := []string{"--config", file, "--state-dir", filepath.Join(dir, "state")}
		harness.Run(t, nil, append([]string{"agent", "join", token, "--name", "kept", "--server", "muster.test:" + port, "--https-proxy", proxy.String()}, where...)...).Expect(0)
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v may read the password (%v)", info.Mode(), err)
		}
		p := harness.Launch(t, nil, append([]string{"agent"}, where...)...) // without proxy variables
		p.AwaitLog("msg=connected server=muster.test")
		p.Stop()
	})
	t.Run("around", func(t *testing.T) {
		before := len(squid.LogLines())
		a := through(s.NewAgent("around"), right, "NO_PROXY=.test,muster.test")
		a.Args = []string{"--server", "muster.test:9," + s.Listen} // a loopback address is reached without the proxy
		a.Start()
		a.AwaitLog("msg=joined", "msg=connected server="+s.Listen)
		if now := squid.LogLines(); len(now) != before {
			t.Errorf("squid was asked: %q", now[before:])
		}
	})
	s.Stop()
}

// awaitResultCount waits until the event of a check has received n results.
func awaitResultCount(t *testing.T, s *harness.Server, check string, n uint64) {
	t.Helper()
	harness.Until(t, 90*time.Second, "results reach the server", func() (string, bool) {
		e := eventsByCheck(t, s)[check]
		return e.Output, uint64(e.Results) >= n
	})
}

// Server, commands and agents work over IPv6, and a dual-stack socket accepts IPv4 and IPv6.
func TestAgentsConnectOverIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		testenv.Skip(t, "this machine has no IPv6 loopback address", "sysctl -w net.ipv6.conf.lo.disable_ipv6=0")
	}
	l.Close()
	for _, c := range []struct {
		name             string
		listen, agent    string // address without the port
		commands, tokens string
	}{
		{"IPv6 alone", "[::1]", "[::1]", "[::1]", "[::1]"},
		{"both, agent over IPv6", "", "[::1]", "127.0.0.1", "[::1]"},
		{"both, agent over IPv4", "", "127.0.0.1", "[::1]", "[::1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewServer(t, "--advertise", "::1")
			_, port, _ := net.SplitHostPort(s.Listen)
			s.Listen = c.listen + ":" + port
			s.Start()
			s.Listen = c.commands + ":" + port
			s.Client()
			a := s.NewAgent("six")
			if token, err := pki.ParseToken(a.Token); err != nil || strings.Join(token.Addresses, ",") != c.tokens+":"+port {
				t.Errorf("the token names %q (%v), want %s:%s", token.Addresses, err, c.tokens, port)
			}
			if a.Args = nil; c.agent != c.tokens {
				a.Args = []string{"--server", c.agent + ":" + port}
			}
			a.Start()
			a.AwaitLog("msg=joined", "msg=connected server="+c.agent+":"+port)
			s.NewCountingCheck("sixth", "six").AwaitRuns(1)
			awaitResultCount(t, s, "sixth", 1)
			var seen struct{ Items []struct{ Address string } }
			if text := s.CLI("get", "agents", "-o", "json"); json.Unmarshal([]byte(text), &seen) != nil || len(seen.Items) == 0 || !strings.Contains(c.agent, strings.Trim(hostOf(seen.Items[0].Address), "[]")) {
				t.Errorf("the agent is to be seen at %s:\n%s", c.agent, text)
			}
			a.Stop()
			s.Stop()
		})
	}
}

// hostOf returns the host part of a network address, without the port.
func hostOf(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

// An ambiguous server address is refused with an error that shows the correct spelling.
func TestAmbiguousServerAddressIsRefused(t *testing.T) {
	t.Parallel()
	for server, says := range map[string]string{
		"::1:8443":            `server address "::1:8443" is ambiguous: with a port, write [::1]:8443; without a port, write [::1:8443]:8443`,
		"muster":              `server address "muster" has no port: write muster:8443`,
		"https://muster:8443": "agents do not use HTTP, write muster:8443",
	} {
		harness.Run(t, nil, "agent", "--state-dir", t.TempDir(), "--server", server).Expect(2, says, "write HOST:PORT: muster.example.org:8443, 10.0.0.7:8443 or [fd00::7]:8443")
	}
	p := harness.Launch(t, nil, "server", "--data", t.TempDir(), "--agent-servers", "::1:8443", "--proxy-from", "10.0.0.0/33,0.0.0.0/0")
	p.AwaitExit(2)
	expectTexts(t, p.Log(), "agent-servers: server address \"::1:8443\" is ambiguous", `proxy-from: "10.0.0.0/33": expected addresses or networks`)
}

// TestUnknownServerNameIsReported connects by a name that the certificate lacks, and expects an error with
// valid names. It also gets the setting to change. After a restart with it, no agent has to join again.
func TestUnknownServerNameIsReported(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	port := s.Listen[strings.LastIndexByte(s.Listen, ':')+1:]
	s.Listen = "127.0.0.1:" + port
	s.Args = []string{"--advertise", "web1.test"}
	s.Start()
	s.Client()
	a := s.StartAgent("named")
	a.AwaitLog("msg=connected")
	s.Listen = "127.0.0.5:" + port // all of 127.0.0.0/8 is this machine: an address that the certificate does not have
	s.Stop()
	s.Start()

	where := []string{"--server", "https://" + s.Listen, "--ca", filepath.Join(s.Data, "pki", "ca.crt")}
	harness.Run(t, s.Env(), append(where, "status")...).Expect(9, "muster: the server's certificate is not for 127.0.0.5; it is for 127.0.0.1, ::1, localhost, web1.test\n",
		"restart the server with --advertise web1.test,127.0.0.5 (the CA stays, so agents stay joined)\n")
	resolved := []string{"--resolve", "muster.example.org:" + port + ":127.0.0.5", "https://muster.example.org:" + port + "/livez", "--cacert", filepath.Join(s.Data, "pki", "ca.crt")}
	curl(t, 60, resolved...)
	awaitLogLine(t, s, "name=muster.example.org advertise=web1.test,muster.example.org")
	expectEqual(t, "unknown names", s.Metric("muster_tls_names_unknown_total", `who="people"`), 1)

	s.Stop()
	s.Args = []string{"--advertise", "web1.test,muster.example.org,127.0.0.5"}
	s.Start()
	curl(t, 0, resolved...)
	s.Try(append(where, "version")...).Expect(0)
	a.Stop()
	a.Args = []string{"--server", s.Listen}
	a.Start()
	a.AwaitLog("msg=connected server=" + s.Listen)
	expectNoTexts(t, a.Log(), "msg=joined")
	s.Stop()
}

// TestNewCAIsReported changes the CA of a server, and expects agents to report the new CA. The report has the command
// to type; the agents return when the old pki folder is restored.
func TestNewCAIsReported(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	a := s.StartAgent("faithful")
	a.AwaitLog("msg=connected")
	pki, kept := filepath.Join(s.Data, "pki"), filepath.Join(t.TempDir(), "pki")
	move := func(from, to string) {
		t.Helper()
		testenv.NoError(t, os.Rename(from, to))
	}
	s.Stop()
	move(pki, kept)
	runRepair(t, s, expectRefusedStart(t, s)) // the operator accepts a new CA
	s.Start()
	a.AwaitLog("this machine joined another server than "+s.Listen+": the certificate is signed by the CA sha256:", ", expected the CA sha256:",
		"if the server lost DATA/pki, restore that folder from the backup and restart the server", "muster-agent reset-identity")
	harness.Run(t, s.Env(), "status").Expect(9, ", but this machine trusts only the CA sha256:", "if the server lost DATA/pki: restore that folder from the backup")
	s.Stop()
	testenv.NoError(t, os.RemoveAll(pki))
	move(kept, pki)
	was := strings.Count(a.Log(), "msg=connected")
	runRepair(t, s, expectRefusedStart(t, s))
	s.Start()
	harness.Until(t, 90*time.Second, "the agent is connected again", func() (string, bool) { return a.Log(), strings.Count(a.Log(), "msg=connected") > was })
	s.Stop()
}
