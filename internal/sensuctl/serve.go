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
	"github.com/muster-fleet/muster/internal/model"
)

// Options are what the server needs.
type Options struct {
	API        http.Handler // the one for people; it answers everything that sensuctl does not ask
	Registerer prometheus.Registerer
	Log        *slog.Logger
	Now        func() time.Time
}

// Server answers sensuctl.
type Server struct {
	api      http.Handler
	log      *slog.Logger
	now      func() time.Time
	requests *prometheus.CounterVec
}

// New makes a handler for the listener of people.
func New(o Options) *Server {
	s := &Server{api: o.API, log: orDiscard(o.Log), now: o.Now, requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_sensuctl_requests_total", Help: "Requests of sensuctl by class (login, read, write, elsewhere) and status.",
	}, []string{"class", "status"})}
	if s.now == nil {
		s.now = time.Now
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.requests)
	}
	return s
}

const (
	// maxBody bounds the body of a request, in bytes; what follows is refused.
	maxBody = 1 << 20
	// bodyWithin is how long it may take.
	bodyWithin = 30 * time.Second
)

// ServeHTTP answers what sensuctl asks, and leaves the rest to the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !Takes(r.URL.EscapedPath()) {
		s.api.ServeHTTP(w, r)
		return
	}
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	class, out, err := s.answer(r)
	if err != nil {
		said := s.refused(err)
		out = answer{status: said.status, body: said}
		if class == "login" { // sensuctl shows these as they come
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(said.status)
			_, _ = w.Write([]byte(said.Message + "\n"))
			s.count(class, said.status)
			return
		}
	}
	if out.next != "" {
		w.Header().Set("Sensu-Continue", out.next)
	}
	s.count(class, out.status)
	write(w, out.status, out.body)
}

func (s *Server) count(class string, status int) {
	s.requests.WithLabelValues(class, strconv.Itoa(status)).Inc()
}

// request is one request of somebody whom the API knows.
type request struct {
	*http.Request
	place
	muster *client.Client
	user   string
}

// answer finds out who asks before anything is read of what is sent.
func (s *Server) answer(r *http.Request) (class string, out answer, err error) {
	switch path := r.URL.Path; {
	case path == "/version":
		return "read", answer{http.StatusOK, object{"sensu_backend": "muster"}, ""}, nil
	case path == "/auth" || strings.HasPrefix(path, "/auth/"):
		out, err = s.login(r)
		return "login", out, err
	}
	in := &request{Request: r, muster: client.Inside(s.api, r.RemoteAddr, tokenOf(r))}
	me, err := in.muster.Me(r.Context())
	if err != nil {
		return "login", out, err
	}
	in.user = me.User
	if in.place, _ = parsePath(r.URL.EscapedPath()); r.URL.Path == "/health" {
		in.kind = "health"
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	if do := s.operation(in); do != nil {
		class = "write"
		if r.Method == http.MethodGet {
			class = "read"
		}
		out, err = do(ctx, in)
		return class, out, err
	}
	return "elsewhere", out, instead(in)
}

// tokenOf is the token of a request: that of a session, or of an API key, which is a token here.
func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme == "Bearer" || scheme == "Key" {
		return strings.TrimSpace(token)
	}
	return ""
}

type operation func(context.Context, *request) (answer, error)

func (s *Server) namespaces(ctx context.Context, r *request) (answer, error) {
	return s.list(ctx, r, "Namespace", func(n *model.Resource) object { return object{"name": n.Metadata.Name} })
}

func (s *Server) namespace(ctx context.Context, r *request) (answer, error) {
	n, err := resource(ctx, r, "Namespace", "", r.name(0))
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusOK, object{"name": n.Metadata.Name}, ""}, nil
}
