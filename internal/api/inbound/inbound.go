// Package inbound answers other systems: alerts of a Prometheus, as to an Alertmanager, and
// callbacks of notification services. They authenticate in their own ways, so none of these is an
// operation of the API.
//
// Start reading at Register.
package inbound

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/tries"
)

const (
	alertsPath   = "/alertmanager/"
	callbackPath = "/callback/"
)

// Options are the surroundings of this package.
type Options struct {
	// Secret reads the secret of a handler, with which its service signs callbacks; nil: no callbacks.
	Secret func(context.Context, model.Secret) (string, error)
	// Alerts takes a request below /alertmanager/ and authenticates it; nil: no alerts.
	Alerts  func(r *http.Request, address string) error
	Actions events.Actions
}

// Serves reports whether a path is for other systems.
func Serves(path string) bool {
	return strings.HasPrefix(path, alertsPath) || strings.HasPrefix(path, callbackPath)
}

// Register adds the paths of other systems.
func Register(r *op.Routes, o Options) {
	if o.Secret != nil {
		c := &callbacks{Options: o, View: r.View(), logger: r.Logger}
		r.Mux.Handle(callbackPath, limited(r, "callback", queue.NewSlots(r.Queues, "callbacks"), callbackTimeout, c.serve))
	}
	if o.Alerts != nil {
		r.Mux.Handle(alertsPath, limited(r, "alerts", queue.NewSlots(r.Queues, "alerts"), op.BodyTimeout, o.Alerts))
	}
}

// limited bounds the requests of other systems: slots of their own, a deadline for the body, and a
// throttle for wrong credentials, as for passwords. A slow body takes no slot of people. answer
// returns the error; nil sends an empty object. name is the reason of refusals in the metrics.
func limited(r *op.Routes, name string, slots *queue.Slots, body time.Duration, answer func(r *http.Request, address string) error) http.Handler {
	attempts := tries.New(r.View().Now)
	answered := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		address := model.HostOf(q.RemoteAddr)
		if attempts.Exhausted(address) {
			r.CountRefusal(name + "_rate")
			op.WriteError(w, model.Errorf(model.Limited, "too many wrong tokens, passwords or signatures from %s", address).WithHint("wait a minute"))
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(body))
		ctx, cancel := context.WithTimeout(q.Context(), op.ReadTimeout)
		defer cancel()
		err := answer(q.WithContext(ctx), address)
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}\n")
			return
		}
		if model.ClassOf(err) == model.Unauthenticated {
			attempts.Allow(address)
			r.CountRefusal(name)
		}
		r.Fail(w, name, err)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { op.InSlots(slots, w, q, answered) })
}
