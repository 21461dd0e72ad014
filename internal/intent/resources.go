package intent

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Resources reads and changes declared resources.
type Resources struct{ *repository }

// Get returns one resource.
func (s *Resources) Get(ctx context.Context, key Key) (*model.Resource, error) {
	row, err := s.opts.Store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.decode(row)
}

// List returns all resources of a kind that match, in key order. match may be nil.
func (s *Resources) List(ctx context.Context, q ListQuery, match func(*model.Resource) bool) ([]model.Resource, error) {
	q.Limit = 0
	out, _, err := s.list(ctx, q, match, 0)
	return out, err
}

// pageBytes bounds the stored bytes of one page, without its last resource.
const pageBytes = 8 << 20

// Page is List from the key q.After on: at most q.Limit resources and about pageBytes. more: others follow.
func (s *Resources) Page(ctx context.Context, q ListQuery, match func(*model.Resource) bool) (items []model.Resource, more bool, err error) {
	return s.list(ctx, q, match, pageBytes)
}

// rowsAtOnce is the number of rows per query of a list.
const listBatch = 250

func (s *Resources) list(ctx context.Context, q ListQuery, match func(*model.Resource) bool, most int) (out []model.Resource, more bool, err error) {
	page, size := q, 0
	page.Limit = listBatch
	for {
		rows, err := s.opts.Store.List(ctx, page)
		if err != nil {
			return nil, false, err
		}
		for _, row := range rows {
			r, err := s.decode(row)
			if err != nil {
				return nil, false, err
			}
			if match != nil && !match(r) {
				continue
			}
			if q.Limit > 0 && len(out) == q.Limit || most > 0 && size > most {
				return out, true, nil
			}
			out = append(out, *r)
			size += len(row.Body)
		}
		if len(rows) < page.Limit {
			return out, false, nil
		}
		page.After = rows[len(rows)-1].Key
	}
}

// AuditEntry is one recorded change of a resource, for people.
type AuditEntry struct {
	Revision int64     `json:"revision"`
	Part     int       `json:"part"`
	At       time.Time `json:"at"`
	Who      Actor     `json:"who"`
	Key      Key       `json:"key"`
	Op       string    `json:"op"`
	Was      string    `json:"was,omitempty"` // the name before a rename
	Diff     string    `json:"diff,omitempty"`
}

// Audit returns recorded changes, newest first; with differences, if the query wants bodies. redact hides secrets in
// them.
func (s *Resources) Audit(ctx context.Context, q ChangeQuery, redact bool) ([]AuditEntry, error) {
	q.NotKinds = []string{"chunk"} // compiled from recorded resources
	changes, err := s.opts.Store.ChangesBefore(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]AuditEntry, len(changes))
	for i, c := range changes {
		if redact {
			c.Before, c.After = s.redacted(c.Key, c.Before), s.redacted(c.Key, c.After)
		}
		out[i] = AuditEntry{Revision: c.Revision, Part: c.Part, At: c.At, Who: c.Who, Key: c.Key, Op: c.Op, Was: c.Was, Diff: difference(c.Before, c.After)}
	}
	return out, nil
}
