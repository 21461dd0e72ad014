package selfcheck

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// clones holds the last report about each node until watchClones takes it. They are at most one for each
// node.
type clones struct {
	mu      sync.Mutex
	reports map[model.NodeID]core.Clone
	arrived chan struct{} // holds one signal
}

// Clone reports a machine that was refused because another one is connected with its identity. It is
// muster.Config.OnClone.
func (m *Monitor) Clone(c core.Clone) {
	m.clones.mu.Lock()
	m.clones.reports[c.Node.ID] = c
	m.clones.mu.Unlock()
	select {
	case m.clones.arrived <- struct{}{}:
	default:
	}
}

func (c *clones) drain() map[model.NodeID]core.Clone {
	c.mu.Lock()
	defer c.mu.Unlock()
	reports := c.reports
	c.reports = map[model.NodeID]core.Clone{}
	return reports
}

// watchClones keeps the event `identity` of nodes: critical while a second machine connects with a
// node's identity.
func (m *Monitor) watchClones(ctx context.Context) error {
	e, err := m.newEpisodes(ctx, model.IdentityCheck, model.Critical, "no second machine came with this node's identity")
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
		case <-m.clones.arrived:
			for node, c := range m.clones.drain() {
				text := cloneText(c)
				if e.occurred(node, text, text) {
					m.o.Log.Warn("two machines have one identity", "node", c.Node.Name, "holds", c.Holder.String(), "came", c.Refused.String(), "event", text)
				}
			}
		}
	}
}

func cloneText(c core.Clone) string {
	return fmt.Sprintf("two machines have this node's identity: %s is connected since %s; %s came with it and was sent away. "+
		"One is a copy of the other. On the one that is wrong, type: systemctl stop muster-agent; muster-agent reset-identity; then join it with a token of its own. "+
		"This closes by itself when none came for %s",
		c.Holder, c.Holder.Since.Format(time.RFC3339), c.Refused, model.Duration(episodeLength*episodeTick))
}
