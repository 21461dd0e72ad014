// Package inbound answers other systems: alerts and samples of a Prometheus, and callbacks of notification services. These systems do not authenticate with API tokens, so their requests are no operations of the API.
//
// Start reading at Register.
package inbound

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	alertsPath   = "/alertmanager/"
	callbackPath = "/callback/"
	samplesPath  = "/prometheus/" // with samplesEnd; the other paths below it are queries
	samplesEnd   = "/api/v1/write"
)

// Options holds the functions that process alerts, metric samples and callbacks from other systems.
type Options struct {
	// Secret reads the secret of a handler, with which its service signs callbacks; nil: no callbacks.
	Secret func(context.Context, model.Secret) (string, error)
	// Alerts takes a request below /alertmanager/ and authenticates it; nil: no alerts.
	Alerts func(r *http.Request, address string) error
	// Samples takes a request of remote write and authenticates it; it may set headers of the answer. Nil: no samples.
	Samples func(header http.Header, r *http.Request, address string) error
	Actions events.Actions
}

// IsInboundPath reports whether other systems send alerts, metric samples or callbacks to a URL path.
func IsInboundPath(path string) bool {
	return strings.HasPrefix(path, alertsPath) || strings.HasPrefix(path, callbackPath) || strings.HasPrefix(path, samplesPath) && strings.HasSuffix(path, samplesEnd)
}

// Register adds the URL paths to which other systems send alerts, metric samples and callbacks.
func Register(r *op.Routes, o Options) {
	if o.Secret != nil {
		c := &callbackReceiver{Options: o, View: r.View(), logger: r.Logger}
		r.Mux.Handle(callbackPath, limitInboundRequests(r, "callback", queue.NewSlots(r.Queues, "callbacks"), callbackTimeout, ignoreHeader(c.answerCallback)))
	}
	if o.Alerts != nil {
		r.Mux.Handle(alertsPath, limitInboundRequests(r, "alerts", queue.NewSlots(r.Queues, "alerts"), op.BodyTimeout, ignoreHeader(o.Alerts)))
	}
	if o.Samples != nil {
		samples := limitInboundRequests(r, "samples", queue.NewSlots(r.Queues, "samples"), op.BodyTimeout, o.Samples)
		r.Mux.Handle(strings.TrimSuffix(samplesPath, "/")+samplesEnd, samples)
		r.Mux.Handle(samplesPath+"{namespace}"+samplesEnd, samples)
	}
}

// ignoreHeader adapts a request handler without a header argument to the signature with response headers.
func ignoreHeader(answer func(*http.Request, string) error) func(http.Header, *http.Request, string) error {
	return func(_ http.Header, r *http.Request, address string) error { return answer(r, address) }
}

// limitInboundRequests is middleware that limits requests of other systems, such as alerts. It limits concurrent
// requests, the time to send a body, and wrong credentials. Valid credentials are never refused for guesses from the
// same address: a token or a signature is cheap to check, and answer throttles expensive checks. A slow body takes no
// slot of API requests. answer handles one request; if it returns nil, the response is an empty object. name is the
// reason of refusals in the metrics.
func limitInboundRequests(r *op.Routes, name string, slots *queue.Slots, body time.Duration, answer func(header http.Header, r *http.Request, address string) error) http.Handler {
	attempts := authlimit.New(r.View().Now)
	answered := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		address := model.HostOf(q.RemoteAddr)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(body))
		ctx, cancel := context.WithTimeout(q.Context(), op.ReadTimeout)
		defer cancel()
		err := answer(w.Header(), q.WithContext(ctx), address)
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}\n")
			return
		}
		if model.ClassOf(err) == model.Unauthenticated {
			r.CountRefusal(name)
			if !attempts.Allow(address) {
				r.CountRefusal(name + "_rate")
				err = model.Errorf(model.Limited, "too many wrong tokens, passwords or signatures from %s", address).WithHint("wait a minute")
			}
		}
		r.WriteFailure(w, name, err)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { op.ServeInSlot(slots, w, q, answered) })
}

const (
	maxCallbackBytes = 1 << 20         // greatest body, in bytes
	callbackTimeout  = 5 * time.Second // time for the body to arrive
)

// callbackReceiver answers callbacks of services that handlers notify, such as PagerDuty.
type callbackReceiver struct {
	Options
	*view.View // view that is bound to no namespace
	logger     *slog.Logger
}

