package op

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// StatusRecorder is a ResponseWriter that keeps the status of the answer.
type StatusRecorder struct {
	http.ResponseWriter
	Status int // 0: nothing is written
}

// WriteHeader implements http.ResponseWriter.
func (r *StatusRecorder) WriteHeader(status int) {
	if r.Status == 0 {
		r.Status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *StatusRecorder) Write(p []byte) (int, error) {
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the wrapped writer.
func (r *StatusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// HandleHealth answers /livez, and /readyz with the reasons why the server is not ready.
func HandleHealth(mux *http.ServeMux, notReady func() []string) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		reasons := notReady()
		if len(reasons) == 0 {
			fmt.Fprintln(w, "ok")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, line := range reasons {
			fmt.Fprintln(w, line)
		}
	})
}
