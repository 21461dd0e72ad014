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

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/api/admin"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/watchdog"
)

// listenOn opens a TCP listener at a configured address. setting is the name of the address flag, for errors.
func listenOn(address, setting string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, model.Errorf(model.Unavailable, "another program uses address %s", address).
			WithHint("find the program: ss -ltnp 'sport = :%s'; or choose another port: --%s :PORT", address[strings.LastIndexByte(address, ':')+1:], setting)
	}
	if errors.Is(err, syscall.EACCES) {
		return nil, model.Errorf(model.Forbidden, "no permission to listen on %s", address).WithHint("choose a port above 1023: --%s :8443", setting)
	}
	if err != nil {
		return nil, model.Errorf(model.Invalid, "listen on %s: %w", address, err).WithHint("--%s HOST:PORT", setting)
	}
	return l, nil
}

// listeners has the server's network listeners. A listener that is not configured is nil.
type listeners struct {
	people, agents, plain, admin, sensu, zabbix, rudder net.Listener
}

// addresses returns the addresses of the listeners.
func (ls *listeners) addresses() (list []net.Addr) {
	for _, l := range []net.Listener{ls.people, ls.agents, ls.plain, ls.admin, ls.sensu, ls.zabbix, ls.rudder} {
		if l != nil {
			list = append(list, l.Addr())
		}
	}
	return list
}

// listen opens all configured listeners.
func (s *Server) listen(context.Context) error {
	for _, l := range []struct {
		to      *net.Listener
		address string
		setting string
	}{
		{&s.people, s.cfg.Listen, "listen"}, {&s.agents, s.cfg.ListenAgents, "listen-agents"},
		{&s.plain, s.cfg.ListenPlain, "listen-plain"}, {&s.admin, s.cfg.ListenAdmin, "listen-admin"}, {&s.sensu, s.cfg.SensuListen, "sensu-listen"},
		{&s.zabbix, s.cfg.ZabbixListen, "zabbix-listen"}, {&s.rudder, s.cfg.RudderListen, "rudder-listen"},
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
	if a, ok := addressOf(s.admin); ok && !a.IP.IsLoopback() {
		s.log.Warn("the admin listener serves metrics without a login to every machine that can reach it", "address", a.String())
	}
	s.registerTask(front, "agents", s.serveAgents)
	s.registerTask(front, "people", s.serveAPI)
	s.registerTask(front, "admin", s.serveAdmin)
	s.registerTask(front, "service manager", s.reportStatus)
	return nil
}

// addressOf returns the TCP address of a listener. For a nil listener, ok is false.
func addressOf(l net.Listener) (*net.TCPAddr, bool) {
	if l == nil {
		return nil, false
	}
	a, ok := l.Addr().(*net.TCPAddr)
	return a, ok
}

// forAgents returns the network listener for agents, separate from the main listener if configured. Otherwise
// it is the main listener.
func (ls *listeners) forAgents() net.Listener {
	if ls.agents != nil {
		return ls.agents
	}
	return ls.people
}

// localAddress converts a listener's address to a loopback address for programs on the server's machine.
func localAddress(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort("127.0.0.1", port)
}

// serveAgents serves agents on their separate listeners, if configured.
func (s *Server) serveAgents(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if s.agents != nil {
		shared := muster.Listen(s.agents, s.authority, s.sessions, s.log)
		g.Go(func() error { return shared.Run(ctx) })
		// An agent that enrols has no client certificate yet.
		g.Go(func() error { return serveHTTP(ctx, shared.People(), admission.WithConn, s.handlers.enrol, s.log) })
	}
	if s.plain != nil {
		s.log.Warn("the plain listener accepts agents without a certificate", "address", s.plain.Addr().String())
		g.Go(func() error { return muster.ServePlain(ctx, s.plain, s.sessions) })
	}
	return g.Wait()
}

// serveAPI serves the API for people and programs on the main listener. Agents use the main listener too unless they
// have a separate one.
func (s *Server) serveAPI(ctx context.Context) error {
	listen := muster.Listen
	if s.agents != nil {
		listen = muster.ListenPeople
	}
	listener := listen(s.people, s.authority, s.sessions, s.log)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return listener.Run(ctx) })
	g.Go(func() error { return serveHTTP(ctx, listener.People(), admission.WithConn, s.handlers.people, s.log) })
	return g.Wait()
}

