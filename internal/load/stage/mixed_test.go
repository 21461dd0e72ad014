package stage

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/spine"
	"github.com/muster-fleet/muster/internal/store/history"
)

// slow is a history that takes a while for each change.
type slow struct {
	history.Store
	each time.Duration
}

func (s slow) Record(ctx context.Context, b history.Batch) error {
	wait := time.NewTimer(time.Duration(len(b.Entries)) * s.each)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Store.Record(ctx, b)
}

// whole is a spine with reactions and people: a page waits until history holds what the
// events show.
func whole(t *testing.T, sc *scenario.Scenario, each time.Duration) load.Config {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, fleet, registry := t.TempDir(), spine.NewFleet(sc), prometheus.NewRegistry()
	store, err := history.Open(t.Context(), filepath.Join(dir, "history.db"), history.SizeLimit{})
	must(err)
	dispatcher := dispatch.New(dispatch.Options{Store: slow{store, each}, Names: names{fleet, "http://127.0.0.1:1"}, Batches: dispatch.BatchOptions{Gather: 250 * time.Millisecond}, Registerer: registry})
	must(dispatcher.Load(t.Context(), nil))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	s, err := spine.Open(spine.Options{Dir: dir, Fleet: fleet, Listen: listener, Registerer: registry, Emit: dispatcher.Emit})
	must(err)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) {
		if err := dispatcher.Recorded(r.Context(), s.View.Applied()); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v1.EventList{})
	})
	none := func(w http.ResponseWriter, _ *http.Request) { // nobody was called silent
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}
	mux.HandleFunc("GET /api/v1/problems", none)
	mux.HandleFunc("GET /api/v1/status", none)
	server := httptest.NewServer(mux)
	api, err := client.New(client.Context{Server: server.URL, Token: "T"})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = dispatcher.Run(ctx) })
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { stop(); server.Close(); running.Wait(); store.Close() })
	<-s.Ready
	return load.Config{Scenario: sc, Server: listener.Addr().String(), Before: load.InProcess(s.View), AdminURL: server.URL, API: api, MaxLag: time.Minute}
}

// Results eight times as fast are too many changes for a slow history: it falls behind, and
// people who list with it (perhaps without any answer). The results themselves are as quick as ever, and nothing is lost.
func TestWhoIsStarvedIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("short: ten seconds")
	}
	for name, each := range map[string]time.Duration{"quick": 0, "slow": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc, err := scenario.Parse("mixed.yaml", []byte(`scenario: muster.load/v1
agents:
  - {name: web, count: 20, linger: 20ms, checks: [{name: app, count: 2, interval: 1s, status: {warning: 0.5}, flapping: 0.5}]}
  - {name: db, count: 5, linger: 20ms, checks: [{name: app, count: 2, interval: 1s}]}
phases: [{ramp: 100ms}, {name: usual, steady: 5s, warmup: 2s}, {name: faster, steady: 7s, rate: 8}, {drain: 30s}]
operators: {lists: 3, pages: 1/s}
objectives: {beyond-p99: 60s, history-behind: 3s, list-p99: 3s}
`))
			if err != nil {
				t.Fatal(err)
			}
			rep, err := load.Run(t.Context(), whole(t, sc, each))
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(rep.Verdict, "\n")
			usual, faster := rep.Phases[1], rep.Phases[2]
			t.Logf("%+v\n%+v\n%s", usual.Beside, faster.Beside, said)
			figures := map[string]float64{}
			for _, b := range faster.Beside {
				figures[b.Figure+b.Class] = b.Value
			}
			if len(usual.Beside) != 4 || figures["heldweb"] < 99 || figures["helddb"] < 99 || !rep.Balance.OK() {
				t.Errorf("beside the results: %+v, then %+v; %+v", usual.Beside, faster.Beside, rep.Balance)
			}
			if name == "quick" {
				if !rep.OK() || len(rep.Verdict) > 0 || len(figures) != 4 {
					t.Error(said)
				}
				return
			}
			for _, want := range []string{"faster starves people who list: ", "faster starves history: ", " in usual; asked at most 3.0 s"} {
				if rep.OK() || !strings.Contains(said, want) {
					t.Errorf("want %q in\n%s", want, said)
				}
			}
		})
	}
}
