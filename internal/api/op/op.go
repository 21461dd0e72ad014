// Package op is the base of every operation of the API: registration with the access that it needs, the form of
// errors (RFC 9457), bounds of bodies, time and concurrency, streams, the record of actions by hand, and the OpenAPI document.
//
// Goroutines: none. One lock: Quota.mu.
//
// An operation without a declared need panics when it is registered, so no test of the API passes.
//
// Start reading at Handle.
package op

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// Options are the dependencies of Routes. A nil Registry registers no metrics, a nil Logger logs nothing.
type Options struct {
	View     *view.View // view that is bound to no namespace
	Access   *access.Service
	Queues   *queue.Registry
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// Routes are the operations of the API: each one is registered with the access that it needs.
type Routes struct {
	Access  *access.Service
	Queues  *queue.Registry
	Logger  *slog.Logger
	Huma    huma.API
	Mux     *http.ServeMux
	Metrics *Metrics

	unboundView *view.View
	needs       map[string]access.Need // by operation id; not written after the last registration
}

// NewRoutes returns Routes without operations.
func NewRoutes(o Options) *Routes {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	return &Routes{
		Access: o.Access, Queues: o.Queues, Logger: o.Logger, Mux: mux, Huma: humago.New(mux, newHumaConfig()), Metrics: newMetrics(o.Registry),
		unboundView: o.View, needs: map[string]access.Need{},
	}
}

// View returns the view of all namespaces, for requests of other systems (alerts, callbacks) that are no operations.
func (r *Routes) View() *view.View { return r.unboundView }

// Needs returns the declared access of each operation, by operation id.
func (r *Routes) Needs() map[string]access.Need { return r.needs }

// Request is one API request: the View of its caller, and Routes to count, log and record the request. The request
// type of every sub-package of api embeds Request.
type Request struct {
	*view.View
	*Routes
}

// OperationSet is a set of operations whose methods belong to one request type R.
type OperationSet[R any] struct {
	*Routes
	make func(Request) R
}

// NewOperationSet returns an operation set. make creates the R of one request.
func NewOperationSet[R any](r *Routes, make func(Request) R) OperationSet[R] {
	return OperationSet[R]{r, make}
}

// maxBodyBytes bounds the body of a request, in bytes, unless its operation declares another bound. The bounds
// are huma's: a wrapped body would hide from net/http that unread bytes are left on the connection.
const maxBodyBytes = 1 << 20

// BodyTimeout is how long the body of a request may take to arrive.
const BodyTimeout = 30 * time.Second

// Timeouts end operations, so that a database that hangs does not hold requests for ever.
const (
	ReadTimeout   = 30 * time.Second
	changeTimeout = 100 * time.Second
)

// Handle registers one operation with the access that it needs. fn is a method of
// request type R, which has the view of the caller; Handle converts the errors of fn to answers.
func Handle[R, I, O any](s OperationSet[R], o huma.Operation, need access.Need, fn func(R, context.Context, *I) (*O, error)) {
	s.declareNeed(o.OperationID, need)
	o.Middlewares = append(huma.Middlewares{s.authorize(need)}, o.Middlewares...)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, maxBodyBytes)
	o.BodyReadTimeout = BodyTimeout
	timeout := changeTimeout
	if o.Method == http.MethodGet {
		timeout = ReadTimeout
	}
	huma.Register(s.Huma, o, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		out, err := fn(s.make(Request{s.unboundView.For(ctx, need), s.Routes}), ctx, in)
		if err != nil {
			return nil, s.ErrorOf(o.OperationID, err)
		}
		return out, nil
	})
}

// HandleRaw registers an operation that reads its body itself. The OpenAPI document describes the operation like those of Handle.
func HandleRaw[R any](s OperationSet[R], o huma.Operation, need access.Need, fn func(R, http.ResponseWriter, *http.Request) error) {
	s.declareNeed(o.OperationID, need)
	s.Huma.OpenAPI().AddOperation(&o)
	s.Mux.HandleFunc(o.Method+" "+o.Path, func(w http.ResponseWriter, r *http.Request) {
		c := access.CallerOf(r.Context())
		if err := c.Allow(need); err != nil {
			s.CountRefusal("role")
			WriteError(w, TokenRefusalError(err))
			return
		}
		if err := fn(s.make(Request{s.unboundView.For(r.Context(), need), s.Routes}), w, r); err != nil {
			w.Header().Set("Connection", "close") // else the answer waits for the rest of the body
			s.WriteFailure(w, o.OperationID, err)
		}
	})
}

