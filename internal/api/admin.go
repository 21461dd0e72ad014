package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/muster-fleet/muster/internal/queue"
)

// AdminOptions are what the admin listener shows.
type AdminOptions struct {
	Gatherer prometheus.Gatherer
	NotReady func() []string
	Queues   *queue.Registry
}

// Admin makes the handler of the admin listener: metrics, health, profiles, queues.
// It asks nobody for a token: bind it to the loopback address only.
func Admin(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	health(mux, o.NotReady)
	mux.HandleFunc("GET /queues", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(o.Queues.List())
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// health answers /livez and /readyz; the latter says why not.
func health(mux *http.ServeMux, notReady func() []string) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		why := notReady()
		if len(why) == 0 {
			fmt.Fprintln(w, "ok")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, line := range why {
			fmt.Fprintln(w, line)
		}
	})
}

func (s *server) healthRoutes() { health(s.mux, s.NotReady) }
