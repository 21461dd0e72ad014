package op

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// Options are the surroundings of Routes. A nil Registry registers no metrics, a nil Logger logs nothing.
type Options struct {
	View     *view.View // of everything
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

	everything *view.View
	needs      map[string]access.Need // by operation id; not written after the last registration
}

// NewRoutes returns Routes without operations.
func NewRoutes(o Options) *Routes {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	return &Routes{
		Access: o.Access, Queues: o.Queues, Logger: o.Logger, Mux: mux, Huma: humago.New(mux, config()), Metrics: newMetrics(o.Registry),
		everything: o.View, needs: map[string]access.Need{},
	}
}

// View is everything, for requests that other systems make and that no operation answers.
func (r *Routes) View() *view.View { return r.everything }

// Needs returns the declared access of each operation, by operation id.
func (r *Routes) Needs() map[string]access.Need { return r.needs }

// Request is one request: the View of its caller, and Routes to count, log and record. The request
// type of every subject embeds it.
type Request struct {
	*view.View
	*Routes
}

// Subject is a set of operations whose methods belong to one request type R.
type Subject[R any] struct {
	*Routes
	make func(Request) R
}

// For returns a subject. make returns the R of one request.
func For[R any](r *Routes, make func(Request) R) Subject[R] { return Subject[R]{r, make} }

// maxBody bounds the body of a request, in bytes, unless its operation says otherwise. The bounds
// are huma's: a wrapped body would hide from net/http that unread bytes are left on the connection.
const maxBody = 1 << 20

// BodyTimeout is how long the body of a request may take to arrive.
const BodyTimeout = 30 * time.Second

// Timeouts of operations: a database that hangs must not hold requests for ever.
const (
	ReadTimeout   = 30 * time.Second
	changeTimeout = 100 * time.Second
)

// Handle registers one operation with the access that it needs. fn is a method of the subject's
// request type; it gets the view of its caller, and its errors get their form here.
func Handle[R, I, O any](s Subject[R], o huma.Operation, need access.Need, fn func(R, context.Context, *I) (*O, error)) {
	s.declare(o.OperationID, need)
	o.Middlewares = append(huma.Middlewares{s.authorize(need)}, o.Middlewares...)
	if o.MaxBodyBytes == 0 {
		o.MaxBodyBytes = maxBody
	}
	o.BodyReadTimeout = BodyTimeout
	timeout := changeTimeout
	if o.Method == http.MethodGet {
		timeout = ReadTimeout
	}
	huma.Register(s.Huma, o, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		out, err := fn(s.make(Request{s.everything.For(ctx, need), s.Routes}), ctx, in)
		if err != nil {
			return nil, s.ErrorOf(o.OperationID, err)
		}
		return out, nil
	})
}

// HandleRaw registers an operation that reads its body itself. The OpenAPI document describes it
// like the others.
func HandleRaw[R any](s Subject[R], o huma.Operation, need access.Need, fn func(R, http.ResponseWriter, *http.Request) error) {
	s.declare(o.OperationID, need)
	s.Huma.OpenAPI().AddOperation(&o)
	s.Mux.HandleFunc(o.Method+" "+o.Path, func(w http.ResponseWriter, r *http.Request) {
		c := access.CallerOf(r.Context())
		if err := c.Allow(need); err != nil {
			s.CountRefusal("role")
			WriteError(w, Refusal(err))
			return
		}
		if err := fn(s.make(Request{s.everything.For(r.Context(), need), s.Routes}), w, r); err != nil {
			w.Header().Set("Connection", "close") // else the answer waits for the rest of the body
			s.Fail(w, o.OperationID, err)
		}
	})
}

// declare keeps the need of an operation. An operation without one does not start.
func (r *Routes) declare(operation string, need access.Need) {
	if !need.Declared() {
		panic("BUG: operation " + operation + " declares no access")
	}
	r.needs[operation] = need
}

// authorize refuses a request before its body is read, where the caller may not do this at all or
// not in the namespace that the path or the query names.
func (r *Routes) authorize(need access.Need) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if err := allow(ctx, need); err != nil {
			r.CountRefusal("role")
			WriteHuma(ctx, Refusal(err))
			return
		}
		next(ctx)
	}
}

func allow(ctx huma.Context, need access.Need) error {
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

// Get describes an operation that reads. classes are the errors that it may answer with besides
// those that follow from its form (see failures).
func Get(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return operation(http.MethodGet, id, path, tag, summary, classes)
}

// Post describes an operation that does something else than store its body.
func Post(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return operation(http.MethodPost, id, path, tag, summary, classes)
}

// Put describes an operation that stores its body.
func Put(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return operation(http.MethodPut, id, path, tag, summary, classes)
}

// Delete describes an operation that removes.
func Delete(id, path, tag, summary string, classes ...model.Class) huma.Operation {
	return operation(http.MethodDelete, id, path, tag, summary, classes)
}

func operation(method, id, path, tag, summary string, classes []model.Class) huma.Operation {
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

// Body is an answer that has a body and no headers of its own.
type Body[T any] struct{ Body T }

// Answer returns an answer with this body.
func Answer[T any](body T) *Body[T] { return &Body[T]{body} }

// Empty is a request or an answer without parameters and body.
type Empty struct{}

// NamedPath is the path of one thing in a namespace. (Types that inputs embed are exported, because
// huma reads exported fields only.)
type NamedPath struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Name      string `path:"name" maxLength:"253"`
}

// IDPath is the path of one thing that is known by an id.
type IDPath struct {
	ID string `path:"id" maxLength:"253"`
}
