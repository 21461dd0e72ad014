// Package profiles serves /debug/pprof on the listeners of a server and of a load run. The mutex
// and block profiles sample only while a request waits for one.
//
// Start reading at Handle. Its handlers run on the goroutines of their requests. One lock per kind
// admits one sampling request at a time, because the sampling rate belongs to the whole process.
package profiles

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Handle registers the HTTP handlers that record Go profiles (CPU, heap, locks) in mux. refuse answers a request for
// a profile that is being taken already.
func Handle(mux *http.ServeMux, refuse func(http.ResponseWriter, *model.Error)) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	// No cmdline: it may contain the URL of a database with its password.
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/mutex", sampleHandler("mutex", refuse, func(on bool) {
		if on {
			runtime.SetMutexProfileFraction(10) // one wait in ten
		} else {
			runtime.SetMutexProfileFraction(0)
		}
	}))
	mux.Handle("/debug/pprof/block", sampleHandler("block", refuse, func(on bool) {
		if on {
			runtime.SetBlockProfileRate(int(100 * time.Microsecond))
		} else {
			runtime.SetBlockProfileRate(0)
		}
	}))
}

// sampleHandler returns an HTTP handler that switches on sampling of lock contention only while a request runs.
func sampleHandler(name string, refuse func(http.ResponseWriter, *model.Error), sample func(on bool)) http.Handler {
	var one sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !one.TryLock() {
			refuse(w, model.Errorf(model.Conflict, "a %s profile is already being recorded for another request", name).WithHint("try again in a few seconds"))
			return
		}
		defer one.Unlock()
		sample(true)
		defer sample(false)
		pprof.Handler(name).ServeHTTP(w, r)
	})
}
