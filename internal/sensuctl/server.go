package sensuctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Options has the settings of a Server for sensuctl.
type Options struct {
	API        http.Handler // Muster's API; it also answers every path that is not Sensu's
	Registerer prometheus.Registerer
	Log        *slog.Logger
	Now        func() time.Time

	MaxAffected int // largest number of nodes that a change may affect; 0: no limit, as in Sensu
}

// Server answers the requests of sensuctl. It passes all other requests to Muster's API.
type Server struct {
	api      http.Handler
	kinds    *kind.Registry
	log      *slog.Logger
	now      func() time.Time
	requests *prometheus.CounterVec

	maxAffected int
}

// New returns an HTTP handler that serves Sensu's API, and passes all other requests to Muster's API.
func New(o Options) *Server {
	s := &Server{api: o.API, kinds: kind.All(), log: o.Log, now: o.Now, maxAffected: o.MaxAffected, requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_sensuctl_requests_total", Help: "Requests of sensuctl, by class (login, read, write, elsewhere) and status.",
	}, []string{"class", "status"})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.requests)
	}
	return s
}

const (
	maxBody        = 1 << 20 // bytes of a request's body; a longer one is refused
	bodyTimeout    = 30 * time.Second
	requestTimeout = 2 * time.Minute // duration of one request with all of its calls to the API
)

// answer is the successful response to a request of sensuctl.
type answer struct {
	status int // 0: 200 to GET, 201 to PUT and POST, 204 to DELETE
	body   any
	next   string // the token of the next page
}

// operation is a function that answers all requests with one HTTP method and one path pattern.
type operation func() (answer, error)

// request is a request of sensuctl from an authenticated user, with the parsed path and cached resources. It
// has the parsed path and cached resources. A resource that several forms need is read once.
type request struct {
	*http.Request
	sensuPath
	server       *Server
	muster       *client.Client
	user         string
	declaredOnly bool // entities have declared labels and subscriptions only
	resources    map[v1.Ref]*model.Resource
	nodeStates   map[v1.Ref]*v1.NodeState // nil: not read yet
}

// ServeHTTP answers the paths of Sensu's API. All other paths go to Muster's API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !IsSensuPath(r.URL.EscapedPath()) {
		s.api.ServeHTTP(w, r)
		return
	}
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	class, out, err := s.answer(r)
	if err != nil {
		e := s.sensuErrorOf(err)
		out = answer{status: e.status, body: e}
		if class == "login" { // sensuctl prints the body of these as it is
			out.body = e.Message
		}
	}
	s.requests.WithLabelValues(class, strconv.Itoa(out.status)).Inc()
	writeAnswer(w, out)
}

// answer authenticates the sender of a request of sensuctl, and answers the request. Authentication comes before reading the
// body.
func (s *Server) answer(r *http.Request) (class string, out answer, err error) {
	switch path := r.URL.Path; {
	case path == "/version":
		return "read", answer{status: http.StatusOK, body: object{"sensu_backend": "muster"}}, nil
	case path == "/health": // one member without etcd: it is healthy, since it answers
		return "read", answer{status: http.StatusOK, body: object{
			"Alarms": nil, "ClusterHealth": []object{{"MemberID": 1, "MemberIDHex": "1", "Name": "muster", "Err": "", "Healthy": true}}, "Header": object{"cluster_id": 1, "member_id": 1},
		}}, nil
	case path == "/auth" || strings.HasPrefix(path, "/auth/"):
		out, err = s.answerLogin(r)
		return "login", out, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	in := &request{Request: r.WithContext(ctx), server: s, muster: client.InProcess(s.api, r.RemoteAddr, tokenOf(r)),
		resources: map[v1.Ref]*model.Resource{}}
	me, err := in.muster.Access.WhoAmI(ctx)
	if err != nil {
		return "login", out, err
	}
	in.user = me.User
	in.sensuPath, _ = parsePath(r.URL.EscapedPath())
	do := in.operation(r.Method)
	if do == nil {
		return "elsewhere", out, unsupportedRequestError(in)
	}
	out, err = do()
	class, status := "write", http.StatusCreated
	switch r.Method {
	case http.MethodGet:
		class, status = "read", http.StatusOK
	case http.MethodDelete:
		status = http.StatusNoContent
	}
	out.status = cmp.Or(out.status, status)
	return class, out, err
}

// tokenOf returns the Muster token that a request of sensuctl carries. Sensuctl sends the token as a session token or
// an API key.
func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme == "Bearer" || scheme == "Key" {
		return sessionSecret(strings.TrimSpace(token))
	}
	return ""
}

// IsSensuPath reports whether an HTTP path belongs to Sensu's API.
func IsSensuPath(path string) bool {
	switch path {
	case "/auth", "/version", "/health":
		return true
	}
	_, ok := parsePath(path)
	return ok || strings.HasPrefix(path, "/auth/")
}

// sensuPath has the parts of the path in a request to Sensu's API, such as type and names. Its form is
// /api/GROUP/VERSION/[namespaces/NAMESPACE/]TYPE[/NAME…].
type sensuPath struct {
	group     string // core/v2
	namespace string // Muster's name of the namespace; empty: all namespaces
	kind      string // checks
	names     []string
}

const maxPathParts = 16

