package intent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// RolloutKind is the kind of database rows with the roll-outs of directives. Their name is the unit's id.
const RolloutKind = "rollout"

// RolloutKey returns the key of the database row of a directive's roll-out.
func RolloutKey(id model.UnitID) Key { return Key{Kind: RolloutKind, Name: fmt.Sprint(id)} }

// DecodeRollout decodes a stored roll-out.
func DecodeRollout(row Row) (r model.Rollout, err error) {
	if err := json.Unmarshal(row.Body, &r); err != nil {
		return r, fmt.Errorf("decode the stored record %s: %w", row.Key, err)
	}
	return r, nil
}

// StoredRollout is a roll-out with the revision of its database row.
type StoredRollout struct {
	model.Rollout
	Revision int64
}

// Rollouts stores the progress of directives' changes that reach nodes step by step. A roll-out records how many nodes
// have a changed directive already.
type Rollouts struct{ *repository }

// List returns all stored roll-outs, sorted by the id of their directive as a text.
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

// Update replaces a stored roll-out if the caller has its newest revision.
func (s *Rollouts) Update(ctx context.Context, by Actor, next StoredRollout) error {
	write, err := rolloutWrite(next)
	if err != nil {
		return err
	}
	_, err = s.commit(ctx, by, []Write{write})
	return err
}

// rolloutWrite returns the write that stores a roll-out in the database. The write fails if the stored revision is no
// longer next.Revision.
func rolloutWrite(next StoredRollout) (Write, error) {
	body, err := json.Marshal(next.Rollout)
	if err != nil {
		return Write{}, fmt.Errorf("encode the roll-out of directive %d: %w", next.Unit, err)
	}
	return Write{Key: RolloutKey(next.Unit), Body: body, Expect: next.Revision}, nil
}

// Revert restores an older revision of a directive and its technique. If `with` is not nil, the same commit
// stores this roll-out. may says whether the author may change resources of a namespace.
func (s *Rollouts) Revert(ctx context.Context, by Actor, directive Key, revision int64, with *StoredRollout, may func(namespace string) error) error {
	var writes []Write
	revert := func(key Key) (was []byte, err error) {
		was, now, err := s.resourceAt(ctx, key, revision)
		if err == nil && was != nil && !sameJSON(was, now.Body) {
			writes = append(writes, Write{Key: key, Body: was, Expect: now.Revision})
			err = may(key.Namespace)
		}
		return was, err
	}
	was, err := revert(directive)
	if err != nil {
		return err
	}
	if was == nil {
		return model.Errorf(model.NotFound, "%s did not exist at revision %d", directive, revision).WithHint("list its changes: muster audit %s", directive)
	}
	old, err := s.decode(Row{Key: directive, Body: was})
	if err != nil {
		return err
	}
	technique := referenceKey("Technique", directive.Namespace, old.Spec.(*model.DirectiveSpec).Technique)
	if _, err := revert(technique); err != nil {
		return err // such as a technique that was deleted since
	}
	if len(writes) == 0 {
		return model.Errorf(model.Conflict, "neither %s nor %s has changed since revision %d", directive, technique, revision).
			WithHint("find the change of another resource that it uses: muster audit")
	}
	if err := s.checkRevertedSecrets(ctx, writes); err != nil {
		return err
	}
	if with != nil {
		write, err := rolloutWrite(*with)
		if err != nil {
			return err
		}
		writes = append(writes, write)
	}
	command := "muster rollout undo " + directive.Name
	if with == nil {
		command = fmt.Sprintf("%s --to %d", command, revision)
	}
	apply := pendingApply{repo: s.repository, by: by, writes: writes, previewed: s.previewed.Load()}
	if impact := s.opts.Impact; impact != nil {
		found, err := impact(ctx, writes, false)
		if err != nil {
			return err
		}
		apply.hasReview = found.HasReview
		if apply.requests, err = s.checkApproval(ctx, by, writes, found.Reviewed, AddNamespaceFlag(command, directive.Namespace), false); err != nil {
			return err
		}
	}
	_, err = apply.commit(ctx)
	return err
}

// checkRevertedSecrets returns an error if older resources, once restored, would send server secrets to untrusted
// nodes. Such a node is in no trusted group.
func (s *Rollouts) checkRevertedSecrets(ctx context.Context, writes []Write) error {
	reverted := map[Key]*model.Resource{}
	for _, w := range writes {
		r, err := s.decode(Row{Key: w.Key, Body: w.Body})
		if err != nil {
			return err
		}
		reverted[w.Key] = r
	}
	problems, err := newProposal(s.repository, reverted, nil).refusePolicySecrets(ctx, false)
	return cmp.Or(err, errors.Join(problems...))
}

// resourceAt returns a resource's JSON at an older revision, and the resource's present database row. The JSON
// is nil if the resource did not exist then.
func (s *Rollouts) resourceAt(ctx context.Context, key Key, revision int64) (body []byte, now Row, err error) {
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
