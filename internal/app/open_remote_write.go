package app

import (
	"context"

	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/remotesend"
)

// openRemoteWrite opens the queue of metric samples for remote write, the forwarding to another time-series
// store. It closes after the event view, whose workers append to it.
func openRemoteWrite(ctx context.Context, s *Server) (err error) {
	s.remote, err = remotesend.Open(ctx, remotesend.Options{
		Dir: datadir.RemoteWrite(s.cfg), URL: s.cfg.RemoteWriteURL, AuthFile: s.cfg.RemoteWriteAuthFile, CAFile: s.cfg.RemoteWriteCA, Match: s.cfg.RemoteWriteMatch,
		Budget: int64(s.cfg.RemoteWriteBudget), Now: s.now, Logger: s.log, Registerer: s.registry,
	})
	if err == nil {
		s.onClose(s.remote.Close)
	}
	return err
}

// runRemoteWrite returns a function that starts forwarding metric samples by remote write, if an address is
// configured.
func runRemoteWrite(s *Server) func(context.Context) error {
	return func(context.Context) error {
		if s.remote != nil {
			s.registerTask(back, "remote write", s.remote.Run)
		}
		return nil
	}
}
