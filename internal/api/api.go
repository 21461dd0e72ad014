package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/tries"
	"github.com/muster-fleet/muster/internal/wire"
)

// Intent is the part of the intent service that the API calls.
type Intent interface {
	Apply(ctx context.Context, by intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error)
	Delete(ctx context.Context, by intent.Actor, keys []intent.Key, o intent.ApplyOptions) (intent.ApplyResult, error)
	Rename(ctx context.Context, by intent.Actor, namespace, name, to string, o intent.ApplyOptions) (intent.ApplyResult, error)
	Retire(ctx context.Context, by intent.Actor, keys []intent.Key, o intent.ApplyOptions) (intent.ApplyResult, error)
	ListTombstones() []intent.TombstoneEntry
	LiftTombstone(ctx context.Context, by intent.Actor, id string) error
	EphemeralNodes() []intent.NodeInfo
	Get(ctx context.Context, key intent.Key) (*model.Resource, error)
	List(ctx context.Context, q intent.ListQuery, match func(*model.Resource) bool) ([]model.Resource, error)
	Page(ctx context.Context, q intent.ListQuery, match func(*model.Resource) bool) ([]model.Resource, bool, error)
	Audit(ctx context.Context, q intent.ChangeQuery, redact bool) ([]intent.AuditEntry, error)
	RecordRun(ctx context.Context, by intent.Actor) error
	BeginRun(ctx context.Context, by intent.Actor, picked, note string) (ended func(came string) error, err error)
	TombstoneByName(namespace, name string) (intent.Tombstone, bool)
	Accept(ctx context.Context, by intent.Actor, key string, token pki.JoinToken, request pki.EnrolRequest, named bool) (pki.Member, error)
	HasMachine(namespace, name string) bool
	CheckJoinGrant(context.Context, pki.JoinToken) error
	BlockKey(ctx context.Context, by intent.Actor, key string, t intent.Tombstone) error
}

// Rows is the stored form of resources, with the record of changes (intent.Store).
type Rows interface {
	List(ctx context.Context, q intent.ListQuery) ([]intent.Row, error)
	ChangesBefore(ctx context.Context, q intent.ChangeQuery) ([]intent.Change, error)
	Revision(ctx context.Context) (int64, error)
}

// History is the part of the history store that the API calls.
type History interface {
	Problems(ctx context.Context, q history.ProblemQuery) ([]history.Problem, error)
	Problem(ctx context.Context, id string) (history.Problem, error)
	CountProblems(ctx context.Context, namespace string, t time.Time) (opened, closed int, err error)
	Entries(ctx context.Context, q history.EntryQuery) ([]history.Entry, error)
	Deliveries(ctx context.Context, problem string) ([]history.Delivery, error)
	AlsoProblems(ctx context.Context, key string) ([]string, error)
	EscalationsOf(ctx context.Context, problem string) ([]history.Escalation, error)
	Messages(ctx context.Context, q history.MessageQuery) ([]history.Message, error)
	Marks(ctx context.Context, q history.EntryQuery) ([]history.Entry, error)
	Oldest(ctx context.Context) (time.Time, error)
	Unsent(ctx context.Context) ([]history.Unsent, error)
	DeadLetters(ctx context.Context, handler history.HandlerRef, before int64, limit int) ([]history.Delivery, error)
}

// Actions writes an operator's action on an event into the journal; it returns once
// that is durable and in the view.
type Actions interface {
	Act(ctx context.Context, node model.NodeID, action wire.Action) error
}

