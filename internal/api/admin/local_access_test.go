package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestProfilesNeedALocalCaller requests profiles from local and remote addresses, and expects answers only for local
// programs. Requests through browsers and to other host names are refused.
func TestProfilesNeedALocalCaller(t *testing.T) {
	h := LocalOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	admitted := context.WithValue(t.Context(), clientCheckKey{}, func() *model.Error { return nil })
	for _, c := range []struct {
		name, path, peer, host string
		header                 map[string]string
		want                   int
	}{
		{"profile from here", "/debug/pprof/heap", "127.0.0.1:5000", "127.0.0.1:8444", nil, 200},
		{"by name", "/debug/log", "[::1]:5000", "localhost:8444", nil, 200},
		{"an address of ours", "/queues", "127.0.0.1:5000", "[::1]:8444", nil, 200},
		{"from elsewhere", "/debug/pprof/heap", "192.0.2.1:5000", "127.0.0.1:8444", nil, 403},
		{"states from elsewhere", "/debug/states", "192.0.2.1:5000", "10.0.0.1:8444", nil, 403},
		{"metrics from elsewhere", "/metrics", "192.0.2.1:5000", "muster.example:8444", nil, 200},
		{"health from elsewhere", "/readyz", "192.0.2.1:5000", "muster.example:8444", nil, 200},
		{"a name that somebody made point here", "/debug/log", "127.0.0.1:5000", "evil.example:8444", nil, 403},
		{"a page elsewhere", "/debug/pprof/profile", "127.0.0.1:5000", "localhost:8444", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a script elsewhere", "/debug/log", "127.0.0.1:5000", "localhost:8444", map[string]string{"Origin": "https://evil.example"}, 403},
		{"typed into a browser", "/debug/pprof/", "127.0.0.1:5000", "localhost:8444", map[string]string{"Sec-Fetch-Site": "none"}, 200},
	} {
		r := httptest.NewRequestWithContext(admitted, "GET", c.path, nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.name, w.Code, c.want)
		}
	}
}
