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

// Options has the server parts that all API operations need, such as access control. Audit, limits and metrics are
// others. A nil Registry registers no metrics, a nil Logger logs nothing.
type Options struct {
	View     *view.View // view that is bound to no namespace
	Access   *access.Service
	Queues   *queue.Registry
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// Routes is the list of all API operations (HTTP routes), with the role that each requires.
type Routes struct {
	Access  *access.Service
	Queues  *queue.Registry
	Logger  *slog.Logger
	Huma    huma.API
	Mux     *http.ServeMux
	Metrics *Metrics

	unboundView *view.View
	needs       map[string]access.Need // by operation id; not written after the last registration
	largeBodies *Quota[string]         // requests that send a large body or are processed, by user
	conditions  *Quota[string]         // requests that evaluate a condition (where), by user
}

// NewRoutes returns a list of API operations that is empty at first.
func NewRoutes(o Options) *Routes {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	return &Routes{
		Access: o.Access, Queues: o.Queues, Logger: o.Logger, Mux: mux, Huma: humago.New(mux, newHumaConfig()), Metrics: newMetrics(o.Registry),
		unboundView: o.View, needs: map[string]access.Need{},
		largeBodies: NewQuota[string](maxBodies/share, maxBodies), conditions: NewQuota[string](maxConditions, 0),
	}
}

// View returns a view of all namespaces, for requests without a user, such as alerts from other systems. Alerts
// and callbacks from other systems are such requests.
func (r *Routes) View() *view.View { return r.unboundView }

// RequiredPermissions returns the permission that each API operation requires, keyed by operation id.
func (r *Routes) RequiredPermissions() map[string]access.Need { return r.needs }

// Request is one API request, with the part of the server's state that its caller may see. The request type of every
// sub-package of api embeds Request.
type Request struct {
	*view.View
	*Routes
}

// OperationSet registers the methods of one request type R as API operations.
type OperationSet[R any] struct {
	*Routes
	make func(Request) R
}

// NewOperationSet returns an empty set of API operations for one request type R. The function make creates the
// R for one request.
func NewOperationSet[R any](r *Routes, make func(Request) R) OperationSet[R] {
	return OperationSet[R]{r, make}
}

const (
	// maxBodyBytes bounds the body of a request, in bytes, unless its operation declares another bound. The bounds
	// are huma's: a wrapped body would hide from net/http that unread bytes are left on the connection.
	maxBodyBytes = 256 << 10
	// largeBodyBytes is the size of a large body. A user can send only few of them at a time.
	largeBodyBytes = 1 << 20
	// maxConditions is the most requests of one user that evaluate a condition at a time. Others of the user wait.
	maxConditions = 2
)

// BodyTimeout is how long the body of a request may take to arrive.
const BodyTimeout = 30 * time.Second

// Timeouts end operations, so that a database that hangs does not hold requests for ever.
const (
	ReadTimeout   = 30 * time.Second
	changeTimeout = 100 * time.Second
)

// Handle registers an API operation with decoded parameters and the permission that its callers need. fn is a method
// of request type R, which has the view of the caller; Handle converts the errors of fn to answers.
func Handle[R, I, O any](s OperationSet[R], o huma.Operation, need access.Need, fn func(R, context.Context, *I) (*O, error)) {
	s.declarePermission(o.OperationID, need)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, maxBodyBytes)
	switch {
	case len(o.Middlewares) > 0: // the operation has its own limit
	case o.MaxBodyBytes > largeBodyBytes:
		o.Middlewares = huma.Middlewares{s.awaitLargeBody}
	case o.Method == http.MethodGet && !isStream(o):
		o.Middlewares = huma.Middlewares{s.awaitCondition}
	}
	o.Middlewares = append(huma.Middlewares{s.authorize(need)}, o.Middlewares...)
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
			return nil, s.CallerError(o.OperationID, err)
		}
		return out, nil
	})
}

// awaitLargeBody is middleware that waits until the server may read a large body of a user. So the bodies of one user
// take little memory.
func (r *Routes) awaitLargeBody(ctx huma.Context, next func(huma.Context)) {
	c := access.CallerOf(ctx.Context())
	waiting, cancel := context.WithTimeout(ctx.Context(), BodyTimeout)
	defer cancel()
	leave, err := r.largeBodies.Wait(waiting, c.Owner())
	if err != nil {
		r.CountRefusal("large_bodies")
		request, w := humago.Unwrap(ctx)
		RefuseUnread(w, request, RequestLimitError())
		return
	}
	defer leave()
	next(ctx)
}

