package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/compliance"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/explain"
	"github.com/muster-fleet/muster/internal/api/inbound"
	"github.com/muster-fleet/muster/internal/api/inventory"
	"github.com/muster-fleet/muster/internal/api/items"
	"github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/people"
	"github.com/muster-fleet/muster/internal/api/problems"
	"github.com/muster-fleet/muster/internal/api/reports"
	"github.com/muster-fleet/muster/internal/api/resources"
	"github.com/muster-fleet/muster/internal/api/rollouts"
	"github.com/muster-fleet/muster/internal/api/routing"
	"github.com/muster-fleet/muster/internal/api/runs"
	"github.com/muster-fleet/muster/internal/api/server"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/promapi"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/rules"
)

// Options has the server parts that the API and its sub-packages need.
type Options struct {
	view.Stores
	view.Live
	Access     *access.Service
	Events     events.Options
	Inbound    inbound.Options
	Items      items.Options
	Rules      func() []*rules.Group // evaluated groups of rules; nil: none
	Compliance *compliance.FleetCompliance
	Inventory  inventory.Options
	Nodes      nodes.Options
	Reports    reports.Options
	Rollouts   rollouts.Options
	Resources  resources.Options
	Routing    routing.Options
	Runs       runs.Options
	Server     server.Options
	// Enrol answers agents that have no caller; they have their own proof of identity. nil: none.
	Enrol *pki.Enroller
	// ProtectConnection gets the context of each request with a valid token, so that the listener trusts its
	// connection. nil: none.
	ProtectConnection func(context.Context)
	Queues            *queue.Registry
	Registry          prometheus.Registerer // nil: none
	Logger            *slog.Logger          // nil: none
}

// apiHandler is the HTTP handler of the API. It logs, counts and authenticates requests, and limits how many run at
// the same time.
type apiHandler struct {
	*op.Routes
	requestSlots      *queue.Slots      // slots of requests whose path has no bound of its own
	requestShares     *op.Quota[string] // the same, by user
	protectConnection func(context.Context)
}

// New returns the HTTP handler of a listener that serves the API and also the enrolment of agents.
func New(o Options) http.Handler {
	h := newHandler(o)
	if o.Enrol != nil {
		nodes.HandleEnrolment(h.Routes, h.Mux, o.Enrol)
	}
	return h.peopleHandler()
}

// NewSeparateHandlers returns one HTTP handler for people and programs, and one for the enrolment of agents. The second belongs
// to a separate listener on which agents only enrol.
func NewSeparateHandlers(o Options) (people, agents http.Handler) {
	h := newHandler(o)
	mux := http.NewServeMux()
	nodes.HandleEnrolment(h.Routes, mux, o.Enrol)
	mux.HandleFunc("/", refusePeople)
	return h.peopleHandler(), h.observeRequests(mux, mux)
}

// peopleHandler returns the HTTP handler for requests of people and programs, with logging, authentication and
// limits.
func (h *apiHandler) peopleHandler() http.Handler {
	return h.observeRequests(h.Mux, h.authenticate(h.limitRequests(h.Mux)))
}

// newHandler creates the API's HTTP handler with the operations of all sub-packages and the OpenAPI document.
func newHandler(o Options) *apiHandler {
	r := op.NewRoutes(op.Options{View: view.New(o.Stores, o.Live), Access: o.Access, Queues: o.Queues, Registry: o.Registry, Logger: o.Logger})
	server.Register(r, o.Server)
	people.Register(r, o.Nodes.JoinTokens)
	resources.Register(r, o.Resources)
	events.Register(r, o.Events)
	problems.Register(r)
	reports.Register(r, o.Reports)
	items.Register(r, o.Items)
	compliance.Register(r, o.Compliance)
	inventory.Register(r, o.Inventory)
	rollouts.Register(r, o.Rollouts)
	promapi.Register(r, promapi.Options{Rules: o.Rules})
	routing.Register(r, o.Routing)
	nodes.Register(r, o.Nodes)
	explain.Register(r)
	runs.Register(r, o.Runs)
	op.HandleOpenAPIDocument(r.Huma, r.Mux)
	inbound.Register(r, o.Inbound)
	r.Mux.HandleFunc("/", answerUnknownPath(r.Mux))
	return &apiHandler{Routes: r, requestSlots: queue.NewSlots(o.Queues, "requests"), requestShares: op.NewUserQuota(o.Queues, "requests"), protectConnection: o.ProtectConnection}
}

// limitRequests limits the number of concurrent requests in total and per user. Paths without a token (health, login,
// enrolment), watches and runs have bounds of their own.
func (h *apiHandler) limitRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPublicPath(r.URL.Path) || r.URL.Path == events.WatchPath || r.URL.Path == runs.Path {
			next.ServeHTTP(w, r)
			return
		}
		c := access.CallerOf(r.Context())
		leave, ok := h.requestShares.Enter(c.Owner())
		if !ok {
			h.CountRefusal("requests_share")
			op.RefuseUnread(w, r, op.RequestShareError())
			return
		}
		defer leave()
		op.ServeInSlot(h.requestSlots, w, r, next)
	})
}