// adminConnections bounds the connections of the admin listener.
const adminConnections = 64

// serveAdmin serves metrics and profiles on the admin listener.
func (s *Server) serveAdmin(ctx context.Context) error {
	if s.admin == nil {
		return nil
	}
	// The one of the longest silence gives way to a new connection.
	limit := admission.New(adminConnections, nil, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	withConn := func(ctx context.Context, c net.Conn) context.Context {
		return admin.WithClientCheck(admission.WithConn(ctx, c), c)
	}
	return serveHTTP(ctx, limit.Limit(s.admin), withConn, s.handlers.admin, s.log)
}

// serveSensu serves Sensu agents, with the server's certificate unless --sensu-tls is off.
func (s *Server) serveSensu(ctx context.Context) error {
	var config *tls.Config
	if s.cfg.SensuTLS != "off" {
		config = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.authority.GetCertificate}
		if s.sensuCA != nil {
			s.sensuCA.ConfigureTLS(config)
		}
	} else {
		s.log.Warn("Sensu agents connect without TLS: anyone on the network can read passwords and results", "address", s.sensu.Addr().String())
	}
	s.log.Info("listening for Sensu agents", "address", s.sensu.Addr().String(), "tls", config != nil)
	return s.bridge.Listen(ctx, s.sensu, config)
}

// maxConnections returns how many agent connections the limit of open files allows, or 0 without a limit.
func maxConnections() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > 1<<24 {
		return 0
	}
	return model.MaxConnections(int(l.Cur)) // the Go runtime has raised it to the hard limit
}

// answerTimeout bounds the time of a client to read an HTTP response. A watch extends its own deadline with every
// message.
const answerTimeout = 2 * time.Minute

// serveHTTP serves HTTP requests on a listener until ctx ends. Then it waits at most five seconds for running
// requests.
func serveHTTP(ctx context.Context, l net.Listener, connContext func(context.Context, net.Conn) context.Context, h http.Handler, log *slog.Logger) error {
	server := &http.Server{
		// One connection belongs to one person or program: its concurrent requests are bounded.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 50},
		ConnContext: connContext, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Handler: h, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: answerTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve HTTP requests on %s: %w", l.Addr(), err)
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

// openWatchdog opens the watchdog, which sends a test result through the server every minute. If the result does not
// arrive, the watchdog raises an alarm. It also starts the monitor of the built-in events.
func (s *Server) openWatchdog(context.Context) (err error) {
	s.courier, err = watchdog.NewResultSender(s.authority, func(ctx context.Context) (net.Conn, error) {
		return watchdog.DialListener(ctx, s.forAgents(), s.cfg.Proxies())
	})
	if err != nil {
		return err
	}
	o := watchdog.Options{
		Every: time.Duration(s.cfg.WatchdogInterval), Send: s.courier.Send, Now: s.now, Logger: s.log, Registerer: s.registry,
		Record: func(ctx context.Context, status model.Status, output string) error {
			return s.recorder.RecordServerResult(ctx, model.WatchdogCheck, status, output)
		},
	}
	if url := s.cfg.WatchdogURL; url != "" {
		out := handler.New(handler.Options{Now: s.now, Logger: s.log})
		o.Call = func(ctx context.Context) error { return watchdog.CallDeadMansSwitch(ctx, out, url, s.now()) }
	}
	s.watchdog = watchdog.New(o)
	s.registerTask(front, "watchdog", s.watchdog.Run)
	s.registerTask(back, "built-in events", s.monitor.Run)
	return nil
}
