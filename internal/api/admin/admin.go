// Package admin is the operator's listener: metrics, health, profiles, queues, and the rest of
// muster debug bundle. It needs no token: Local admits programs of the server's own user and of
// root on this machine.
//
// Start reading at Handler.
package admin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/profiles"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/version"
)

// Options are the surroundings of the admin listener.
type Options struct {
	Gatherer prometheus.Gatherer
	NotReady func() []string
	Queues   *queue.Registry
	Settings map[string]string // in force, without secrets
	Log      func() []byte     // newest lines; nil: none
}

// Handler returns the handler of the admin listener. It needs no token: wrap it in Local.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	op.HandleHealth(mux, o.NotReady)
	mux.HandleFunc("GET /queues", func(w http.ResponseWriter, _ *http.Request) { op.WriteJSON(w, o.Queues.List()) })
	mux.HandleFunc("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) { op.WriteJSON(w, o.Settings) })
	mux.HandleFunc("GET /debug/version", func(w http.ResponseWriter, _ *http.Request) { op.WriteJSON(w, version.Get()) })
	mux.HandleFunc("GET /debug/log", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if o.Log != nil {
			_, _ = w.Write(o.Log())
		}
	})
	profiles.Handle(mux, op.WriteError)
	return mux
}
