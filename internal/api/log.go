package api

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/runs"
	"github.com/muster-fleet/muster/internal/model"
)

// observed logs and counts every request by its route in routes, and survives a handler that panics.
func (h *handler) observed(routes *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := h.View().Now
		began := now()
		rec := &op.StatusRecorder{ResponseWriter: w}
		defer func() {
			if broken := recover(); broken != nil {
				if broken == http.ErrAbortHandler { //nolint:errorlint // documented to be compared
					panic(broken)
				}
				h.Logger.Error("request handler panicked", "method", r.Method, "path", r.URL.Path, "panic", broken)
				if rec.Status == 0 {
					op.WriteError(rec, model.Errorf(model.Internal, "a fault of the server; its log says more"))
				}
			}
			h.note(r, rec.Status, now().Sub(began))
		}()
		if r.ContentLength != 0 {
			// A refused client may still be sending: this ends its hold on the connection.
			// An operation that reads the body sets a deadline of its own.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(op.BodyTimeout))
		}
		_, route := routes.Handler(r)
		rec.Header().Set("X-Content-Type-Options", "nosniff")
		rec.Header().Set("Cache-Control", "no-store")
		r.Pattern = route
		next.ServeHTTP(rec, r)
	})
}

// note counts and logs one request.
func (h *handler) note(r *http.Request, status int, took time.Duration) {
	route := r.Pattern
	if route == "" || route == "/" {
		route = "none"
	}
	h.Metrics.Requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	if !strings.HasSuffix(route, "/watch") && !strings.HasSuffix(route, runs.Path) {
		h.Metrics.Seconds.WithLabelValues(route).Observe(took.Seconds())
	}
	level := slog.LevelDebug
	switch {
	case status >= 500:
		level = slog.LevelWarn
	case status == http.StatusUnauthorized || status == http.StatusTooManyRequests:
		// Strangers can cause these at will: they are counted, and must not fill the disk.
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		level = slog.LevelInfo
	}
	h.Logger.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "status", status,
		"took", took, "from", model.HostOf(r.RemoteAddr))
}
