package app

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestSeparateAgentListener sets --listen-agents, and expects agents to be served on that listener only. The API must
// be on the main listener only.
func TestSeparateAgentListener(t *testing.T) {
	together, _ := startServer(t, testSettings(t, filepath.Join(t.TempDir(), "data")))
	apart, _ := startServer(t, testSettings(t, filepath.Join(t.TempDir(), "data"), "--listen-agents", "127.0.0.1:0"))
	anybody := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} // the test does not verify the server's certificate
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: anybody, DisableKeepAlives: true}}
	ask := func(l net.Listener, path string) (int, string) {
		t.Helper()
		answer, err := client.Get("https://" + l.Addr().String() + path)
		testenv.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		testenv.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	for _, c := range []struct {
		what   string
		l      net.Listener
		people bool
		agents bool
	}{{"one address for all", together.people, true, true}, {"people's", apart.people, true, false}, {"agents'", apart.agents, false, true}} {
		// A GET does not enrol a machine, but its error shows that the path belongs to enrolment.
		if status, body := ask(c.l, pki.EnrolPath); (status != http.StatusNotFound) != c.agents || strings.Contains(body, "enrolment request by POST") != c.agents {
			t.Errorf("%s: enrolment answers %d %s", c.what, status, body)
		}
		if status, body := ask(c.l, pki.RenewPath); (status != http.StatusNotFound) != c.agents || strings.Contains(body, "renewal request by POST") != c.agents {
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

// TestWatchdogEndToEnd runs the watchdog, and expects its test result to reach an event and a notification. The URL of
// the dead man's switch, an alarm service, must be called.
func TestWatchdogEndToEnd(t *testing.T) {
	for name, args := range map[string][]string{
		"usual":    nil,
		"balanced": {"--proxy-from", "127.0.0.1"},
		"apart":    {"--listen-agents", "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := make(chan string, 100)
			outside := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				select {
				case called <- r.Method + " " + string(body):
				default:
				}
			}))
			defer outside.Close()
			s, stop := startServer(t, testSettings(t, filepath.Join(t.TempDir(), "data"), append(args, "--watchdog-interval", "1s", "--watchdog-url", outside.URL)...))
			if body := <-called; !strings.HasPrefix(body, "POST ") || !strings.Contains(body, `"kind":"beat"`) {
				t.Errorf("called with %s", body)
			}
			<-called
			testenv.Until(t, "the event says how long it took", func() bool {
				event, ok := s.view.Get(model.ServerNode, model.CheckSource(model.WatchdogCheck))
				return ok && event.Status == model.OK && strings.Contains(event.Output, "the last synthetic result took ")
			})
			outside.Close()
			testenv.Until(t, "the event says that nobody answers there", func() bool {
				event, ok := s.view.Get(model.ServerNode, model.CheckSource(model.WatchdogCheck))
				return ok && event.Status == model.Warning && strings.Contains(event.Output, "the call of watchdog-url failed")
			})
			if n := s.sessions.Sessions(); n > 1 {
				t.Errorf("%d sessions", n)
			}
			if said, ok := s.view.Get(model.ServerNode, model.CheckSource(model.KeepaliveCheck)); ok {
				t.Errorf("the server judges its own heartbeat: %+v", said)
			}
			stop()
		})
	}
}
