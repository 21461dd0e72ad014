package app

import (
	"context"
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
	"github.com/muster-fleet/muster/internal/source/muster"
)

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
	}
	if a, ok := addrOf(s.admin); ok && !a.IP.IsLoopback() {
		s.log.Warn("whoever reaches the admin listener reads the metrics", "address", a.String())
	}
	return nil
}

func addrOf(l net.Listener) (*net.TCPAddr, bool) {
	if l == nil {
		return nil, false
	}
	a, ok := l.Addr().(*net.TCPAddr)
	return a, ok
}

// serveAgents accepts agents where they have listeners of their own.
func (s *Server) serveAgents(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if s.agents != nil {
		shared := muster.Listen(s.agents, s.authority, s.sessions, s.log)
		g.Go(func() error { return shared.Run(ctx) })
		// Enrolment comes without a client certificate.
		g.Go(func() error { return serve(ctx, shared.People(), s.enrolHandler, s.log) })
	}
	if s.plain != nil {
		s.log.Warn("agents are believed without proof on the plain listener", "address", s.plain.Addr().String())
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
	g.Go(func() error { return serve(ctx, listener.People(), s.handler, s.log) })
	return g.Wait()
}

func (s *Server) serveAdmin(ctx context.Context) error {
	if s.admin == nil {
		return nil
	}
	return serve(ctx, netutil.LimitListener(s.admin, adminConnections), s.adminHandler, s.log)
}

// adminConnections bounds the connections of the admin listener.
const adminConnections = 64

// connections is how many agents and people may be connected; 0: any number.
func connections() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > 1<<24 {
		return 0
	}
	return model.MaxConnections(int(l.Cur)) // the Go runtime has raised it to the hard limit
}

// answerTimeout is how long a reader may take for an answer; a watch moves its own
// deadline with every message.
const answerTimeout = 2 * time.Minute

// serve answers until ctx ends, then gives requests under way five seconds.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	server := &http.Server{
		// One connection is one person or program: its concurrent requests are bounded.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 50},
		ConnContext: muster.WithConn, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
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
