package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/offline"
)

// Run runs the server until ctx ends, then stops it in three stages: it refuses connections, sends
// agents away, and finishes the work that it has accepted.
func (s *Server) Run(ctx context.Context) error {
	// Two contexts: the front (listeners and sessions) ends first, the back (all that works off
	// accepted data) after it.
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()
	g, back := errgroup.WithContext(back)
	front, stopFront := context.WithCancel(ctx)
	defer stopFront()
	context.AfterFunc(back, stopFront)

	run := func(what string, ctx context.Context, fn func(context.Context) error) {
		g.Go(func() error {
			if err := fn(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		})
	}
	reacting, stopReacting := context.WithCancel(context.WithoutCancel(ctx))
	// The view runs already, since Open (the replay needs it), and until Close.
	run("reactions", reacting, s.reactor.Run) // first: transitions of the replay wait for it
	run("snapshots", back, func(ctx context.Context) error {
		defer stopReacting() // the last snapshots wait for the reactions before them
		return s.runSnapshots(ctx)
	})
	run("intent", back, s.intent.WriteReports)               // writes facts of agents
	run("old changes", back, s.intent.EnforceRetention)      // deletes old changes
	run("ephemeral nodes", back, s.intent.ForgetAbsentNodes) // deletes ephemeral nodes that stay away
	run("planner", back, func(ctx context.Context) error {   // compiles changes of the store
		return s.planner.Run(ctx, s.intent.CommitSignal())
	})
	run("intent mark", back, func(ctx context.Context) error { // for the next start
		return s.recorder.MarkIntent(ctx, s.planner.Revision)
	})
	run("old definitions", back, s.collect)
	run("assets", back, s.archives.Run) // fetches and removes archives
	run("tools", back, s.tools.Run)     // extracts Assets for commands of handlers
	run("streams", back, s.streams.Run)
	run("built-in events", back, s.monitor.Run)
	run("password requests", back, (&offline.PasswordRequests{Data: s.cfg.Data, Access: s.access, Log: s.log}).Run)
	run("alerts", back, s.alerts.Run)
	run("sessions", back, s.sessions.Run) // writers, before the front lets anybody in

	if s.bridge != nil {
		run("Sensu's sessions", back, s.bridge.Run)
	}

	if err := s.recordStart(ctx); err != nil {
		stopBack()
		if ctx.Err() != nil {
			err = nil // stopped before it began
		}
		return errors.Join(err, g.Wait())
	}
	// The front opens when the journal says that we listen: deadlines count from there.
	run("agents", front, s.serveAgents)
	run("people", front, s.servePeople)
	run("Sensu's agents", front, s.serveSensu)
	run("admin", front, s.serveAdmin)
	run("watchdog", front, s.watchdog.Run)
	run("turns", front, s.turns.Run) // not while agents are sent away
	s.ready.Store(nil)
	s.manager.Notify("READY=1")
	run("service manager", front, s.tellManager)
	s.log.Info("ready", "address", s.people.Addr().String(), "took", s.now().Sub(s.started))

	g.Go(func() error {
		<-front.Done()
		s.notReady("stopping")
		s.manager.Notify("STOPPING=1\nSTATUS=stopping")
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.sessions.Drain(drain, 5*time.Second)
		stopBack()
		return nil
	})
	return g.Wait()
}

// recordStart marks that the server listens again, the results that a crash kept from being forgotten,
// and the revision of the intent in force.
func (s *Server) recordStart(ctx context.Context) error {
	if err := s.recorder.Started(ctx); err != nil {
		return err
	}
	forgotten, err := s.planner.RemovalsSince(ctx, s.view.Revision())
	if err != nil {
		return err
	}
	s.recorder.Forget(forgotten)
	return s.recorder.Intent(ctx, s.planner.Revision())
}
