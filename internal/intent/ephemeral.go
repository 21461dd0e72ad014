package intent

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	awayTooLong = "away for too long"
	// forgottenFor is how long a machine that was forgotten hears why.
	forgottenFor = 7 * 24 * time.Hour
	forgetEvery  = 15 * time.Second
	forgetAtOnce = 500 // nodes of one commit
)

// ForgetAbsentNodes takes away ephemeral nodes that had no session for as long as their lifecycle
// says, until ctx ends. Only time counts in which the server listened: a start begins
// anew, and while the process was stopped nobody could come.
func (s *Service) ForgetAbsentNodes(ctx context.Context) error {
	away := map[uuid.UUID]time.Duration{}
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	last := s.opts.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := s.opts.Now()
		passed := min(max(0, now.Sub(last)), 2*forgetEvery)
		last = now
		if err := s.forget(ctx, away, passed); err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn("nodes that are away for too long could not be forgotten; trying again", "err", err)
		}
	}
}

// forget lets time pass for those that are away: it looks at ephemeral nodes only.
func (s *Service) forget(ctx context.Context, away map[uuid.UUID]time.Duration, passed time.Duration) error {
	var keys []Key
	for _, node := range s.nodes.comeAndGo(away) {
		if s.opts.Connected != nil && s.opts.Connected(node.ID) {
			delete(away, node.UID)
			continue
		}
		before, known := away[node.UID]
		if known { // else it went since the last look: rather late than early
			before += passed
		}
		if away[node.UID] = before; before >= node.ForgetAfter && len(keys) < forgetAtOnce {
			keys = append(keys, Key{"Node", node.Namespace, node.Name})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	t := Tombstone{Why: ReasonForgotten, Until: s.opts.Now().UTC().Add(forgottenFor)}
	_, err := s.bury(ctx, server(awayTooLong), keys, t, ApplyOptions{Yes: true})
	if class := model.ClassOf(err); err != nil && (class == model.Conflict || class == model.NotFound) {
		return nil // changed or gone meanwhile: the next time tells
	}
	return err
}

// EphemeralNodes are the nodes that may come and go.
func (s *Service) EphemeralNodes() []NodeInfo { return s.nodes.comeAndGo(nil) }

// comeAndGo are the ephemeral nodes; who is none any more is struck from away.
func (x *nodeIndex) comeAndGo(away map[uuid.UUID]time.Duration) []NodeInfo {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for uid := range away {
		if !x.ephemeral[uid] {
			delete(away, uid)
		}
	}
	list := make([]NodeInfo, 0, len(x.ephemeral))
	for uid := range x.ephemeral {
		list = append(list, x.byUID[uid])
	}
	return list
}
