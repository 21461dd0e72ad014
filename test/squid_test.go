//go:build linux

package test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// An agent that reaches its server only through a squid with a password: it joins and
// works, returns when squid was restarted, and what keeps it out is told with what to set.
func TestThroughSquid(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	_, port, _ := net.SplitHostPort(s.Listen)
	squid := harness.NewSquid(t, []string{"muster.test"}, port)
	s.Start()
	s.Client()
	through := func(a *harness.Agent, userinfo *url.Userinfo, more ...string) *harness.Agent {
		proxy := url.URL{Scheme: "http", User: userinfo, Host: squid.Address}
		a.Args = []string{"--server", "muster.test:" + port} // which only squid can find
		a.Environ = append([]string{"HTTPS_PROXY=" + proxy.String()}, more...)
		return a
	}
	right := url.UserPassword(harness.SquidUser, harness.SquidPassword)

	a := through(s.NewAgent("behind"), right)
	a.Start()
	a.AwaitLog("msg=joined", "msg=connected server=muster.test:"+port)
	c := s.Counter("proxied", "behind")
	c.AwaitRuns(2)
	awaitResultCount(t, s, "proxied", 2)
	squid.Kill()
	a.AwaitLog("no connection to the proxy http://agent:xxxxx@" + squid.Address)
	squid.Start()
	awaitResultCount(t, s, "proxied", c.Runs()+1)

	for _, refused := range []struct {
		name string
		a    *harness.Agent
		says []string
	}{
		{"wrong", through(s.NewAgent("wrong"), url.UserPassword(harness.SquidUser, "wrong")), []string{
			"the proxy http://agent:xxxxx@" + squid.Address + " does not take this user and password (407 Proxy Authentication Required)",
			"set HTTPS_PROXY=http://USER:PASSWORD@" + squid.Address, "NO_PROXY=muster.test"}},
		{"nobody", through(s.NewAgent("nobody"), nil), []string{
			"the proxy http://" + squid.Address + " asks for user and password (407"}},
		{"port", func() *harness.Agent {
			a := through(s.NewAgent("port"), right)
			a.Args = []string{"--server", "muster.test:9"}
			return a
		}(), []string{"opens no tunnel to muster.test:9 (403 Forbidden)", "squid: add the port to SSL_ports"}},
		{"scheme", func() *harness.Agent {
			a := through(s.NewAgent("scheme"), nil)
			a.Environ = []string{"HTTPS_PROXY=http://agent:se%zzcret@" + squid.Address}
			return a
		}(), []string{"HTTPS_PROXY cannot be read"}},
	} {
		t.Run(refused.name, func(t *testing.T) {
			refused.a.Start()
			refused.a.AwaitLog(refused.says...)
			if strings.Contains(refused.a.Log(), "wrong@") || strings.Contains(refused.a.Log(), "cret@") {
				t.Errorf("the password stands in the log:\n%s", refused.a.Log())
			}
			refused.a.Kill()
		})
	}
	t.Run("settings", func(t *testing.T) {
		dir, token := t.TempDir(), s.NewAgent("kept").Token
		file := filepath.Join(dir, "agent.env")
		proxy := url.URL{Scheme: "http", User: right, Host: squid.Address}
		where := []string{"--config", file, "--state-dir", filepath.Join(dir, "state")}
		if r := harness.Run(t, nil, append([]string{"agent", "join", token, "--name", "kept", "--server", "muster.test:" + port, "--https-proxy", proxy.String()}, where...)...); r.Code != 0 {
			t.Fatalf("join: code %d\n%s%s", r.Code, r.Out, r.Errors)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v may read the password (%v)", info.Mode(), err)
		}
		p := harness.Launch(t, nil, append([]string{"agent"}, where...)...) // with nothing in its environment
		harness.Until(t, 60*time.Second, "it is connected", func() (string, bool) { return p.Log(), strings.Contains(p.Log(), "msg=connected server=muster.test") })
		p.Stop()
	})
	t.Run("around", func(t *testing.T) {
		before := len(squid.Tunnels())
		a := through(s.NewAgent("around"), right, "NO_PROXY=.test,muster.test")
		a.Args = []string{"--server", "muster.test:9," + s.Listen} // the second is a loopback address: no proxy
		a.Start()
		a.AwaitLog("msg=joined", "msg=connected server="+s.Listen)
		if now := squid.Tunnels(); len(now) != before {
			t.Errorf("squid was asked: %q", now[before:])
		}
	})
	s.Stop()
}

// awaitResultCount waits until the event of a check has so many results.
func awaitResultCount(t *testing.T, s *harness.Server, check string, n uint64) {
	t.Helper()
	harness.Until(t, 90*time.Second, "results reach the server", func() (string, bool) {
		e := eventsByCheck(t, s)[check]
		return e.Output, uint64(e.Results) >= n
	})
}
