package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// A result goes from a session with a certificate to a delivery, and the address outside is
// called; also behind a balancer on this machine, and with a listener for agents alone.
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
			s, stop := start(t, settings(t, filepath.Join(t.TempDir(), "data"), append(args, "--watchdog-interval", "1s", "--watchdog-url", outside.URL)...))
			if body := <-called; !strings.HasPrefix(body, "POST ") || !strings.Contains(body, `"kind":"beat"`) {
				t.Errorf("called with %s", body)
			}
			<-called
			testenv.Until(t, "the event says how long it took", func() bool {
				event, ok := s.view.Get(model.ServerNode, model.WatchdogCheck)
				return ok && event.Status == model.OK && strings.Contains(event.Output, "the last synthetic result took ")
			})
			outside.Close()
			testenv.Until(t, "the event says that nobody answers there", func() bool {
				event, ok := s.view.Get(model.ServerNode, model.WatchdogCheck)
				return ok && event.Status == model.Warning && strings.Contains(event.Output, "could not be called")
			})
			if n := s.sessions.Sessions(); n > 1 {
				t.Errorf("%d sessions", n)
			}
			if said, ok := s.view.Get(model.ServerNode, model.KeepaliveCheck); ok {
				t.Errorf("the server judges its own sign of life: %+v", said)
			}
			stop()
		})
	}
}
