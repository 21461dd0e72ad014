package sensuctl

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
)

// Options holds the dependencies of a Server.
type Options struct {
	API        http.Handler // Muster's API; it also answers every path that is not Sensu's
	Registerer prometheus.Registerer
	Log        *slog.Logger
	Now        func() time.Time
}

// Server is an http.Handler that answers sensuctl and passes all other requests to the API.
type Server struct {
	api      http.Handler
	kinds    *kind.Registry
	log      *slog.Logger
	now      func() time.Time
	requests *prometheus.CounterVec
}

// New returns a Server for the listener of people.
func New(o Options) *Server {
	s := &Server{api: o.API, kinds: kind.All(), log: o.Log, now: o.Now, requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_sensuctl_requests_total", Help: "Requests of sensuctl by class (login, read, write, elsewhere) and status.",
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
	maxBody     = 1 << 20 // bytes of a request's body; a longer one is refused
	bodyTimeout = 30 * time.Second
	callTimeout = 2 * time.Minute // of one request, all of its calls to the API together
)

// answer is the response to a request that did not fail.
type answer struct {
	status int
	body   any
	next   string // the token of the next page
}

// operation answers requests of one method and path.
type operation func(context.Context, *request) (answer, error)

// request is a request of a user whom the API knows.
type request struct {
	*http.Request
	place
	muster *client.Client
	user   string
	kinds  *kind.Registry
}

// ServeHTTP answers the paths of Sensu's API and passes all others to Muster's.
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
		e := s.errorOf(err)
		out = answer{status: e.status, body: e}
		if class == "login" { // sensuctl prints the body of these as it is
			out.body = e.Message
		}
	}
	s.requests.WithLabelValues(class, strconv.Itoa(out.status)).Inc()
	writeAnswer(w, out)
}

// answer authenticates the request before it reads anything of the body.
func (s *Server) answer(r *http.Request) (class string, out answer, err error) {
	switch path := r.URL.Path; {
	case path == "/version":
		return "read", answer{http.StatusOK, object{"sensu_backend": "muster"}, ""}, nil
	case path == "/auth" || strings.HasPrefix(path, "/auth/"):
		out, err = s.login(r)
		return "login", out, err
	}
	in := &request{Request: r, kinds: s.kinds, muster: client.InProcess(s.api, r.RemoteAddr, tokenOf(r))}
	me, err := in.muster.Access.WhoAmI(r.Context())
	if err != nil {
		return "login", out, err
	}
	in.user = me.User
	if in.place, _ = parsePath(r.URL.EscapedPath()); r.URL.Path == "/health" {
		in.kind = "health"
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	do := s.operation(r.Method, in)
	if do == nil {
		return "elsewhere", out, noOperation(in)
	}
	class = "write"
	if r.Method == http.MethodGet {
		class = "read"
	}
	out, err = do(ctx, in)
	return class, out, err
}

// tokenOf returns the token of a session or of an API key; both are tokens of Muster.
func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme == "Bearer" || scheme == "Key" {
		return strings.TrimSpace(token)
	}
	return ""
}
