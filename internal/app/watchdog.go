package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/watchdog"
)

// openWatchdog opens the watchdog, which sends a synthetic result to the server's own listener as an agent does, and
// starts the monitor of the built-in events with it.
func (s *Server) openWatchdog(context.Context) (err error) {
	s.courier, err = watchdog.NewCourier(s.authority, func(ctx context.Context) (net.Conn, error) {
		return dialListener(ctx, s.forAgents(), s.cfg.Proxies())
	})
	if err != nil {
		return err
	}
	o := watchdog.Options{
		Every: time.Duration(s.cfg.WatchdogInterval), Send: s.courier.Send, Now: s.now, Logger: s.log, Registerer: s.registry,
		Own: func(ctx context.Context, status model.Status, output string) error {
			return s.recorder.OwnResult(ctx, model.WatchdogCheck, status, output)
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

// dialListener connects to a listener of this process. From a network of trusted proxies, it sends a PROXY header as a
// balancer does.
func dialListener(ctx context.Context, l net.Listener, proxies []netip.Prefix) (net.Conn, error) {
	to, ok := addrOf(l)
	if !ok {
		return nil, fmt.Errorf("no listener for agents")
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

// callDeadMan calls the dead-man's switch, which raises the alarm when it is not called.
func callDeadMan(ctx context.Context, out *handler.Out, url string, now time.Time) error {
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