// awaitCondition is middleware that lets a user's conditions (where) take at most the time of maxConditions processors.
func (r *Routes) awaitCondition(ctx huma.Context, next func(huma.Context)) {
	if ctx.Query("where") != "" {
		c := access.CallerOf(ctx.Context())
		leave, err := r.conditions.Wait(ctx.Context(), c.Owner())
		if err != nil {
			return // the client has left
		}
		defer leave()
	}
	next(ctx)
}

// HandleRaw registers an API operation that reads the request body itself. The operation names the permission that its
// callers need. The OpenAPI document describes the operation like those of Handle.
func HandleRaw[R any](s OperationSet[R], o huma.Operation, need access.Need, fn func(R, http.ResponseWriter, *http.Request) error) {
	s.declarePermission(o.OperationID, need)
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

// declarePermission stores the permission that an operation needs, and panics if the operation declares none
func (r *Routes) declarePermission(operation string, need access.Need) {
	if !need.Declared() {
		panic("BUG: operation " + operation + " declares no access")
	}
	r.needs[operation] = need
}

// authorize returns middleware that refuses a request, before its body is read, if the caller lacks the permission
func (r *Routes) authorize(need access.Need) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if err := checkAccess(ctx, need); err != nil {
			r.CountRefusal("role")
			WriteHumaError(ctx, TokenRefusalError(err))
			return
		}
		next(ctx)
	}
}

// checkAccess returns an error unless the caller has the needed permission in the namespace of the request
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

// Get returns the description of a GET operation for the OpenAPI document. classes are the classes of errors that the
// operation may answer with, besides those that follow from its form (see errorClasses).
func Get(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return newOperation(http.MethodGet, id, path, tag, summary, classes)
}

// Post returns the description of a POST operation for the OpenAPI document
func Post(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return newOperation(http.MethodPost, id, path, tag, summary, classes)
}

// Put returns the description of a PUT operation for the OpenAPI document
func Put(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return newOperation(http.MethodPut, id, path, tag, summary, classes)
}

// Delete returns the description of a DELETE operation for the OpenAPI document
func Delete(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return newOperation(http.MethodDelete, id, path, tag, summary, classes)
}

// newOperation describes an operation with its method, path, tag and possible errors.
func newOperation(method, id, path, tag, summary string, classes []model.Class) huma.Operation {
	o := huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tag}, Summary: summary}
	for _, class := range classes {
		o.Errors = append(o.Errors, class.HTTP())
	}
	return o
}

// AddChangeErrors adds the errors that a change of resources can return to an operation's description. A conflict is
// such an error.
func AddChangeErrors(o huma.Operation) huma.Operation {
	for _, class := range []model.Class{model.Conflict, model.Limited, model.Guarded} {
		o.Errors = append(o.Errors, class.HTTP())
	}
	return o
}

// Body is the answer of an API operation with a JSON body and no special headers.
type Body[T any] struct{ Body T }

// Answer returns an API answer whose body is the value as JSON
func Answer[T any](body T) *Body[T] { return &Body[T]{body} }

// NoParameters is the input of an operation without parameters, or the output of one without body.
type NoParameters struct{}

// NamedPath has the path parameters namespace and name. (Types that inputs embed are exported, because huma reads
// exported fields only.)
type NamedPath struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Name      string `path:"name" maxLength:"253"`
}

// IDPath has the path parameter id.
type IDPath struct {
	ID string `path:"id" maxLength:"253"`
}

// RequestLimiter limits expensive requests of the API. Two are processed at a time, some wait, and all others are
// refused. One user has a share of the places.
type RequestLimiter struct {
	routes  *Routes
	running chan struct{}
	bodies  *Quota[string] // requests that send their body or are processed, by user
	slots   *queue.Slots   // requests that wait or are processed
	shares  *Quota[string] // the same, by user
	reason  string         // reason of refusals, in the metrics
	refusal *model.Error
}

const (
	// share is the part of all places that one user can take: 1/share.
	share = 4
	// maxBodies is the most requests of one kind that send their body or are processed; a quarter is for one user.
	maxBodies = 8
)

