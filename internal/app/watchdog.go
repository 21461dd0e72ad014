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
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/watchdog"
)

// openWatchdog makes the watchdog, and the key with which it comes as an agent does.
func (s *Server) openWatchdog() (err error) {
	if s.courier, err = watchdog.NewCourier(s.authority, s.dialOneself); err != nil {
		return err
	}
	o := watchdog.Options{
		Every: time.Duration(s.cfg.WatchdogInterval), Send: s.courier.Send, Now: s.now, Logger: s.log, Registerer: s.registry,
		Own: func(ctx context.Context, status model.Status, output string) error {
			return s.recorder.OwnResult(ctx, model.WatchdogCheck, status, output)
		},
	}
	if s.cfg.WatchdogURL != "" {
		out := handler.New(handler.Options{Now: s.now, Logger: s.log})
		o.Call = func(ctx context.Context) error { return s.callOutside(ctx, out) }
	}
	s.watchdog = watchdog.New(o)
	return nil
}

// beat reports a delivered synthetic result to the watchdog; results of an earlier run come first.
func (s *Server) beat(output string) {
	if s.watchdog != nil {
		s.watchdog.Arrived(output)
	}
}

// courierNode is the server where it comes as an agent.
func (s *Server) courierNode() (core.Node, bool) {
	if s.courier == nil {
		return core.Node{}, false
	}
	return core.Node{ID: model.ServerNode, Name: model.ServerNodeName, Namespace: model.DefaultNamespace, Key: s.courier.Key(), Visitor: true}, true
}

// dialOneself connects to the listener of agents.
func (s *Server) dialOneself(ctx context.Context) (net.Conn, error) {
	l := s.people
	if s.agents != nil {
		l = s.agents
	}
	to, ok := addrOf(l)
	if !ok {
		return nil, fmt.Errorf("no listener for agents")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String()) // an unspecified address is this machine
	if err != nil {
		return nil, err
	}
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	behind := func(network netip.Prefix) bool { return network.Contains(local.Addr().Unmap()) }
	if err == nil && slices.ContainsFunc(s.cfg.Proxies(), behind) { // we come as a balancer would
		header := proxyproto.HeaderProxyFromAddrs(2, conn.LocalAddr(), conn.RemoteAddr())
		if _, err := header.WriteTo(conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// callOutside tells the dead-man's switch that all is well.
func (s *Server) callOutside(ctx context.Context, out *handler.Out) error {
	note := &handler.Notification{Kind: handler.Beat, Node: model.ServerNodeName,
		Space: model.DefaultNamespaceName, Status: model.OK.String(), Executed: s.now()}
	note.SetSource(model.CheckSource(model.WatchdogCheck), model.BuiltinCheckName(model.WatchdogCheck))
	payload, err := note.Encode()
	if err != nil {
		return err
	}
	_, err = out.Send(ctx, &model.HandlerSpec{Webhook: &model.Webhook{URL: s.cfg.WatchdogURL}}, &handler.Message{Key: "beat", Payload: payload, Note: note})
	return err
}
