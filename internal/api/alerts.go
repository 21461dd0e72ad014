package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/tries"
)

const alertsPath = "/alertmanager/"

// fromOutside are the paths of other systems.
func fromOutside(path string) bool {
	return strings.HasPrefix(path, alertsPath) || strings.HasPrefix(path, callbackPath)
}

// external serves requests of other systems, which authenticate in their own ways. answer returns the
// error, nil sends an empty object. Wrong credentials are throttled as passwords are. A slow body takes
// no slot of people: a callback is authenticated by its whole body, which must arrive within the deadline.
func (s *server) external(what string, slots *queue.Slots, body time.Duration, answer func(r *http.Request, whence string) error) http.Handler {
	tries := tries.New(s.Now)
	answered := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whence := model.HostOf(r.RemoteAddr)
		if tries.Exhausted(whence) {
			s.metrics.refused.WithLabelValues(what + "_rate").Inc()
			writeError(w, model.Errorf(model.Limited, "too many wrong tokens, passwords or signatures from %s", whence).WithHint("wait a minute"))
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(body))
		ctx, cancel := context.WithTimeout(r.Context(), readWithin)
		defer cancel()
		r = r.WithContext(ctx)
		err := answer(r, whence)
		if model.ClassOf(err) == model.Unauthenticated && err != nil {
			tries.Allow(whence)
			s.metrics.refused.WithLabelValues(what).Inc()
		}
		if err != nil {
			if p := (*v1.Error)(nil); errors.As(s.errorOf(what, err), &p) {
				writeProblem(w, p)
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}\n")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inSlots(slots, w, r, answered) })
}