// answerCallback handles the callback of a service such as PagerDuty about an acknowledged or closed incident.
func (c *callbackReceiver) answerCallback(r *http.Request, address string) error {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, callbackPath), "/")
	var spec *model.HandlerSpec
	if ok {
		spec, ok = c.Directory.Handler(namespace, name)
	}
	if !ok || handler.CallbackSecret(spec).IsZero() {
		return model.Errorf(model.Unauthenticated, "no handler has this callback path; see the URL in muster describe handler").WithHint("use %sNAMESPACE/HANDLER of a handler with pagerduty.callback or opsgenie.callback: docs/pagers.md", callbackPath)
	}
	if r.Method != http.MethodPost {
		return model.Errorf(model.Invalid, "callbacks must use the method POST")
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxCallbackBytes+1))
	if err != nil {
		return model.Errorf(model.Invalid, "the request body ended early: %w", err)
	}
	if len(text) > maxCallbackBytes {
		return model.Errorf(model.TooLarge, "the request body is larger than %s", model.Size(maxCallbackBytes))
	}
	secret, err := c.Secret(r.Context(), handler.CallbackSecret(spec))
	if err != nil {
		c.logger.Error("cannot read the secret of a callback", "handler", namespace+"/"+name, "err", err)
		return model.Errorf(model.Unavailable, "the server cannot read the handler's secret: see the server's log")
	}
	call, err := handler.ReadCallback(spec, secret, r.Header, text)
	if err != nil || call.Verb == "" || call.Problem == "" {
		return err
	}
	n, err := c.applyCallback(r.Context(), history.HandlerRef{Namespace: namespace, Name: name}, call)
	c.logger.Info("a notification service sent a callback", "handler", namespace+"/"+name, "verb", call.Verb, "by", call.By, "problem", call.Problem, "problems", n, "from", address, "err", err)
	return err
}

// applyCallback acknowledges or closes the open problems of an incident, as the callback says. The incident is
// in a service such as PagerDuty; the result is the number of changed problems. A problem that is closed, or
// already has the state, is left alone, because services echo our own notifications.
func (c *callbackReceiver) applyCallback(ctx context.Context, by history.HandlerRef, call handler.Callback) (n int, err error) {
	deliveries, err := c.History.Deliveries(ctx, call.Problem)
	if err != nil {
		return 0, err
	}
	var ids []string
	for _, d := range deliveries {
		if d.Handler == by && d.Problem == call.Problem {
			also, err := c.History.LinkedProblems(ctx, d.Key)
			if err != nil {
				return 0, err
			}
			ids = append(append(ids, d.Problem), also...)
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if current, err := c.isCurrentIncident(ctx, by, id, call.Incident); err != nil {
			return n, err
		} else if !current {
			continue
		}
		did, err := c.applyCallbackToProblem(ctx, id, call)
		if err != nil {
			return n, fmt.Errorf("apply callback action %s to problem %s: %w", call.Verb, id, err)
		}
		if did {
			n++
		}
	}
	return n, nil
}

// isCurrentIncident reports whether an incident of a service such as PagerDuty is the newest incident about a
// problem. Services such as PagerDuty keep incidents. When an acknowledgement ends, the service gets a new
// incident, and actions on the old incident no longer count.
func (c *callbackReceiver) isCurrentIncident(ctx context.Context, by history.HandlerRef, problem, incident string) (bool, error) {
	rows, err := c.History.EscalationsOf(ctx, problem)
	knows := false
	for _, e := range rows {
		for _, k := range e.Notified {
			if k.HandlerRef == by && k.Incident == incident {
				return true, nil
			}
			knows = knows || k.HandlerRef == by
		}
	}
	return !knows, err
}

// applyCallbackToProblem acknowledges or closes one problem as a callback says. A closed problem stays as it is.
func (c *callbackReceiver) applyCallbackToProblem(ctx context.Context, id string, call handler.Callback) (did bool, err error) {
	p, err := c.History.Problem(ctx, id)
	if model.ClassOf(err) == model.NotFound {
		return false, nil // history has deleted the problem
	}
	if err != nil {
		return false, err
	}
	st, ok := c.Events.Get(p.NodeID, p.Source)
	if !ok || st.Problem == nil || st.Problem.ID != id {
		return false, nil // closed
	}
	acked := st.Problem.Ack.Active(c.Now())
	if call.Verb == "acknowledge" && acked || call.Verb == "unacknowledge" && !acked {
		return false, nil
	}
	return true, c.Actions.Act(ctx, p.NodeID, wire.Action{Verb: call.Verb, Check: model.CheckID(p.Source.ID), Instance: p.Source.Instance, By: call.By, Note: call.Note, Problem: id})
}
