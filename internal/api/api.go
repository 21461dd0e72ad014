package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/explain"
	"github.com/muster-fleet/muster/internal/api/inbound"
	"github.com/muster-fleet/muster/internal/api/nodes"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/people"
	"github.com/muster-fleet/muster/internal/api/problems"
	"github.com/muster-fleet/muster/internal/api/reports"
	"github.com/muster-fleet/muster/internal/api/resources"
	"github.com/muster-fleet/muster/internal/api/routing"
	"github.com/muster-fleet/muster/internal/api/runs"
	"github.com/muster-fleet/muster/internal/api/server"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
)

// Options are the surroundings of the API, by subject.
type Options struct {
	view.Stores
	view.Live
	Access    *access.Service
	Events    events.Options
	Inbound   inbound.Options
	Nodes     nodes.Options
	Reports   reports.Options
	Resources resources.Options
	Routing   routing.Options
	Runs      runs.Options
	Server    server.Options
	// Enrol and Renew answer agents that have no caller; they have their own proof of identity. nil: none.
	Enrol *pki.Enroller
	Renew *pki.Renewer
	// Vouch gets the context of each request with a valid token, so that the listener trusts its
	// connection. nil: none.
	Vouch    func(context.Context)
	Queues   *queue.Registry
	Registry prometheus.Registerer // nil: none
	Logger   *slog.Logger          // nil: none
}

// handler is the API behind its doors: log and metrics, authentication, and a bound of requests.
type handler struct {
	*op.Routes
	slots *queue.Slots // of all requests without bounds of their own
	vouch func(context.Context)
}

// New returns the handler of a listener for people and agents.
func New(o Options) http.Handler {
	h := newHandler(o)
	if o.Enrol != nil {
		nodes.HandleEnrolment(h.Routes, h.Mux, o.Enrol, o.Renew)
	}
	return h.people()
}

// NewSplit returns the handlers of two listeners: one for people, and one on which machines enrol
// and nothing else is answered.
func NewSplit(o Options) (people, agents http.Handler) {
	h := newHandler(o)
	mux := http.NewServeMux()
	nodes.HandleEnrolment(h.Routes, mux, o.Enrol, o.Renew)
	mux.HandleFunc("/", refusePeople)
	return h.people(), h.observed(mux, mux)
}

func (h *handler) people() http.Handler {
	return h.observed(h.Mux, h.authenticated(h.bounded(h.Mux)))
}

// newHandler registers every subject. The OpenAPI document comes after the operations it describes.
func newHandler(o Options) *handler {
	r := op.NewRoutes(op.Options{View: view.New(o.Stores, o.Live), Access: o.Access, Queues: o.Queues, Registry: o.Registry, Logger: o.Logger})
	server.Register(r, o.Server)
	people.Register(r)
	resources.Register(r, o.Resources)
	events.Register(r, o.Events)
	problems.Register(r)
	reports.Register(r, o.Reports)
	routing.Register(r, o.Routing)
	nodes.Register(r, o.Nodes)
	explain.Register(r)
	runs.Register(r, o.Runs)
	op.HandleDocument(r.Huma, r.Mux)
	inbound.Register(r, o.Inbound)
	r.Mux.HandleFunc("/", unknownPath(r.Mux))
	return &handler{Routes: r, slots: queue.NewSlots(o.Queues, "requests"), vouch: o.Vouch}
}

// bounded lets a bounded number of requests in at the same time. Paths without a token (health,
// login, enrolment), watches and runs have bounds of their own.
func (h *handler) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open(r.URL.Path) || strings.HasSuffix(r.URL.Path, "/watch") || r.URL.Path == runs.Path {
			next.ServeHTTP(w, r)
			return
		}
		op.InSlots(h.slots, w, r, next)
	})
}
