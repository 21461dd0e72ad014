package app

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/pki"
)

// openAPI makes what the listeners serve.
func (s *Server) openAPI(context.Context) error {
	people := http.NewServeMux()
	people.Handle("POST "+pki.EnrolPath, &pki.Enroller{
		Authority: s.authority, Tokens: intent.JoinTokens{Store: s.intent.Store()}, Registrar: s.intent, Servers: s.agentAddresses(),
	})
	s.handler = people
	admin := http.NewServeMux()
	admin.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	admin.Handle("GET /debug/states", load.StatesHandler(s.view))
	s.adminHandler = admin
	return nil
}