// declareNeed stores the access that an operation needs; it panics where an operation declares none.
func (r *Routes) declareNeed(operation string, need access.Need) {
	if !need.Declared() {
		panic("BUG: operation " + operation + " declares no access")
	}
	r.needs[operation] = need
}

// authorize returns a middleware that refuses a request before its body is read, where the caller has the need nowhere
// or not in the namespace that the path or the query names.
func (r *Routes) authorize(need access.Need) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if err := checkAccess(ctx, need); err != nil {
			r.CountRefusal("role")
			WriteHuma(ctx, TokenRefusalError(err))
			return
		}
		next(ctx)
	}
}

func checkAccess(ctx huma.Context, need access.Need) error {
	c := access.CallerOf(ctx.Context())
	err := c.Allow(need)
	if err != nil || need.Scope != access.Namespaced {
		return err
	}
	for _, namespace := range []string{ctx.Param("namespace"), ctx.Query("namespace")} {
		if namespace != "" {
			if err := c.AllowIn(need, namespace); err != nil {
				return err
			}
		}
	}
	return nil
}

// Get describes an operation that reads. classes are the classes of errors that the operation may answer with, besides
// those that follow from its form (see errorClasses).
func Get(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return newOperation(http.MethodGet, id, path, tag, summary, classes)
}

// Post describes an operation that acts, and does not merely store its body.
func Post(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return newOperation(http.MethodPost, id, path, tag, summary, classes)
}

// Put describes an operation that stores its body.
func Put(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return newOperation(http.MethodPut, id, path, tag, summary, classes)
}

// Delete describes an operation that deletes something.
func Delete(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return newOperation(http.MethodDelete, id, path, tag, summary, classes)
}

func newOperation(method, id, path, tag, summary string, classes []model.Class) huma.Operation {
	o := huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tag}, Summary: summary}
	for _, class := range classes {
		o.Errors = append(o.Errors, class.HTTP())
	}
	return o
}

// ChangesResources adds the errors of every operation that changes resources: a concurrent change,
// a limit, or more affected nodes than the request permits.
func ChangesResources(o huma.Operation) huma.Operation {
	for _, class := range []model.Class{model.Conflict, model.Limited, model.Guarded} {
		o.Errors = append(o.Errors, class.HTTP())
	}
	return o
}

// Body is an answer of an operation that has a JSON body and no special headers.
type Body[T any] struct{ Body T }

// Answer returns an answer with this body.
func Answer[T any](body T) *Body[T] { return &Body[T]{body} }

// NoParameters is a request or an answer without parameters and body.
type NoParameters struct{}

// NamedPath is the path parameters of operations on something with a namespace and a name, such as a handler. (Types
// that inputs embed are exported, because huma reads exported fields only.)
type NamedPath struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Name      string `path:"name" maxLength:"253"`
}

// IDPath is the path parameter of operations on something with an id, such as a problem or a token.
type IDPath struct {
	ID string `path:"id" maxLength:"253"`
}

// Turns bounds the cost of expensive requests of one kind: two requests are processed, a bounded number
// waits and uses only its connection, further ones are refused.
type Turns struct {
	routes  *Routes
	running chan struct{}
	waiting *queue.Slots // requests that wait or are processed
	reason  string       // reason of refusals, in the metrics
	refusal *model.Error
}

// NewTurns returns Turns whose bound is the queue of this name. reason and refusal are for requests that it refuses.
func NewTurns(r *Routes, queueName, reason string, refusal *model.Error) *Turns {
	return &Turns{r, make(chan struct{}, 2), queue.NewSlots(r.Queues, queueName), reason, refusal}
}

// Enter waits until the request may be processed; leave ends its turn. Enter refuses the request if the queue is full
// or ctx ends.
func (t *Turns) Enter(ctx context.Context) (leave func(), refusal *model.Error) {
	if t.waiting.Enter(ctx) == nil {
		select {
		case t.running <- struct{}{}:
			return func() { <-t.running; t.waiting.Leave() }, nil
		case <-ctx.Done():
			t.waiting.Leave()
		}
	}
	t.routes.CountRefusal(t.reason)
	return nil, t.refusal
}