// isPublicPath reports whether a URL path needs no API token, such as /livez or the login.
func isPublicPath(path string) bool {
	switch path {
	case "/livez", "/readyz", "/api/v1/login", pki.EnrolPath, pki.RenewPath:
		return true
	}
	return inbound.IsInboundPath(path)
}

// authenticate identifies the caller of a request by its token and adds the caller to the context. Users for programs
// are refused; every operation refuses other callers by its declaration.
func (h *apiHandler) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := access.Caller{Address: model.HostOf(r.RemoteAddr)}
		if !isPublicPath(r.URL.Path) {
			token, ok := tokenOf(r)
			if !ok {
				h.CountRefusal("no_token")
				op.WriteError(w, model.Errorf(model.Unauthenticated, "the request has no API token").WithHint("log in: muster login"))
				return
			}
			var err error
			if c.Subject, err = h.Access.Authenticate(token); err != nil {
				h.CountRefusal("bad_token")
				op.WriteError(w, op.TokenRefusalError(err))
				return
			}
			if h.protectConnection != nil {
				h.protectConnection(r.Context())
			}
			if err := c.Allow(access.NeedAnybody("api")); err != nil {
				h.CountRefusal("role")
				op.WriteError(w, op.TokenRefusalError(err))
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(access.WithCaller(r.Context(), c)))
	})
}

// tokenOf returns the API token of a request. Clients of Prometheus may send it as the password of a user of any name;
// other paths refuse this, because a browser would add the password to requests of foreign pages.
func tokenOf(r *http.Request) (token string, ok bool) {
	if strings.HasPrefix(r.URL.Path, promapi.Prefix+"/") {
		if _, token, ok := r.BasicAuth(); ok {
			return token, true
		}
	}
	return strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// observeRequests is middleware that logs and counts every request, and answers 500 if a handler panics.
func (h *apiHandler) observeRequests(routes *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := h.View().Now
		began := now()
		rec := &op.StatusRecorder{ResponseWriter: w}
		defer func() {
			if broken := recover(); broken != nil {
				if broken == http.ErrAbortHandler { // documented to be compared
					panic(broken)
				}
				h.Logger.Error("request handler panicked", "method", r.Method, "path", r.URL.Path, "panic", broken)
				if rec.Status == 0 {
					op.WriteError(rec, model.Errorf(model.Internal, "internal error: see the server's log"))
				}
			}
			h.logRequest(r, rec.Status, now().Sub(began))
		}()
		if r.ContentLength != 0 {
			// A refused client may still be sending its body: the deadline frees the connection.
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

// logRequest logs one request and counts the request in the metrics.
func (h *apiHandler) logRequest(r *http.Request, status int, took time.Duration) {
	route := r.Pattern
	if route == "" || route == "/" {
		route = "none"
	}
	h.Metrics.Requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	if !strings.HasSuffix(route, events.WatchPath) && !strings.HasSuffix(route, runs.Path) {
		h.Metrics.Seconds.WithLabelValues(route).Observe(took.Seconds())
	}
	level := slog.LevelDebug
	switch {
	case status >= 500:
		level = slog.LevelWarn
	case status == http.StatusUnauthorized || status == http.StatusTooManyRequests:
		// Anybody can cause refused requests: metrics count them, the log leaves them out, so that they do not fill the disk.
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		level = slog.LevelInfo
	}
	h.Logger.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "status", status,
		"took", took, "from", model.HostOf(r.RemoteAddr))
}

// answerUnknownPath answers requests for unknown paths with 404. If the path exists for other methods, it answers 405.
func answerUnknownPath(routes *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, route := routes.Handler(&other); route != "" && route != "/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			op.WriteError(w, model.Errorf(model.NotFound, "no API operation or resource at path %s", model.Shorten(r.URL.Path)).WithHint("list all paths: /api/v1/openapi.json"))
			return
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		p := op.NewErrorAnswer(model.Invalid, fmt.Sprintf("%s does not accept %s", model.Shorten(r.URL.Path), model.Shorten(r.Method)), "allowed methods: "+list+"; more: /api/v1/openapi.json")
		p.Title, p.Status = "Method not allowed", http.StatusMethodNotAllowed
		op.WriteErrorAnswer(w, p)
	}
}

// refusePeople answers API requests on the agents' listener with an error, because people have another
// listener.
func refusePeople(w http.ResponseWriter, _ *http.Request) {
	op.WriteError(w, model.Errorf(model.NotFound, "this address is the listener for agents only: use the address for people").WithHint("the address for people is the server's --listen"))
}
