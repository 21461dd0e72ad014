package app

import (
	"context"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/recorder"
	"github.com/muster-fleet/muster/internal/source/alertmanager"
	"github.com/muster-fleet/muster/internal/source/core"
)

// openAlerts makes the receiver of alerts.
func (s *Server) openAlerts(context.Context) (err error) {
	s.alerts, err = alertmanager.New(alertmanager.Config{
		Access: s.access, Intent: s.intent, Plan: s.planner, View: s.view, Write: s.writeAlerts,
		Hit: func(node model.NodeID, name string, namespace model.NamespaceID, limit, reason string) {
			s.sessions.Limiter().Hit(&core.Node{ID: node, Name: name, Namespace: namespace}, limit, reason)
		},
		Now: s.now, Log: s.log, Registerer: s.registry,
	})
	return err
}

// writeAlerts is alertmanager.Config.Write.
func (s *Server) writeAlerts(ctx context.Context, alerts []alertmanager.Result) (wait func(context.Context) error, err error) {
	results := make([]recorder.Result, len(alerts))
	for i, a := range alerts {
		results[i] = recorder.Result{Node: a.Node, Chunk: a.Chunk.ID, Status: a.Status, Output: a.Output}
	}
	return s.recorder.Results(ctx, results)
}