// Quota bounds the number of concurrent requests that share a key. It is safe for concurrent use.
type Quota[K comparable] struct {
	limit    int
	mu       sync.Mutex
	requests map[K]int // running requests by key; a key without requests is absent
}

// NewQuota returns a Quota of limit requests for each key.
func NewQuota[K comparable](limit int) *Quota[K] {
	return &Quota[K]{limit: limit, requests: map[K]int{}}
}

// Enter counts a request of a key until leave is called; ok is false where the key has reached the limit.
func (q *Quota[K]) Enter(key K) (leave func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.requests[key] >= q.limit {
		return nil, false
	}
	q.requests[key]++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.requests[key]--; q.requests[key] == 0 {
			delete(q.requests, key)
		}
	}, true
}

// ServeInSlot answers a request in one of the slots, or refuses it.
func ServeInSlot(slots *queue.Slots, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if err := slots.Enter(r.Context()); err != nil {
		if errors.Is(err, queue.ErrFull) {
			WriteError(w, RequestLimitError())
		}
		return
	}
	defer slots.Leave()
	next.ServeHTTP(w, r)
}

// RequestLimitError is the error of a request when all slots are taken.
func RequestLimitError() *model.Error {
	return model.Errorf(model.Unavailable, "the server has reached its limit of concurrent requests").
		WithHint("try again; muster get queues shows the queue, --queues raises its capacity")
}

// Metrics are the metrics of all operations. Sub-packages of api register further ones.
type Metrics struct {
	Requests *prometheus.CounterVec
	Seconds  *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	registry prometheus.Registerer // nil: none
}

func newMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		registry: r,
		Requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_api_requests_total", Help: "Requests by route and status.",
		}, []string{"route", "status"}),
		Seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_api_request_seconds", Help: "Time to answer, by route. Watches are left out.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}, []string{"route"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_api_refused_total", Help: "Requests refused before any work was done, by reason.",
		}, []string{"reason"}),
	}
	m.Register(m.Requests, m.Seconds, m.refused)
	return m
}

// Register registers further metrics, of a sub-package of api.
func (m *Metrics) Register(c ...prometheus.Collector) {
	if m.registry != nil {
		m.registry.MustRegister(c...)
	}
}

// CountRefusal counts a request that was refused before any work was done.
func (r *Routes) CountRefusal(reason string) { r.Metrics.refused.WithLabelValues(reason).Inc() }

// RecordAction writes an action of a person into the record of changes before the action happens.
// If RecordAction returns an error, the caller must not act.
func (q Request) RecordAction(ctx context.Context, action string) error {
	if err := q.Intent.RecordRun(ctx, access.AuthorOf(ctx, action)); err != nil {
		return q.recordFailedError(action, err)
	}
	q.logAction(ctx, action)
	return nil
}

// BeginAction records an action of a person that takes a while, like RecordAction; ended records the outcome.
func (q Request) BeginAction(ctx context.Context, action, picked, note string) (ended func(outcome string), err error) {
	end, err := q.Intent.BeginRun(ctx, access.AuthorOf(ctx, action), picked, note)
	if err != nil {
		return nil, q.recordFailedError(action, err)
	}
	q.logAction(ctx, action+": "+picked+note)
	return func(outcome string) {
		if err := end(outcome); err != nil {
			q.Logger.Error("cannot record the outcome of an action; the next start records it as unknown", "action", action, "outcome", outcome, "err", err)
		}
	}, nil
}

func (q Request) recordFailedError(action string, err error) error {
	q.Logger.Error("cannot record an action; refused it", "action", action, "err", err)
	return model.Errorf(model.Unavailable, "%s failed: the server cannot record it now", action).WithHint("the server's log has the reason; try again")
}

func (q Request) logAction(ctx context.Context, action string) {
	c := access.CallerOf(ctx)
	q.Logger.Info("action by hand", "user", c.User, "from", c.Address, "action", action)
}

// StillAllowed returns a function that reports whether the token of a long request is valid and
// has the grants with which the request began.
func (r *Routes) StillAllowed(request *http.Request) func() bool {
	token := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	c := access.CallerOf(request.Context())
	return func() bool {
		s, err := r.Access.Authenticate(token)
		return err == nil && s.Equal(&c.Grants)
	}
}
