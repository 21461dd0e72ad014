package play

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestRenamesThatFail lets a rename fail, and expects that the run fails, unless a fault kept the server away
// meanwhile.
func TestRenamesThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		strike *strike
		failed int
		name   string
	}{
		"done":                           {http.StatusOK, nil, 0, "web-00000-renamed"},
		"refused":                        {http.StatusConflict, nil, 1, "web-00000"},
		"refused while the server goes":  {http.StatusServiceUnavailable, &strike{at: 1}, 0, "web-00000"},
		"refused after it had come back": {http.StatusServiceUnavailable, &strike{at: 1, over: 2}, 1, "web-00000"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte("{}"))
			}))
			defer server.Close()
			api, err := client.New(client.Context{Server: server.URL, Token: "T"})
			if err != nil {
				t.Fatal(err)
			}
			r := &Fleet{Clock: &clock.Clock{Epoch: time.Now().Add(-time.Second)}, cfg: Options{API: api}, records: records{renames: renames{waiting: map[int]bool{}}}}
			d := &Script{fleet: r}
			if c.strike != nil {
				c.strike.fault = scenario.Fault{Server: "kill"}
				d.strikes = append(d.strikes, c.strike)
			}
			a := &agent{fleet: r, name: "web-00000"}
			r.seats = []*agent{a}
			d.rename(t.Context(), 0)
			if r.renames.failed != c.failed || a.name != c.name || r.renames.waiting[0] {
				t.Errorf("%+v, the node is called %s", r.renames, a.name)
			}
			if said := r.Renames(); (said == "") != (c.failed == 0) || c.failed > 0 && !strings.HasPrefix(said, "1 of 1 renames failed: ") {
				t.Errorf("%q", said)
			}
		})
	}
}

// TestWhenTheServerIsAway checks the time in which a server counts as away: from the fault until it has restarted or
// continued.
func TestWhenTheServerIsAway(t *testing.T) {
	for _, c := range []struct {
		strike   strike
		from, to int64
		want     bool
	}{
		{strike{fault: scenario.Fault{Server: "kill"}, at: 10, over: 20}, 15, 16, true},
		{strike{fault: scenario.Fault{Server: "kill"}, at: 10, over: 20}, 5, 12, true},
		{strike{fault: scenario.Fault{Server: "kill"}, at: 10, over: 20}, 21, 30, false},
		{strike{fault: scenario.Fault{Server: "kill"}, at: 10, over: 20}, 5, 9, false},
		{strike{fault: scenario.Fault{Server: "kill"}, at: 10}, 900, 901, true},
		{strike{fault: scenario.Fault{Server: "kill"}}, 900, 901, false},
		{strike{fault: scenario.Fault{Server: "restart"}, at: 10}, 11, 12, true},
		{strike{fault: scenario.Fault{Cut: &scenario.Pick{}}, at: 10}, 11, 12, false},
	} {
		if got := c.strike.away(c.from, c.to); got != c.want {
			t.Errorf("%+v from %d to %d: %t", c.strike, c.from, c.to, got)
		}
	}
}
