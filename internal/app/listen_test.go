package app

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// With --listen-agents machines join and connect there and nowhere else, and people are
// answered only at their own address.
func TestSeparateAgentListener(t *testing.T) {
	together, _ := start(t, settings(t, filepath.Join(t.TempDir(), "data")))
	apart, _ := start(t, settings(t, filepath.Join(t.TempDir(), "data"), "--listen-agents", "127.0.0.1:0"))
	testenv.Until(t, "ready", func() bool { return together.NotReady() == nil && apart.NotReady() == nil })
	anybody := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} // which server this is, is not asked here
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: anybody, DisableKeepAlives: true}}
	ask := func(l net.Listener, path string) (int, string) {
		t.Helper()
		answer, err := client.Get("https://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	for _, c := range []struct {
		what   string
		l      net.Listener
		people bool
		agents bool
	}{{"one address for all", together.people, true, true}, {"people's", apart.people, true, false}, {"agents'", apart.agents, false, true}} {
		// A GET does not enrol, but the one who says so is enrolment.
		if status, body := ask(c.l, pki.EnrolPath); (status != http.StatusNotFound) != c.agents || strings.Contains(body, "enrolment is a POST") != c.agents {
			t.Errorf("%s: enrolment answers %d %s", c.what, status, body)
		}
		if status, body := ask(c.l, pki.RenewPath); (status != http.StatusNotFound) != c.agents || strings.Contains(body, "renewal is a POST") != c.agents {
			t.Errorf("%s: renewal answers %d %s", c.what, status, body)
		}
		for path, want := range map[string]int{"/livez": 200, "/api/v1/status": 401, "/nothing": 401} {
			if !c.people {
				want = http.StatusNotFound
			}
			if status, body := ask(c.l, path); status != want {
				t.Errorf("%s: %s answers %d, want %d: %s", c.what, path, status, want, body)
			}
		}
		agent := anybody.Clone()
		agent.NextProtos = []string{wire.Subprotocol}
		conn, err := tls.Dial("tcp", c.l.Addr().String(), agent)
		if (err == nil) != c.agents {
			t.Errorf("%s: an agent's handshake: %v", c.what, err)
		}
		if err == nil {
			if got := conn.ConnectionState().NegotiatedProtocol; got != wire.Subprotocol {
				t.Errorf("%s: an agent speaks %q", c.what, got)
			}
			conn.Close()
		}
	}
}
