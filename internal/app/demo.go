package app

import (
	"context"
	"net"

	"github.com/muster-fleet/muster/internal/load/demo"
	"github.com/muster-fleet/muster/internal/load/simulated"
)

// noDemo takes the machines of an earlier demo away.
func (s *Server) noDemo(ctx context.Context) error {
	return demo.Fleet{Service: s.intent}.Forget(ctx)
}

// demoLeft is how many there are.
func (s *Server) demoLeft() int { return len(s.planner.Nodes(demo.Namespace)) }

// demo simulates machines beside this one, over real sessions.
func (s *Server) demo(ctx context.Context, nodes int) error {
	certificates, err := simulated.Certificates(s.authority)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.people.Addr().String())
	return demo.Fleet{
		Nodes: nodes, Server: net.JoinHostPort("127.0.0.1", port), TLS: certificates, Service: s.intent, Log: s.log.With("part", "demo"),
	}.Run(ctx)
}
