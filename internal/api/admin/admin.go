// Package admin is the operator's listener: metrics, health, profiles, queues, and the rest of muster debug bundle.
// It needs no token: Local admits programs of the server's own user and of root on this machine.
//
// Start reading at Handler.
package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/profiles"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/version"
)

// Options has the parts of the server that the admin listener shows. These are metrics, log level, open tasks,
// queues and settings.
type Options struct {
	Gatherer prometheus.Gatherer
	NotReady func() []string
	Queues   *queue.Registry
	Settings map[string]string // settings of the server now, without secrets
	Log      func() []byte     // returns the newest lines of the log; nil: no log
}

// Handler returns the HTTP handler of the admin listener, with metrics, profiles, settings and internal states. It
// needs no token: wrap it in Local.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	op.HandleHealth(mux, o.NotReady)
	mux.HandleFunc("GET /queues", func(w http.ResponseWriter, _ *http.Request) { op.WriteJSON(w, o.Queues.List()) })
	mux.HandleFunc("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) { op.WriteJSON(w, o.Settings) })
	mux.HandleFunc("GET /debug/version", func(w http.ResponseWriter, _ *http.Request) { op.WriteJSON(w, version.Get()) })
	mux.HandleFunc("GET /debug/log", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if o.Log != nil {
			_, _ = w.Write(o.Log())
		}
	})
	profiles.Handle(mux, op.WriteError)
	return mux
}

// LocalOnly is middleware that admits only local programs of root or the server's user. It guards profiles, log,
// settings and internal states. Metrics and health need neither. A page in a browser is refused: its request has the
// name of another host, or a header with another origin. The listener's http.Server must have WithClientCheck as its
// ConnContext.
func LocalOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics", "/livez", "/readyz":
			next.ServeHTTP(w, r)
			return
		}
		if !isLocalRequest(r) {
			op.WriteError(w, model.Errorf(model.Forbidden, "the admin listener accepts only programs on the server's machine").
				WithHint("use 127.0.0.1 on that machine, or collect everything: muster debug bundle"))
			return
		}
		if err := r.Context().Value(clientCheckKey{}).(func() *model.Error)(); err != nil {
			op.WriteError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// clientCheckKey is the context key of the function that checks the user of a connection's client. The check is
// a function, which returns an error if the client may not read profiles.
type clientCheckKey struct{}

// WithClientCheck stores in a connection's context a function that checks the client's user. The client process must run as
// the server's user or as root. The check runs once per connection, at the first request that needs it.
func WithClientCheck(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, clientCheckKey{}, sync.OnceValue(func() *model.Error {
		return checkClientUser(addrPort(c.RemoteAddr()), addrPort(c.LocalAddr()))
	}))
}

// addrPort returns a TCP address as netip.AddrPort, with IPv4-mapped IPv6 addresses as IPv4.
func addrPort(a net.Addr) netip.AddrPort {
	p, _ := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// isLocalRequest reports whether a request comes from a program on the server's machine. A request of a web page or to
// a foreign host name does not count.
func isLocalRequest(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != "" || site != "" && site != "none" && site != "same-origin" {
		return false
	}
	name := model.HostOf(r.Host)
	_, err = netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || name == "localhost"
}
