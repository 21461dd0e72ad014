package app

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/muster"
)

// clones are machines that were sent away because another one has their identity, on
// their way to the node's event. Who finds no room comes again within two minutes.
type clones chan muster.Clone

// came is muster.Config.OnClone.
func (c clones) came(clone muster.Clone) {
	select {
	case c <- clone:
	default:
	}
}

// tellClones keeps the event `identity` of nodes: critical while a second machine comes
// with a node's identity.
func (s *Server) tellClones(ctx context.Context) error {
	e, err := s.newEpisodes(ctx, model.IdentityCheck, model.Critical, "no second machine came with this node's identity")
	if err != nil {
		return err
	}
	tick := time.NewTicker(episodeTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			e.tick()
		case c := <-s.clones:
			text := cloneText(c)
			if e.came(c.Node.ID, text, text) {
				s.log.Warn("two machines have one identity", "node", c.Node.Name, "holds", c.Holds.String(), "came", c.Came.String(), "event", text)
			}
		}
	}
}

func cloneText(c muster.Clone) string {
	return fmt.Sprintf("two machines have this node's identity: %s is connected since %s; %s came with it and was sent away. "+
		"One is a copy of the other. On the one that is wrong, type: systemctl stop muster-agent; muster-agent reset-identity; then join it with a token of its own. "+
		"This closes by itself when none came for %s",
		c.Holds, c.Holds.Since.Format(time.RFC3339), c.Came, model.Duration(episodeGone*episodeTick))
}