// NewRequestLimiter returns a limiter of expensive requests, with the configured capacity of a named server
// queue. reason and refusal are for requests that it refuses.
func NewRequestLimiter(r *Routes, queueName, reason string, refusal *model.Error) *RequestLimiter {
	return &RequestLimiter{r, make(chan struct{}, 2), NewQuota[string](maxBodies/share, maxBodies), queue.NewSlots(r.Queues, queueName), NewUserQuota(r.Queues, queueName), reason, refusal}
}

// NewUserQuota returns a Quota that limits each user to a quarter of the capacity of a queue.
func NewUserQuota(queues *queue.Registry, queueName string) *Quota[string] {
	capacity, _ := queues.Bounds(queueName)
	return NewQuota[string](max(1, int(capacity)/share), 0)
}

// Enter waits until an expensive request may run, or returns the reason for its refusal. The caller must call
// leave at the end of the request. Enter refuses the request if the queue is full or ctx ends.
func (t *RequestLimiter) Enter(ctx context.Context) (leave func(), refusal *model.Error) {
	leaveBody, refusal := t.AwaitBody(ctx)
	if refusal != nil {
		return nil, refusal
	}
	ended, refusal := t.AwaitRun(ctx)
	if refusal != nil {
		leaveBody()
		return nil, refusal
	}
	return func() { ended(); leaveBody() }, nil
}

// AwaitBody waits until the server may read the request's body. The caller must call leave at the end of the request.
// The request takes no turn yet, so that a slow body delays nobody.
func (t *RequestLimiter) AwaitBody(ctx context.Context) (leave func(), refusal *model.Error) {
	c := access.CallerOf(ctx)
	user := c.Owner()
	leaveShare, ok := t.shares.Enter(user)
	if !ok {
		return nil, t.refuse()
	}
	if t.slots.Enter(ctx) != nil {
		leaveShare()
		return nil, t.refuse()
	}
	leaveBody, err := t.bodies.Wait(ctx, user)
	if err != nil {
		t.slots.Leave()
		leaveShare()
		return nil, t.refuse()
	}
	return func() { leaveBody(); t.slots.Leave(); leaveShare() }, nil
}

// AwaitRun waits until a request with a complete body may run. The caller must call ended at its end.
func (t *RequestLimiter) AwaitRun(ctx context.Context) (ended func(), refusal *model.Error) {
	select {
	case t.running <- struct{}{}:
		return func() { <-t.running }, nil
	case <-ctx.Done():
		return nil, t.refuse()
	}
}

// refuse counts a refused request in the metrics and returns the error for its caller.
func (t *RequestLimiter) refuse() *model.Error {
	t.routes.CountRefusal(t.reason)
	return t.refusal
}

// Quota limits the number of concurrent requests per key, such as per user. The zero key, of requests without a user,
// has no bound of its own. It is safe for concurrent use.
type Quota[K comparable] struct {
	limit    int // of one key
	total    int // of all keys; 0: none
	mu       sync.Mutex
	all      int
	requests map[K]int     // running requests by key; a key without requests is absent
	ended    chan struct{} // closed when a request leaves; nil: no caller waits
}

// NewQuota returns a Quota with a limit of concurrent requests per key and overall. With total 0, there is no overall
// limit.
func NewQuota[K comparable](limit, total int) *Quota[K] {
	return &Quota[K]{limit: limit, total: total, requests: map[K]int{}}
}

// Enter counts a request of a key, such as a user, as running until the caller calls leave. If the key has
// reached its limit, ok is false.
func (q *Quota[K]) Enter(key K) (leave func(), ok bool) {
	leave, _ = q.enter(key)
	return leave, leave != nil
}

