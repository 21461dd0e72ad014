package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/api/admin"
	"github.com/muster-fleet/muster/internal/config"
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

// listeners has the server's network listeners; a listener that is not configured is nil.
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
	s.task(front, "agents", s.serveAgents)
	s.task(front, "people", s.serveAPI)
	s.task(front, "admin", s.serveAdmin)
	s.task(front, "service manager", s.reportStatus)
	return nil
}

// addressOf returns the TCP address of a listener; ok is false if the listener is nil.
func addressOf(l net.Listener) (*net.TCPAddr, bool) {
	if l == nil {
		return nil, false
	}
	a, ok := l.Addr().(*net.TCPAddr)
	return a, ok
}

// forAgents returns the listener for agents: the separate one if configured, else the main one.
func (ls *listeners) forAgents() net.Listener {
	if ls.agents != nil {
		return ls.agents
	}
	return ls.people
}

// localAddress returns the loopback address of a listener, for programs on this machine.
func localAddress(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort("127.0.0.1", port)
}

// serveAgents serves agents on the separate listeners for agents, if these are configured.
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

// serveAPI serves the API (for people and programs) on the main listener, and agents too unless they have a separate
// listener.
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
		return admin.WithConn(admission.WithConn(ctx, c), c)
	}
	return serveHTTP(ctx, limit.Limit(s.admin), withConn, s.handlers.admin, s.log)
}

// serveSensu serves Sensu agents, with the server's certificate unless --sensu-tls is off.
func (s *Server) serveSensu(ctx context.Context) error {
	var config *tls.Config
	if s.cfg.SensuTLS != "off" {
		config = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.authority.GetCertificate}
		if s.sensuCA != nil {
			s.sensuCA.Admit(config)
		}
	} else {
		s.log.Warn("Sensu agents connect without TLS: anyone on the network can read passwords and results", "address", s.sensu.Addr().String())
	}
	s.log.Info("listening for Sensu agents", "address", s.sensu.Addr().String(), "tls", config != nil)
	return s.bridge.Listen(ctx, s.sensu, config)
}

// maxConnections returns how many connections of agents the limit of open files allows, or 0 if nothing limits them.
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

// serveHTTP serves HTTP requests on a listener until ctx ends, then waits at most five seconds for running requests.
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

// certificateNames returns the host names and addresses that the server's certificate contains: --advertise (by
// default those of this machine) and --agent-servers.
func certificateNames(ctx context.Context, cfg *config.Server) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	add := func(address string) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = strings.Trim(address, "[]")
		}
		if !slices.Contains(names, host) {
			names = append(names, host)
		}
	}
	for _, address := range cfg.AgentServers {
		add(address)
	}
	if len(cfg.Advertise) > 0 {
		for _, address := range cfg.Advertise {
			add(address)
		}
		return names
	}
	if host, err := os.Hostname(); err == nil {
		add(host)
		add(fullHostName(ctx, host))
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return names
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			add(ip.IP.String())
		}
	}
	return names
}

// fullHostName returns the fully qualified name of this machine from the hosts file or DNS, or its short host name if
// neither knows it. A resolver that does not answer delays the start by a second.
func fullHostName(ctx context.Context, host string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	full, err := net.DefaultResolver.LookupCNAME(ctx, host)
	if full = strings.TrimSuffix(full, "."); err != nil || !strings.HasPrefix(full, host+".") {
		return host
	}
	return full
}

// agentAddresses returns the addresses that join tokens contain, at which machines reach this server. names are the
// names of its certificate.
func agentAddresses(cfg *config.Server, listener net.Listener, names []string) []string {
	if len(cfg.AgentServers) > 0 {
		return cfg.AgentServers
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	hosts := cfg.Advertise
	if len(hosts) == 0 {
		var bound net.IP
		if a, ok := addressOf(listener); ok {
			bound = a.IP
		}
		hosts = sortForAgents(bound, names, containerAddresses())
	}
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		if _, _, err := net.SplitHostPort(h); err == nil {
			out = append(out, h)
			continue
		}
		out = append(out, net.JoinHostPort(strings.Trim(h, "[]"), port))
	}
	return out
}

