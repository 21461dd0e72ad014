package intent

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Retention deletes expired audit records, join tokens, tombstones and silences.
type Retention struct{ *repository }

const (
	retentionInterval = time.Hour
	retentionBatch    = 1000 // changes removed in one transaction: other writes run between two of them
	// expiredTokenLife is how long people see a join token that has expired.
	expiredTokenLife = 30 * 24 * time.Hour
)

// EnforceRetention deletes old audit records and expired join tokens, tombstones and silences, every hour until ctx
// ends.
func (s *Retention) EnforceRetention(ctx context.Context) error {
	tick := time.NewTicker(retentionInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.deleteExpired(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("cannot delete old changes, join tokens and tombstones; the server retries in an hour", "err", err)
			}
		}
	}
}

// deleteExpired deletes expired audit records, join tokens, tombstones of removed nodes, and silences
func (s *Retention) deleteExpired(ctx context.Context) error {
	now := s.opts.Now()
	for removed := retentionBatch; removed == retentionBatch && s.opts.AuditRetention > 0; {
		var err error
		if removed, err = s.opts.Store.ForgetChanges(ctx, now.Add(-s.opts.AuditRetention), retentionBatch); err != nil {
			return err
		}
	}
	for writes := range slices.Chunk(s.tombstones.expiredWrites(), retentionBatch) {
		if _, err := s.commit(ctx, serverActor("expired tombstones"), writes); err != nil {
			return err
		}
	}
	if err := s.deleteEndedSilences(ctx, now); err != nil {
		return err
	}
	tokens := JoinTokens{Store: s.opts.Store}
	list, err := tokens.List(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Expires.IsZero() || now.Before(t.Expires.Add(expiredTokenLife)) {
			continue
		}
		if err := tokens.Delete(ctx, serverActor("join token expired"), t.ID); err != nil && model.ClassOf(err) != model.NotFound {
			return err
		}
	}
	return nil
}

// endedSilenceLife is how long an ended silence stays visible. The audit keeps its changes.
const endedSilenceLife = 7 * 24 * time.Hour

// SilenceEnd has the key of an ended silence, and the time of its end
type SilenceEnd struct {
	Key
	At time.Time
}

// EndSilences deletes silences after their end, and names the server as author in the audit. The audit names
// the server as the author. It skips silences that do not exist any more, and new silences of the same name
// that were created after the end.
func (s *Retention) EndSilences(ctx context.Context, why string, ends []SilenceEnd) error {
	for _, end := range ends {
		row, err := s.opts.Store.Get(ctx, end.Key)
		if err == nil && !row.Created.After(end.At) {
			_, err = s.commit(ctx, serverActor(why), []Write{{Key: end.Key, Expect: row.Revision}})
		}
		if class := model.ClassOf(err); err != nil && class != model.NotFound && class != model.Conflict {
			return err
		}
	}
	return nil
}

// deleteEndedSilences deletes silences that ended more than a week ago.
func (s *Retention) deleteEndedSilences(ctx context.Context, now time.Time) error {
	rows, err := s.opts.Store.List(ctx, ListQuery{Kind: "Silence"})
	if err != nil {
		return err
	}
	var over []SilenceEnd
	for _, row := range rows {
		r, err := s.decode(row)
		if err != nil {
			return err
		}
		if spec, ok := r.Spec.(*model.SilenceSpec); ok && !spec.Until.IsZero() && now.Sub(spec.Until.Time) > endedSilenceLife {
			over = append(over, SilenceEnd{row.Key, now})
		}
	}
	return s.EndSilences(ctx, "the silence ended a week ago", over)
}

const (
	absentTooLong = "disconnected for too long"
	// forgottenTombstoneLife is how long the machine of a forgotten node learns the reason when it connects.
	forgottenTombstoneLife = 7 * 24 * time.Hour
	forgetInterval         = 5 * time.Second
	maxForgetBatch         = 500 // nodes of one commit
)

