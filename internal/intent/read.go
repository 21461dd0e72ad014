package intent

import (
	"context"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// Get returns one resource.
func (s *Service) Get(ctx context.Context, key Key) (*model.Resource, error) {
	row, err := s.opts.Store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.decode(row)
}

// List returns all resources of a kind, in key order, that match. match may be nil.
func (s *Service) List(ctx context.Context, q ListQuery, match func(*model.Resource) bool) ([]model.Resource, error) {
	q.Limit = 0
	out, _, err := s.list(ctx, q, match, 0)
	return out, err
}

// pageBytes is how much one page holds at most, beside its last resource, as stored.
const pageBytes = 8 << 20

// Page is List from the key q.After on, at most q.Limit of them, and fewer where they
// are long; more says that others follow the last one.
func (s *Service) Page(ctx context.Context, q ListQuery, match func(*model.Resource) bool) (items []model.Resource, more bool, err error) {
	return s.list(ctx, q, match, pageBytes)
}

// rowsAtOnce are read from the store at a time.
const rowsAtOnce = 250

func (s *Service) list(ctx context.Context, q ListQuery, match func(*model.Resource) bool, most int) (out []model.Resource, more bool, err error) {
	page, size := q, 0
	page.Limit = rowsAtOnce
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
	Was      string    `json:"was,omitempty"` // the name before, of what was renamed
	Diff     string    `json:"diff,omitempty"`
}

// Audit returns recorded changes, newest first; with their differences, if the query
// wants bodies. With redact, these show what Kinds.Redact leaves.
func (s *Service) Audit(ctx context.Context, q ChangeQuery, redact bool) ([]AuditEntry, error) {
	q.NotKinds = []string{"chunk"} // compiled from what stands beside it
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

// redacted is a recorded body without secrets; none where it cannot be read.
func (s *Service) redacted(key Key, body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	r, err := s.decode(Row{Key: key, Body: body})
	if err != nil {
		return nil
	}
	out, err := encode(s.opts.Kinds.Redact(r))
	if err != nil {
		return nil
	}
	return out
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
	text, err := document.YAML(body)
	if err != nil {
		return string(body) + "\n"
	}
	return string(text)
}