// Options are the surroundings of the API.
type Options struct {
	Kinds     *kind.Registry // nil: all of Muster's
	Access    *access.Service
	Intent    Intent
	Rows      Rows
	Events    event.Reader
	Directory Directory
	History   History
	Actions   Actions
	Handlers  Handlers
	Routing   Routing
	Archives  Archives // of Assets; nil: none
	// Chunk finds the definition of a check that something ran under; nil: it is forgotten.
	Chunk func(model.ChunkID) *model.CheckChunk
	// JoinTokens keeps join tokens; NewJoinToken makes one (pki.Authority.NewToken with
	// the server's addresses).
	JoinTokens   intent.JoinTokens
	NewJoinToken func(keep pki.JoinToken) (pki.Token, pki.JoinToken, error)
	Waiting      *Pending            // machines that wait to be let in; nil: nobody may
	CA           func() v1.Authority // nil: none
	Queues       *queue.Registry
	Retention    time.Duration // of history; zero: nobody says
	Incarnation  uint64        // of the journal: page tokens and ETags of another one are refused
	// Describe fills in the state of the server itself: Server, Started,
	// Connected, Journal, Reactions and Warnings.
	Describe func() v1.Status
	// Limits are those in force in a namespace, with their use; nil: nobody knows.
	Limits func(namespace string) []v1.LimitUse
	// NotReady says why the server is not ready; none: it is.
	NotReady func() []string
	// Verdicts are the last ones of pipelines kept from Sensu about an event; nil: unknown.
	Verdicts func(model.NodeID, model.CheckID) (react.Verdicts, bool)
	// Connected says whether a node has a session now; nil: nobody knows.
	Connected func(model.NodeID) bool
	// Agent is what the session of a node knows of its agent; not ok: it has none. nil:
	// nobody knows.
	Agent func(model.NodeID) (v1.AgentSession, bool)
	// NewRuns is for one request that runs something on nodes, and Assigned the definition of
	// a check that a node holds; nil: it does not.
	NewRuns  func() Runs
	Assigned func(model.NodeID, model.CheckID) *model.CheckChunk
	// Stream is how far a handler is that is told of every result; not ok: it is none. nil: there are
	// none.
	Stream func(route.Name) (v1.HandlerStream, bool)
	// Pending is how many machines wait to be accepted; nil: nobody knows.
	Pending func() int
	// Vouch hears of each request whose token is good: its connection is no stranger's.
	// nil: nobody listens.
	Vouch func(context.Context)
	// Enrol answers pki.EnrolPath; it has its own proof of identity. nil: none.
	Enrol *pki.Enroller
	Renew *pki.Renewer // answers pki.RenewPath, where Enrol is
	// Secret reads one of a handler, with which services call back; nil: they do not.
	Secret func(context.Context, model.Secret) (string, error)
	// Alerts takes in what is sent as to an Alertmanager, below /alertmanager/; it asks for its own
	// proof. nil: nobody does.
	Alerts   func(r *http.Request, whence string) error
	Registry prometheus.Registerer // nil: none
	Logger   *slog.Logger
	Now      func() time.Time
}

// server is the API with its state.
type server struct {
	Options
	scope    *scope // of one request; nil: everything
	api      huma.API
	mux      *http.ServeMux
	tries    *tries.Limiter // of passwords
	logins   *turns
	applies  *turns
	reports  *turns
	watches  *watchLimit
	runSlots *queue.Slots
	slots    *queue.Slots // of all other requests
	uploads  *queue.Slots
	metrics  *metrics
	needs    map[string]access.Need // by operation id; not written after newServer
}

// New makes the handler of a listener for people and agents.
func New(o Options) http.Handler {
	s := newServer(o)
	if o.Enrol != nil {
		s.mux.Handle(pki.EnrolPath, s.enrolment())
		s.mux.Handle(pki.RenewPath, s.renewal())
	}
	return s.people()
}

// NewSplit makes the handlers of two listeners: one for people, one on which machines
// enrol and nothing else is answered.
func NewSplit(o Options) (people, agents http.Handler) {
	s := newServer(o)
	mux := http.NewServeMux()
	mux.Handle(pki.EnrolPath, s.enrolment())
	mux.Handle(pki.RenewPath, s.renewal())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, model.Errorf(model.NotFound, "this address is for agents only").WithHint("people have another: --listen of the server"))
	})
	return s.people(), s.observed(mux, mux)
}

func (s *server) people() http.Handler { return s.observed(s.mux, s.authenticated(s.bounded(s.mux))) }

