package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/muster-fleet/muster/internal/profiles"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/version"
)

// AdminOptions are what the admin listener shows.
type AdminOptions struct {
	Gatherer prometheus.Gatherer
	NotReady func() []string
	Queues   *queue.Registry
	Settings map[string]string // in force, without secrets
	Log      func() []byte     // the last of the log; nil: not kept
}

// Admin makes the handler of the admin listener: metrics, health, profiles, queues, and
// what else `muster debug bundle` gathers. It asks nobody for a token: see Local.
func Admin(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	health(mux, o.NotReady)
	mux.HandleFunc("GET /queues", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, o.Queues.List()) })
	mux.HandleFunc("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, o.Settings) })
	mux.HandleFunc("GET /debug/version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, version.Get()) })
	mux.HandleFunc("GET /debug/log", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if o.Log != nil {
			_, _ = w.Write(o.Log())
		}
	})
	profiles.Handle(mux, writeError)
	return mux
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
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