// Wait waits until a key, such as a user, may run another request, and counts the request. While the key has too many
// requests, it blocks. It returns the error of ctx.
func (q *Quota[K]) Wait(ctx context.Context, key K) (leave func(), err error) {
	for {
		leave, left := q.enter(key)
		if leave != nil {
			return leave, nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enter counts a running request of a key, such as a user, if the limits permit another. Else it returns a
// channel that is closed when another request ends.
func (q *Quota[K]) enter(key K) (leave func(), left <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if none := *new(K); key != none && q.requests[key] >= q.limit || q.total > 0 && q.all >= q.total {
		if q.ended == nil {
			q.ended = make(chan struct{})
		}
		return nil, q.ended
	}
	q.requests[key]++
	q.all++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.all--
		if q.requests[key]--; q.requests[key] == 0 {
			delete(q.requests, key)
		}
		if q.ended != nil {
			close(q.ended)
			q.ended = nil
		}
	}, nil
}

// ServeInSlot serves a request if one of the slots is free, else answers with an error.
func ServeInSlot(slots *queue.Slots, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if err := slots.Enter(r.Context()); err != nil {
		if errors.Is(err, queue.ErrFull) {
			RefuseUnread(w, r, RequestLimitError())
		}
		return
	}
	defer slots.Leave()
	next.ServeHTTP(w, r)
}

// RefuseUnread answers a request with an error before its body has arrived. The connection ends, else the answer
// would wait for the body.
func RefuseUnread(w http.ResponseWriter, r *http.Request, err *model.Error) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	WriteError(w, err)
}

// RequestShareError returns the error for a request above the user's limit of concurrent requests.
func RequestShareError() *model.Error {
	return model.Errorf(model.Unavailable, "your user has reached the limit of concurrent requests").
		WithHint("try again; requests by tokens that you created count too. See the queue requests: muster get queues; raise its capacity: --queues")
}

// RequestLimitError returns the error for a request above the limit of concurrent requests.
func RequestLimitError() *model.Error {
	return model.Errorf(model.Unavailable, "the server has reached its limit of concurrent requests").
		WithHint("try again; see the queue requests: muster get queues; raise its capacity: --queues")
}

// Metrics has the metrics of all operations. Sub-packages of api register further ones.
type Metrics struct {
	Requests *prometheus.CounterVec
	Seconds  *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	registry prometheus.Registerer // nil: none
}

// newMetrics registers the metrics of all operations.
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

// Register registers the metrics of a sub-package of the API.
func (m *Metrics) Register(c ...prometheus.Collector) {
	if m.registry != nil {
		m.registry.MustRegister(c...)
	}
}

// CountRefusal counts a refused request in the metrics, by reason.
func (r *Routes) CountRefusal(reason string) { r.Metrics.refused.WithLabelValues(reason).Inc() }

// RecordAction writes a person's action to the audit log before the action is done. If RecordAction returns an error,
// the caller must not act.
func (q Request) RecordAction(ctx context.Context, action string) error {
	if err := q.Intent.RecordRun(ctx, access.AuthorOf(ctx, action)); err != nil {
		return q.auditFailedError(action, err)
	}
	q.logAction(ctx, action)
	return nil
}

// BeginAction writes the start of a longer action to the audit log. Its caller calls the returned function ended to
// add the result.
func (q Request) BeginAction(ctx context.Context, action, picked, note string) (ended func(outcome string), err error) {
	end, err := q.Intent.BeginRun(ctx, access.AuthorOf(ctx, action), picked, note)
	if err != nil {
		return nil, q.auditFailedError(action, err)
	}
	q.logAction(ctx, action+": "+picked+note)
	return func(outcome string) {
		if err := end(outcome); err != nil {
			q.Logger.Error("cannot record the outcome of an action; the next start records the outcome as unknown", "action", action, "outcome", outcome, "err", err)
		}
	}, nil
}

// auditFailedError logs that the audit log cannot be written, and returns the error for the caller. The action
// is refused.
func (q Request) auditFailedError(action string, err error) error {
	q.Logger.Error("refused an action, because the server cannot record the action", "action", action, "err", err)
	return model.Errorf(model.Unavailable, "%s failed: the server cannot write the audit record now", action).WithHint("see the reason in the server's log; try again")
}

// logAction logs an action that a person has requested, with user and address
func (q Request) logAction(ctx context.Context, action string) {
	c := access.CallerOf(ctx)
	q.Logger.Info("action by hand", "user", c.User, "from", c.Address, "action", action)
}

// NewRightsCheck returns a function that reports whether the token of a long-running request still has the same
// rights. It reports whether they still are as at the start.
func (r *Routes) NewRightsCheck(request *http.Request) func() bool {
	token := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	c := access.CallerOf(request.Context())
	return func() bool {
		s, err := r.Access.Authenticate(token)
		return err == nil && s.Equal(&c.Grants)
	}
}