func newServer(o Options) *server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Kinds == nil {
		o.Kinds = kind.All()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Routing == nil {
		o.Routing = route.NewTable()
	}
	if o.Chunk == nil {
		o.Chunk = func(model.ChunkID) *model.CheckChunk { return nil }
	}
	s := &server{Options: o, needs: map[string]access.Need{}, mux: http.NewServeMux(), tries: tries.New(o.Now), watches: &watchLimit{}, runSlots: queue.NewSlots(o.Queues, "runs"), slots: queue.NewSlots(o.Queues, "requests"), uploads: queue.NewSlots(o.Queues, "uploads"),
		// A password takes 19 MiB and some 20 ms to check.
		logins: newTurns("logins", o.Queues), applies: newTurns("applies", o.Queues), reports: newTurns("reports", o.Queues), metrics: newMetrics(o.Registry)}
	s.api = humago.New(s.mux, config())
	s.serverRoutes()
	s.authRoutes()
	s.userRoutes()
	s.resourceRoutes()
	s.eventRoutes()
	s.bulkRoutes()
	s.problemRoutes()
	s.historyRoutes()
	s.reportRoutes()
	s.handlerRoutes()
	s.silenceRoutes()
	s.routeRoutes()
	s.joinTokenRoutes()
	s.pendingRoutes()
	s.lifeRoutes()
	s.stateRoutes()
	s.agentRoutes()
	s.whyRoutes()
	s.runRoutes()
	s.archiveRoutes()
	openapiRoutes(s.api, s.mux)
	s.healthRoutes()
	if o.Secret != nil {
		s.mux.Handle(callbackPath, s.external("callback", queue.NewSlots(o.Queues, "callbacks"), callbackWithin, s.callback))
	}
	if o.Alerts != nil {
		s.mux.Handle(alertsPath, s.external("alerts", queue.NewSlots(o.Queues, "alerts"), bodyWithin, o.Alerts))
	}
	s.mux.HandleFunc("/", s.unknownPath)
	return s
}

// maxBody bounds the body of an apply, in bytes; other bodies are bounded by 1 MiB.
// The bounds are huma's: to wrap the request's body would hide from net/http that
// what was left unread is still on the connection.
const maxBody = 32 << 20

// How long an answer may take: a database that hangs must not hold requests for ever.
const (
	readWithin   = 30 * time.Second
	changeWithin = 100 * time.Second
)

// handle registers one operation with the access that it needs. fn gets the server as the subject
// of the request may see it (see forSubject). Its errors take the one form they have.
func handle[I, O any](s *server, op huma.Operation, need access.Need, fn func(*server, context.Context, *I) (*O, error)) {
	s.declare(op.OperationID, need)
	op.Middlewares = append(huma.Middlewares{s.authorized(need)}, op.Middlewares...)
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = 1 << 20
	}
	op.BodyReadTimeout = bodyWithin
	within := changeWithin
	if op.Method == http.MethodGet {
		within = readWithin
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		out, err := fn(s.forSubject(ctx, need), ctx, in)
		if err != nil {
			return nil, s.errorOf(op.OperationID, err)
		}
		return out, nil
	})
}

// handleRaw registers an operation that reads its body by itself: it is described like the others.
func (s *server) handleRaw(op huma.Operation, need access.Need, fn http.HandlerFunc) {
	s.declare(op.OperationID, need)
	s.api.OpenAPI().AddOperation(&op)
	s.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		c := callerOf(r.Context())
		if err := c.Allow(need); err != nil {
			s.metrics.refused.WithLabelValues("role").Inc()
			writeError(w, refusal(err))
			return
		}
		fn(w, r)
	})
}

// declare notes the need of an operation.
func (s *server) declare(operation string, need access.Need) {
	if !need.Declared() {
		panic("BUG: operation " + operation + " declares no access")
	}
	s.needs[operation] = need
}

// operation names one operation.
func operation(id, method, path, tag, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tag}, Summary: summary}
}

// withErrors adds classes of errors to those that an operation has by its form (openapi.go).
func withErrors(op huma.Operation, classes ...model.Class) huma.Operation {
	for _, class := range classes {
		op.Errors = append(op.Errors, class.HTTP())
	}
	return op
}

// body is an answer with nothing but a body.
type body[T any] struct{ Body T }

type none struct{}
