package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/muster-fleet/muster/internal/model"
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
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	// Not cmdline: the address of a database may stand there, with its password.
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/mutex", sampled("mutex", func(on bool) {
		if on {
			runtime.SetMutexProfileFraction(10) // one wait in ten
		} else {
			runtime.SetMutexProfileFraction(0)
		}
	}))
	mux.Handle("/debug/pprof/block", sampled("block", func(on bool) {
		if on {
			runtime.SetBlockProfileRate(int(100 * time.Microsecond))
		} else {
			runtime.SetBlockProfileRate(0)
		}
	}))
	return mux
}

// sampled takes samples only while somebody asks for a profile of some seconds: these
// two cost something all the time they are on.
func sampled(name string, sample func(on bool)) http.Handler {
	var one sync.Mutex // the switch is the whole process's
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !one.TryLock() {
			writeError(w, model.Errorf(model.Conflict, "somebody else takes a %s profile now", name).WithHint("try again in some seconds"))
			return
		}
		defer one.Unlock()
		sample(true)
		defer sample(false)
		pprof.Handler(name).ServeHTTP(w, r)
	})
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
