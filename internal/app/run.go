package app

import (
	"context"
	"errors"
	"time"
)

// drainTime is how long agents get to confirm that they were sent away.
const drainTime = 5 * time.Second

// Run runs the server until ctx ends, then stops it in stages (lifecycle.go): it refuses connections, sends agents away,
// finishes the accepted work, and records its last transitions. The event view runs already, since Open, and until Close.
func (s *Server) Run(ctx context.Context) error {
	st := newStages(ctx, s.tasks)
	defer st.stopBack()
	defer st.stopFront()
	st.start(reactions, s.tasks)
	st.start(back, s.tasks)
	if err := s.recordStart(ctx); err != nil {
		st.stopBack()
		if ctx.Err() != nil {
			err = nil // stopped before it listened
		}
		return errors.Join(err, st.group.Wait())
	}
	// The front opens when the journal has the start of listening: deadlines count from there.
	st.start(front, s.tasks)
	s.ready.Store(nil)
	s.manager.Notify("READY=1")
	s.log.Info("ready", "address", s.people.Addr().String(), "took", s.now().Sub(s.started))
	st.group.Go(func() error {
		<-st.contexts[front].Done()
		s.notReady("stopping")
		s.manager.Notify("STOPPING=1\nSTATUS=stopping")
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		s.sessions.Drain(drain, drainTime)
		st.stopBack()
		return nil
	})
	return st.group.Wait()
}

// recordStart records in the journal that the server listens again, the nodes whose results a crash kept from being
// forgotten, and the revision of the intent in force.
func (s *Server) recordStart(ctx context.Context) error {
	if err := s.recorder.Started(ctx); err != nil {
		return err
	}
	forgotten, err := s.planner.RemovalsSince(ctx, s.view.Revision())
	if err != nil {
		return err
	}
	s.recorder.Forget(forgotten)
	return s.recorder.Intent(ctx, s.directory.Revision())
}