// ForgetAbsentNodes removes ephemeral nodes without a session for NodeInfo.ForgetAfter, until ctx ends. Only listening
// time counts, and each start of the server counts from zero.
func (s *Nodes) ForgetAbsentNodes(ctx context.Context) error {
	away := map[uuid.UUID]time.Duration{}
	tick := time.NewTicker(forgetInterval)
	defer tick.Stop()
	last := s.opts.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := s.opts.Now()
		passed := min(max(0, now.Sub(last)), 2*forgetInterval)
		last = now
		if err := s.forgetAbsent(ctx, away, passed); err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn("cannot delete ephemeral nodes whose agents were disconnected too long; the server retries", "err", err)
		}
	}
}

// forgetAbsent removes ephemeral nodes that are absent for too long. It adds the time since the last call to the
// absence of each ephemeral node without a session.
func (s *Nodes) forgetAbsent(ctx context.Context, away map[uuid.UUID]time.Duration, passed time.Duration) error {
	var keys []Key
	for _, node := range s.nodes.ephemeralNodes(away) {
		if s.opts.Connected != nil && s.opts.Connected(node.ID) {
			delete(away, node.UID)
			continue
		}
		before, known := away[node.UID]
		if known { // a node that disconnected since the last round starts with absence 0
			before += passed
		}
		if away[node.UID] = before; before >= node.ForgetAfter && len(keys) < maxForgetBatch {
			keys = append(keys, Key{"Node", node.Namespace, node.Name})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	t := Tombstone{Cause: ReasonForgotten, Until: s.opts.Now().UTC().Add(forgottenTombstoneLife)}
	_, err := s.deregisterNodes(ctx, serverActor(absentTooLong), keys, t, ApplyOptions{Yes: true})
	if class := model.ClassOf(err); err != nil && (class == model.Conflict || class == model.NotFound) {
		return nil // the node was changed or deleted meanwhile: the next round decides
	}
	return err
}

// EphemeralNodes returns the nodes with an ephemeral lifecycle.
func (s *Nodes) EphemeralNodes() []NodeInfo { return s.nodes.ephemeralNodes(nil) }

// ForgottenNode is an ephemeral node that the server removed after a long absence. It lists the handlers to notify.
type ForgottenNode struct {
	Namespace, Node string
	Handlers        []string // handlers, NAMESPACE/NAME
	Reason          string
	Entity          []byte // the entity that its Sensu agent reported, as JSON, with its name; nil: there is none
}

// namedEntity returns the Sensu entity of a node, with the name that the Sensu agent uses.
func namedEntity(node *model.Resource, spec *model.NodeSpec) []byte {
	entity := map[string]json.RawMessage{}
	if spec.AgentEntity == nil || json.Unmarshal(spec.AgentEntity, &entity) != nil {
		return spec.AgentEntity
	}
	entity["name"], _ = json.Marshal(model.EntityName(node.Metadata, spec)) // a text
	encoded, err := json.Marshal(entity)
	if err != nil {
		panic("BUG: " + err.Error()) // decoded JSON has an encoding
	}
	return encoded
}

// ForgottenNode returns the ephemeral node that the server removed in the recorded change, or nil. It has the handlers
// to notify. The result is nil if the change removed no ephemeral node.
func (c *Change) ForgottenNode() *ForgottenNode {
	if c.Key.Kind != "Node" || c.After != nil || c.Actor.User != "server" || c.Actor.Message != absentTooLong {
		return nil
	}
	node, spec, err := decodeNode(Row{Key: c.Key, Body: c.Before})
	if err != nil {
		return nil
	}
	life := spec.EffectiveLifecycle()
	if life == nil {
		return nil
	}
	l := &ForgottenNode{Namespace: c.Key.Namespace, Node: c.Key.Name, Reason: "no session for " + model.Duration(life.ForgetDelay()).String(), Entity: namedEntity(node, spec)}
	for _, ref := range life.Handlers {
		ns, name := model.SplitRef(c.Key.Namespace, ref)
		l.Handlers = append(l.Handlers, ns+"/"+name)
	}
	return l
}
