//go:build linux

package test

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Everything over IPv6: server, commands, join tokens, agents. On a socket for both
// families either works.
func TestIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		testenv.LeftOut(t, "this machine has no IPv6 loopback address", "sysctl -w net.ipv6.conf.lo.disable_ipv6=0")
	}
	l.Close()
	for _, c := range []struct {
		name             string
		listen, agent    string // without the port
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
			s.Counter("sixth", "six").AwaitRuns(1)
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

func hostOf(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

// An address that can be read in two ways is refused, with the way to write it.
func TestRefusedServerAddresses(t *testing.T) {
	t.Parallel()
	for server, says := range map[string]string{
		"::1:8443":            `server address "::1:8443" can be read in two ways: with a port, write [::1]:8443; without one, write [::1:8443]:8443`,
		"muster":              `server address "muster" has no port: write muster:8443`,
		"https://muster:8443": "agents speak no HTTP, write muster:8443",
	} {
		r := harness.Run(t, nil, "agent", "--state-dir", t.TempDir(), "--server", server)
		if r.Code != 2 || !strings.Contains(r.Errors, says) || !strings.Contains(r.Errors, "write HOST:PORT: muster.example.org:8443, 10.0.0.7:8443 or [fd00::7]:8443") {
			t.Errorf("--server %s: code %d\n%s", server, r.Code, r.Errors)
		}
	}
	p := harness.Launch(t, nil, "server", "--data", t.TempDir(), "--agent-servers", "::1:8443", "--proxy-from", "10.0.0.0/33,0.0.0.0/0")
	if code := p.Wait(20 * time.Second); code != 2 {
		t.Errorf("exit code %d", code)
	}
	for _, says := range []string{"agent-servers: server address \"::1:8443\" can be read in two ways", `proxy-from: "10.0.0.0/33": want addresses or networks`} {
		if !strings.Contains(p.Log(), says) {
			t.Errorf("no %q in:\n%s", says, p.Log())
		}
	}
}
