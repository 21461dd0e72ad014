package api

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// bodyWithin is how long the body of a request may take.
const bodyWithin = 30 * time.Second

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the real writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// observed logs and counts every request by its route in routes, and survives a handler
// that panics.
func (s *server) observed(routes *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := s.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if broken := recover(); broken != nil {
				if broken == http.ErrAbortHandler { //nolint:errorlint // documented to be compared
					panic(broken)
				}
				s.Logger.Error("request handler panicked", "method", r.Method, "path", r.URL.Path, "panic", broken)
				if rec.status == 0 {
					writeError(rec, model.Errorf(model.Internal, "a fault of the server; its log says more"))
				}
			}
			s.note(r, rec.status, s.Now().Sub(began))
		}()
		if r.ContentLength != 0 {
			// Whoever is refused may still be sending: he does not hold the connection.
			// An operation that reads the body sets a deadline of its own.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
		}
		_, route := routes.Handler(r)
		rec.Header().Set("X-Content-Type-Options", "nosniff")
		rec.Header().Set("Cache-Control", "no-store")
		r.Pattern = route
		next.ServeHTTP(rec, r)
	})
}

func (s *server) note(r *http.Request, status int, took time.Duration) {
	route := r.Pattern
	if route == "" || route == "/" {
		route = "none"
	}
	s.metrics.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	if !strings.HasSuffix(route, "/watch") && !strings.HasSuffix(route, runsPath) {
		s.metrics.seconds.WithLabelValues(route).Observe(took.Seconds())
	}
	level := slog.LevelDebug
	switch {
	case status >= 500:
		level = slog.LevelWarn
	case status == http.StatusUnauthorized || status == http.StatusTooManyRequests:
		// Anybody can make these: they are counted, and fill no disk.
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		level = slog.LevelInfo
	}
	s.Logger.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "status", status,
		"took", took, "from", model.HostOf(r.RemoteAddr))
}
