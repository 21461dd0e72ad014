package intent

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Retire takes nodes out of service, in one commit and with the guard of Apply: their
// rows go, and with them their events; tombstones stay, so that a machine that comes
// back hears why it is refused.
func (s *Service) Retire(ctx context.Context, by Actor, keys []Key, o ApplyOptions) (ApplyResult, error) {
	return s.bury(ctx, by, keys, Tombstone{Why: ReasonRetired, Reason: by.Why}, o)
}

func (s *Service) bury(ctx context.Context, by Actor, keys []Key, t Tombstone, o ApplyOptions) (ApplyResult, error) {
	a := application{service: s, by: by, opts: o}
	for _, key := range keys {
		row, err := s.opts.Store.Get(ctx, key)
		if err != nil {
			return ApplyResult{}, err
		}
		a.bury(row, t)
		a.read(row)
		a.add(Write{Key: key, Expect: row.Revision, Retire: t.Why == ReasonRetired}, Outcome{Key: key, Op: OpRetired, Warnings: disowned(row)})
	}
	return a.finish(ctx)
}

// bury adds the tombstone of a node's row. A node that never had a machine of its own
// leaves none; one that is only deleted leaves one where its machine may come back.
func (a *application) bury(row Row, t Tombstone) {
	r, err := a.service.decode(row)
	if err != nil {
		return // then nobody can be it
	}
	spec := r.Spec.(*model.NodeSpec)
	uid, err := uuid.Parse(spec.UID)
	if err != nil {
		return
	}
	if info, ok := a.service.LookupNode(uid); ok {
		if info.ID != model.NodeID(row.ID) {
			return // a twin: the machine is the other node
		}
		if spec.Key == "" {
			spec.Key = info.Key // on its way into the row
		}
	}
	if spec.Key == "" && t.Why == ReasonDeleted {
		return
	}
	t.Name, t.Namespace, t.Key, t.By, t.At = row.Name, row.Namespace, spec.Key, a.by.User, a.service.opts.Now().UTC()
	a.graves = append(a.graves, t.write(uid.String()))
}

// TombstoneEntry is a tombstone with the name of its row.
type TombstoneEntry struct {
	ID string
	Tombstone
}

// ListTombstones are all tombstones that are in force, the newest first.
func (s *Service) ListTombstones() []TombstoneEntry {
	now := s.opts.Now()
	s.nodes.mu.RLock()
	var out []TombstoneEntry
	for id, t := range s.nodes.tombs.by {
		if t.Until.IsZero() || now.Before(t.Until) {
			out = append(out, TombstoneEntry{id, t})
		}
	}
	s.nodes.mu.RUnlock()
	slices.SortFunc(out, func(a, b TombstoneEntry) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// LiftTombstone takes a tombstone away: its machine is unknown from then on, and may ask to join.
func (s *Service) LiftTombstone(ctx context.Context, by Actor, id string) error {
	writes := s.nodes.lift(id)
	if writes == nil {
		return ErrNoTombstone(id)
	}
	_, err := s.commit(ctx, by, writes)
	return err
}

// ErrNoTombstone is the answer about an id that no tombstone has.
func ErrNoTombstone(id string) error {
	return model.Errorf(model.NotFound, "there is no tombstone %s", id).WithHint("all of them: muster node list --retired")
}