// sortForAgents sorts the server's addresses so that those that other machines can probably reach come first. bound
// is the address of the listener; containers has the addresses that only this machine's containers reach.
func sortForAgents(bound net.IP, names []string, containers map[string]bool) []string {
	if bound != nil && !bound.IsUnspecified() {
		return []string{bound.String()}
	}
	onlyIPv4 := bound.To4() != nil
	rank := func(name string) int {
		ip := net.ParseIP(name)
		switch {
		case ip == nil && strings.Contains(name, "."):
			return 0 // a full host name stays valid when the address changes
		case ip != nil && ip.IsLoopback():
			return 6
		case containers[name]:
			return 5
		case ip == nil:
			return 4 // other machines may not resolve a short name
		case ip.To4() != nil:
			return 1
		case ip.IsPrivate():
			return 3
		}
		return 2
	}
	var out []string
	for _, name := range names {
		ip := net.ParseIP(name)
		if name != "localhost" && name != "::1" && (ip == nil || ip.To4() != nil || !onlyIPv4) {
			out = append(out, name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	return out
}

// containerAddresses returns the addresses of this machine's bridges for containers and virtual machines.
func containerAddresses() map[string]bool {
	out := map[string]bool{}
	list, _ := net.Interfaces() // after an error the list is empty
	for _, i := range list {
		if !containerBridge.MatchString(i.Name) {
			continue
		}
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if ip, ok := a.(*net.IPNet); ok {
				out[ip.IP.String()] = true
			}
		}
	}
	return out
}

var containerBridge = regexp.MustCompile(`^(docker|br-|veth|virbr|vnet|lxc|lxd|cni|flannel|cali|podman|kube)`)

// openWatchdog opens the watchdog: it sends a test result through the server every minute and raises an alarm if
// the result does not arrive. It also starts the monitor of the built-in events.
func (s *Server) openWatchdog(context.Context) (err error) {
	s.courier, err = watchdog.NewResultSender(s.authority, func(ctx context.Context) (net.Conn, error) {
		return dialListener(ctx, s.forAgents(), s.cfg.Proxies())
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
		o.Call = func(ctx context.Context) error { return callDeadMan(ctx, out, url, s.now()) }
	}
	s.watchdog = watchdog.New(o)
	s.task(front, "watchdog", s.watchdog.Run)
	s.task(back, "built-in events", s.monitor.Run)
	return nil
}

// dialListener connects to a listener of this process without the network. If this machine is in a network of trusted
// proxies, it sends a PROXY header as a load balancer does.
func dialListener(ctx context.Context, l net.Listener, proxies []netip.Prefix) (net.Conn, error) {
	to, ok := addressOf(l)
	if !ok {
		return nil, fmt.Errorf("this server accepts no agents: it has no listener for them")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String()) // an unspecified address is this machine
	if err != nil {
		return nil, err
	}
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err == nil && slices.ContainsFunc(proxies, func(network netip.Prefix) bool { return network.Contains(local.Addr().Unmap()) }) {
		header := proxyproto.HeaderProxyFromAddrs(2, conn.LocalAddr(), conn.RemoteAddr())
		if _, err := header.WriteTo(conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// callDeadMan calls the URL of a dead man's switch periodically; a dead man's switch is an outside service that
// raises an alarm when the calls stop.
func callDeadMan(ctx context.Context, out *handler.Sender, url string, now time.Time) error {
	note := &handler.Notification{Kind: handler.Beat, Node: model.ServerNodeName,
		Space: model.DefaultNamespaceName, Status: model.OK.String(), Executed: now}
	note.SetSource(model.CheckSource(model.WatchdogCheck), model.BuiltinCheckName(model.WatchdogCheck))
	payload, err := note.Encode()
	if err != nil {
		return err
	}
	_, err = out.Send(ctx, &model.HandlerSpec{Webhook: &model.Webhook{URL: url}}, &handler.Message{Key: "beat", Payload: payload, Note: note})
	return err
}
