// Package profiles answers /debug/pprof for the listeners of a server and of a load run: those of
// Go, and those of locks and blocking, which sample only while somebody asks for one.
//
// Start reading at Handle. Its handlers run on the goroutines of their requests; one lock per kind
// lets one of them sample at a time, because the switch is the whole process's.
package profiles

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Handle adds them to mux. refuse answers what cannot be done now.
func Handle(mux *http.ServeMux, refuse func(http.ResponseWriter, *model.Error)) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	// Not cmdline: the address of a database may stand there, with its password.
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/mutex", sampled("mutex", refuse, func(on bool) {
		if on {
			runtime.SetMutexProfileFraction(10) // one wait in ten
		} else {
			runtime.SetMutexProfileFraction(0)
		}
	}))
	mux.Handle("/debug/pprof/block", sampled("block", refuse, func(on bool) {
		if on {
			runtime.SetBlockProfileRate(int(100 * time.Microsecond))
		} else {
			runtime.SetBlockProfileRate(0)
		}
	}))
}

// sampled takes samples only while somebody asks for a profile of some seconds: these
// two cost something all the time they are on.
func sampled(name string, refuse func(http.ResponseWriter, *model.Error), sample func(on bool)) http.Handler {
	var one sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !one.TryLock() {
			refuse(w, model.Errorf(model.Conflict, "somebody else takes a %s profile now", name).WithHint("try again in some seconds"))
			return
		}
		defer one.Unlock()
		sample(true)
		defer sample(false)
		pprof.Handler(name).ServeHTTP(w, r)
	})
}
