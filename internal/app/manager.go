package app

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// tellManager keeps the line that systemctl status shows.
func (s *Server) tellManager(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for said := ""; ; {
		if now := s.condition(); now != said && s.ready.Load() == nil {
			s.manager.Status(now)
			said = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// condition says in one line how the server is.
func (s *Server) condition() string {
	if why := s.NotReady(); len(why) > 0 {
		return "not ready: " + strings.Join(why, "; ")
	}
	return fmt.Sprintf("ready at %s; agents connected: %d", s.people.Addr(), s.connectedNodes())
}
