package intent

import (
	"context"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/muster-fleet/muster/internal/model"
)

// Get returns one resource.
func (s *Service) Get(ctx context.Context, key Key) (*model.Resource, error) {
	row, err := s.opts.Store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return decode(row)
}

// List returns resources of a kind in key order that match, after a key, at most
// limit (zero: all). match may be nil.
func (s *Service) List(ctx context.Context, q ListQuery, match func(*model.Resource) bool) ([]model.Resource, error) {
	var out []model.Resource
	page := q
	page.Limit = 1000
	for {
		rows, err := s.opts.Store.List(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			r, err := decode(row)
			if err != nil {
				return nil, err
			}
			if match == nil || match(r) {
				if out = append(out, *r); q.Limit > 0 && len(out) == q.Limit {
					return out, nil
				}
			}
		}
		if len(rows) < page.Limit {
			return out, nil
		}
		page.After = rows[len(rows)-1].Key
	}
}

// AuditEntry is one recorded change of a resource, for people.
type AuditEntry struct {
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	Who      Who       `json:"who"`
	Key      Key       `json:"key"`
	Op       string    `json:"op"`
	Diff     string    `json:"diff,omitempty"`
}

// Audit returns what was recorded after a revision, oldest first.
func (s *Service) Audit(ctx context.Context, after int64, limit int) ([]AuditEntry, error) {
	changes, err := s.opts.Store.Changes(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]AuditEntry, 0, len(changes))
	for _, c := range changes {
		if c.Key.Kind == "chunk" {
			continue // compiled from what stands beside it
		}
		out = append(out, AuditEntry{Revision: c.Revision, At: c.At, Who: c.Who, Key: c.Key, Op: c.Op, Diff: difference(c.Before, c.After)})
	}
	return out, nil
}

// difference shows two bodies as the YAML that people write.
func difference(before, after []byte) string {
	if before == nil && after == nil {
		return ""
	}
	return udiff.Unified("before", "after", asYAML(before), asYAML(after))
}

func asYAML(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	text, err := model.YAML(body)
	if err != nil {
		return string(body) + "\n"
	}
	return string(text)
}

// DiffAgainst shows how a resource differs from what is kept, without applying it.
func (s *Service) DiffAgainst(ctx context.Context, r *model.Resource) (string, error) {
	out, err := s.Apply(ctx, Who{}, []model.Resource{*r}, ApplyOptions{DryRun: true})
	if err != nil || len(out.Outcomes) == 0 {
		return "", err
	}
	return out.Outcomes[0].Diff, nil
}
