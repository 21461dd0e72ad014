package intent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// RolloutKind is the kind of the rows that store the roll-out of a unit (model.Rollout). Their name is the unit's id.
const RolloutKind = "rollout"

// RolloutKey returns the key of the row that stores the roll-out of a unit.
func RolloutKey(id model.UnitID) Key { return Key{Kind: RolloutKind, Name: fmt.Sprint(id)} }

// DecodeRollout decodes a stored roll-out.
func DecodeRollout(row Row) (r model.Rollout, err error) {
	if err := json.Unmarshal(row.Body, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", row.Key, err)
	}
	return r, nil
}

// StoredRollout is a roll-out with the revision of its row.
type StoredRollout struct {
	model.Rollout
	Revision int64
}

// Rollouts stores how far changes of directives have reached their nodes.
type Rollouts struct{ *repository }

// List returns all stored roll-outs, by the text of their unit's id.
func (s *Rollouts) List(ctx context.Context) (list []StoredRollout, err error) {
	for row, err := range s.rows(ctx, ListQuery{Kind: RolloutKind}) {
		if err != nil {
			return nil, err
		}
		r, err := DecodeRollout(row)
		if err != nil {
			return nil, err
		}
		list = append(list, StoredRollout{r, row.Revision})
	}
	return list, nil
}

// Update replaces a stored roll-out, if it still has the revision at which the caller read it.
func (s *Rollouts) Update(ctx context.Context, by Actor, next StoredRollout) error {
	write, err := rolloutWrite(next)
	if err != nil {
		return err
	}
	_, err = s.commit(ctx, by, []Write{write})
	return err
}

// rolloutWrite returns the write of a roll-out that has the revision at which the caller read it.
func rolloutWrite(next StoredRollout) (Write, error) {
	body, err := json.Marshal(next.Rollout)
	if err != nil {
		return Write{}, fmt.Errorf("encode the roll-out of unit %d: %w", next.Unit, err)
	}
	return Write{Key: RolloutKey(next.Unit), Body: body, Expect: next.Revision}, nil
}

// Revert gives a directive, and its technique, the text that they had at a revision, in one commit with their
// roll-out, if that is given. It returns the keys that it changed.
func (s *Rollouts) Revert(ctx context.Context, by Actor, directive Key, revision int64, with *StoredRollout) (changed []Key, err error) {
	was, now, err := s.textAt(ctx, directive, revision)
	if err != nil {
		return nil, err
	}
	writes := []Write{}
	add := func(key Key, was []byte, now Row) {
		if was != nil && !sameJSON(was, now.Body) {
			writes, changed = append(writes, Write{Key: key, Body: was, Expect: now.Revision}), append(changed, key)
		}
	}
	add(directive, was, now)
	if was == nil {
		return nil, model.Errorf(model.NotFound, "%s did not exist at revision %d", directive, revision).WithHint("list its changes: muster audit %s", directive)
	}
	old, err := s.decode(Row{Key: directive, Body: was})
	if err != nil {
		return nil, err
	}
	technique := referenceKey("Technique", directive.Namespace, old.Spec.(*model.DirectiveSpec).Technique)
	text, present, err := s.textAt(ctx, technique, revision)
	if err != nil {
		return nil, err // such as a technique that was deleted since
	}
	add(technique, text, present)
	if len(writes) == 0 {
		return nil, model.Errorf(model.Conflict, "neither %s nor its technique has changed since revision %d", directive, revision).
			WithHint("another resource that it uses has changed; find it: muster audit")
	}
	if with != nil {
		write, err := rolloutWrite(*with)
		if err != nil {
			return nil, err
		}
		writes = append(writes, write)
	}
	_, err = s.commit(ctx, by, writes)
	return changed, err
}

// textAt returns the body that a resource had at a revision, nil if it did not exist then, and its present row.
func (s *Rollouts) textAt(ctx context.Context, key Key, revision int64) (body []byte, now Row, err error) {
	if now, err = s.opts.Store.Get(ctx, key); err != nil {
		return nil, now, err
	}
	changes, err := s.opts.Store.ChangesBefore(ctx, ChangeQuery{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Bodies: true})
	if err != nil {
		return nil, now, err
	}
	body = now.Body
	for _, c := range changes { // newest first
		if c.Revision <= revision || c.ID != now.ID {
			break
		}
		body = c.Before
	}
	return body, now, nil
}