// parsePath splits the path of a Sensu API request into its parts. Muster's own paths (/api/v1) are not ok.
func parsePath(path string) (p sensuPath, ok bool) {
	rest, ok := strings.CutPrefix(path, "/api/")
	if !ok {
		return p, false
	}
	parts := strings.SplitN(rest, "/", maxPathParts)
	for i, part := range parts {
		var err error
		if parts[i], err = url.PathUnescape(part); err != nil {
			return p, false
		}
	}
	if parts[0] == "v1" || len(parts) < 3 || len(parts) == maxPathParts {
		return p, false
	}
	if p.group, parts = parts[0]+"/"+parts[1], parts[2:]; len(parts) > 1 && strings.HasPrefix(p.group, "enterprise/") {
		p.group, parts = p.group+"/"+parts[0], parts[1:] // /api/enterprise/licensing/v2/license
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		p.namespace, parts = model.CleanName(parts[1]), parts[2:]
		if p.namespace == "" {
			return p, false
		}
	}
	p.kind, p.names = parts[0], parts[1:]
	for len(p.names) > 0 && p.names[len(p.names)-1] == "" { // /users/
		p.names = p.names[:len(p.names)-1]
	}
	return p, p.kind != ""
}

// name returns the i-th name in the path, with characters that Muster forbids replaced. If the path is shorter, it
// returns an empty text.
func (p *sensuPath) name(i int) string {
	if i >= len(p.names) {
		return ""
	}
	return model.CleanName(p.names[i])
}

// sensuError is an error in the JSON format of Sensu's API.
type sensuError struct {
	status  int
	Message string `json:"message"`
	Code    int    `json:"code"`
}

// Error returns the message of the error.
func (e *sensuError) Error() string { return e.Message }

// Codes of Sensu's errors. sensuctl dump skips a type whose answer has codeNotFound, whatever the status.
const (
	codeInvalid         = 1
	codeNotFound        = 2
	codeExists          = 3
	codeDenied          = 4
	codeUnauthenticated = 5
)

var codes = map[model.Class]int{
	model.Invalid: codeInvalid, model.TooLarge: codeInvalid, model.Guarded: codeInvalid, model.Limited: codeInvalid,
	model.NotFound: codeNotFound, model.Conflict: codeExists, model.Forbidden: codeDenied, model.Unauthenticated: codeUnauthenticated,
}

// sensuErrorOf converts an error of Muster's API to Sensu's JSON format. The message is one line, with the hint. An
// internal error is logged, and its text stays on the server.
func (s *Server) sensuErrorOf(err error) *sensuError {
	if e := (*sensuError)(nil); errors.As(err, &e) {
		return e
	}
	var e *model.Error
	if !errors.As(err, &e) || e.Class == model.Internal {
		s.log.Error("request of sensuctl failed", "err", err)
		return &sensuError{http.StatusInternalServerError, "internal error: see the server's log", 0}
	}
	hint := e.Hint
	if e.Class == model.Unauthenticated {
		hint = "sensuctl configure"
	}
	message := strings.Join(strings.Fields(e.Message), " ")
	if hint != "" {
		message += " (" + strings.Join(strings.Fields(hint), " ") + ")"
	}
	return &sensuError{e.Class.HTTP(), message, codes[e.Class]}
}

// writeAnswer writes the answer to a request of sensuctl as JSON. A text stays unchanged, and another value
// becomes JSON.
func writeAnswer(w http.ResponseWriter, a answer) {
	if a.next != "" {
		w.Header().Set("Sensu-Continue", a.next)
	}
	text, plain := a.body.(string)
	w.Header().Set("Content-Type", "application/json")
	if plain {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(a.status)
	switch {
	case plain:
		_, _ = io.WriteString(w, text+"\n")
	case a.body != nil:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(a.body)
	}
}

// typeOperations holds the functions to list, read, create, replace and delete objects of one Sensu type. A nil
// function means that only a Muster command can do the operation.
type typeOperations struct{ list, get, create, replace, remove operation }

// operation finds the function that answers sensuctl's request, by its method and path. It returns nil if
// Muster does not support the request from sensuctl.
func (r *request) operation(method string) operation {
	depth, t := len(r.names), sensuTypes[r.kind]
	collection, one := depth == 0, depth == 1
	anyNamespace := r.namespace == "" && r.kind != "namespaces" && t.objects == nil
	ops := typeOperations{list: r.listResources, get: r.getResource, create: r.putResource, replace: r.putResource}
	switch {
	case r.group != t.group, anyNamespace && (method != http.MethodGet || depth > 0):
		return nil
	case t.objects != nil:
		ops = typeOperations{list: r.listCollection, get: r.getFromCollection, replace: r.putInCollection}
	case r.kind == "events": // events, events/ENTITY or events/ENTITY/CHECK
		collection, one = depth < 2, depth == 2
		ops = typeOperations{list: r.listEvents, get: r.getEvent, replace: r.putEvent, remove: r.deleteEvent}
	case t.kind == "":
		return nil
	case isHookChange(method, r):
		return r.changeHooks
	case r.kind == "silenced":
		collection = collection || depth == 2 && (r.names[0] == "subscriptions" || r.names[0] == "checks")
		ops = typeOperations{r.listSilences, r.getSilence, r.putSilence, r.putSilence, r.deleteSilence}
	case r.kind == "entity-states":
		ops.create, ops.replace = nil, r.ignoreEntityState
	case t.group == core3:
		ops.create = nil
	case t.deletable:
		ops.remove = r.deleteResource
	}
	switch {
	case method == http.MethodGet && collection:
		return ops.list
	case method == http.MethodGet && one:
		return ops.get
	case method == http.MethodPost && depth == 0:
		return ops.create
	case method == http.MethodPut && one:
		return ops.replace
	case method == http.MethodDelete && one:
		return ops.remove
	}
	return nil
}
