package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/muster"
)

// listenOn opens a TCP listener. setting is the flag that its errors name.
func listenOn(address, setting string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, model.Errorf(model.Unavailable, "address %s is taken by another program", address).
			WithHint("find it: ss -ltnp 'sport = :%s'; or choose another: --%s :PORT", address[strings.LastIndexByte(address, ':')+1:], setting)
	}
	if errors.Is(err, syscall.EACCES) {
		return nil, model.Errorf(model.Forbidden, "may not listen on %s", address).WithHint("choose a port above 1023: --%s :8443", setting)
	}
	if err != nil {
		return nil, model.Errorf(model.Invalid, "listen on %s: %w", address, err).WithHint("--%s HOST:PORT", setting)
	}
	return l, nil
}

// listeners hold the listeners; nil: there is none of this kind.
type listeners struct {
	people, agents, plain, admin, sensu net.Listener
}

// listen opens the listeners.
func (s *Server) listen(context.Context) error {
	for _, l := range []struct {
		to      *net.Listener
		address string
		setting string
	}{
		{&s.people, s.cfg.Listen, "listen"}, {&s.agents, s.cfg.ListenAgents, "listen-agents"},
		{&s.plain, s.cfg.ListenPlain, "listen-plain"}, {&s.admin, s.cfg.ListenAdmin, "listen-admin"}, {&s.sensu, s.cfg.SensuListen, "sensu-listen"},
	} {
		if l.address == "" || l.address == "off" {
			continue
		}
		listener, err := listenOn(l.address, l.setting)
		if err != nil {
			return err
		}
		*l.to = listener
		s.onClose(func() error {
			if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
	}
	if a, ok := addrOf(s.admin); ok && !a.IP.IsLoopback() {
		s.log.Warn("every machine that reaches the admin listener can read the metrics", "address", a.String())
	}
	s.task(front, "agents", s.serveAgents)
	s.task(front, "people", s.servePeople)
	s.task(front, "admin", s.serveAdmin)
	s.task(front, "service manager", s.reportStatus)
	return nil
}

func addrOf(l net.Listener) (*net.TCPAddr, bool) {
	if l == nil {
		return nil, false
	}
	a, ok := l.Addr().(*net.TCPAddr)
	return a, ok
}

// forAgents returns the listener of agents: their own, or the one shared with people.
func (ls *listeners) forAgents() net.Listener {
	if ls.agents != nil {
		return ls.agents
	}
	return ls.people
}

// localAddress returns a listener's address on the loopback interface.
func localAddress(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort("127.0.0.1", port)
}

// serveAgents accepts agents where they have listeners of their own.
func (s *Server) serveAgents(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if s.agents != nil {
		shared := muster.Listen(s.agents, s.authority, s.sessions, s.log)
		g.Go(func() error { return shared.Run(ctx) })
		// Enrolment has no client certificate.
		g.Go(func() error { return serve(ctx, shared.People(), s.handlers.enrol, s.log) })
	}
	if s.plain != nil {
		s.log.Warn("the plain listener believes agents without proof", "address", s.plain.Addr().String())
		g.Go(func() error { return muster.ServePlain(ctx, s.plain, s.sessions) })
	}
	return g.Wait()
}

// servePeople accepts people, and agents unless they have a listener of their own.
func (s *Server) servePeople(ctx context.Context) error {
	listen := muster.Listen
	if s.agents != nil {
		listen = muster.ListenPeople
	}
	listener := listen(s.people, s.authority, s.sessions, s.log)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return listener.Run(ctx) })
	g.Go(func() error { return serve(ctx, listener.People(), s.handlers.people, s.log) })
	return g.Wait()
}

// adminConnections bounds the connections of the admin listener.
const adminConnections = 64

func (s *Server) serveAdmin(ctx context.Context) error {
	if s.admin == nil {
		return nil
	}
	return serve(ctx, netutil.LimitListener(s.admin, adminConnections), s.handlers.admin, s.log)
}

// serveSensu accepts Sensu's agents, with the certificate of all listeners unless --sensu-tls is off.
func (s *Server) serveSensu(ctx context.Context) error {
	var config *tls.Config
	if s.cfg.SensuTLS != "off" {
		config = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.authority.GetCertificate}
		if s.sensuCA != nil {
			s.sensuCA.Admit(config)
		}
	} else {
		s.log.Warn("Sensu's agents connect without TLS: passwords and results can be read on the way", "address", s.sensu.Addr().String())
	}
	s.log.Info("listening for Sensu's agents", "address", s.sensu.Addr().String(), "tls", config != nil)
	return s.bridge.Listen(ctx, s.sensu, config)
}

// connections returns the largest number of connections that the limit of open files allows; 0: no limit.
func connections() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > 1<<24 {
		return 0
	}
	return model.MaxConnections(int(l.Cur)) // the Go runtime has raised it to the hard limit
}

// answerTimeout is the time in which a client must read an answer. A watch moves its own deadline with every message.
const answerTimeout = 2 * time.Minute

// serve answers requests until ctx ends, then gives those under way five seconds.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	server := &http.Server{
		// One connection is one person or program: its concurrent requests are bounded.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 50},
		ConnContext: admission.WithConn, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Handler: h, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: answerTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close()
	}
	<-done
	return nil
}
