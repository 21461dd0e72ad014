package intent

import (
	"context"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// lookup answers what resources an apply leaves: those that it writes, then those on record. It
// reads each row once, and rows that are known beforehand in one query. Use one lookup for one
// apply.
type lookup struct {
	service *Service
	applied map[Key]*model.Resource
	deleted map[Key]bool
	rows    map[Key]*Row // nil: not on record
	decoded map[Key]*model.Resource
}

func (s *Service) newLookup(applied map[Key]*model.Resource, deleted map[Key]bool) *lookup {
	return &lookup{service: s, applied: applied, deleted: deleted, rows: map[Key]*Row{}, decoded: map[Key]*model.Resource{}}
}

// read reads the rows of all keys that are not known yet, in one query.
func (l *lookup) read(ctx context.Context, keys []Key) error {
	var missing []Key
	for _, key := range keys {
		if _, known := l.rows[key]; !known {
			l.rows[key] = nil
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := l.service.opts.Store.GetAll(ctx, missing)
	if err != nil {
		return err
	}
	for i := range rows {
		l.rows[rows[i].Key] = &rows[i]
	}
	return nil
}

// readAll reads the rows of everything that is applied, and of everything that it refers to,
// along chains of references: one query for each step of the longest chain.
func (l *lookup) readAll(ctx context.Context) error {
	keys := slices.Collect(maps.Keys(l.applied))
	for _, r := range l.applied {
		if ns := KeyOf(r).Namespace; ns != "" {
			keys = append(keys, Key{Kind: "Namespace", Name: ns})
		}
		keys = append(keys, l.references(r, false)...)
	}
	for len(keys) > 0 {
		if err := l.read(ctx, keys); err != nil {
			return err
		}
		var next []Key
		for _, key := range keys {
			if k, _ := l.service.opts.Kinds.Of(key.Kind); k.Cycle.Problem == "" {
				continue
			}
			r, err := l.resource(ctx, key)
			if err != nil || r == nil {
				continue // whoever needs the row reports the error
			}
			for _, key := range l.references(r, true) {
				if _, known := l.rows[key]; !known {
					next = append(next, key)
				}
			}
		}
		keys = next
	}
	return nil
}

// references returns the keys that a resource refers to; those of its own kind only with chain.
// Nodes with a machine are known without a query.
func (l *lookup) references(r *model.Resource, chain bool) (keys []Key) {
	lookups := 0
	for _, ref := range l.service.opts.Kinds.References(r) {
		if chain && !ref.Chain {
			continue
		}
		key := Key{ref.Kind, ref.Namespace, ref.Name}
		if ref.Kind == "Node" && !ref.Required {
			if l.service.nodes.holds([]string{key.Namespace}, key.Name) || lookups == maxNodeLookups {
				continue
			}
			lookups++
		}
		keys = append(keys, key)
	}
	return keys
}

// row returns a row on record; nil: there is none.
func (l *lookup) row(ctx context.Context, key Key) (*Row, error) {
	if err := l.read(ctx, []Key{key}); err != nil {
		return nil, err
	}
	return l.rows[key], nil
}

// resource returns a resource as the apply leaves it; nil: there is none.
func (l *lookup) resource(ctx context.Context, key Key) (*model.Resource, error) {
	if l.deleted[key] {
		return nil, nil
	}
	if r := l.applied[key]; r != nil {
		return r, nil
	}
	if r := l.decoded[key]; r != nil {
		return r, nil
	}
	row, err := l.row(ctx, key)
	if err != nil || row == nil {
		return nil, err
	}
	r, err := l.service.decode(*row)
	if err != nil {
		return nil, err
	}
	l.decoded[key] = r
	return r, nil
}

// specOf returns the spec of a resource as the apply leaves it; nil: there is none.
func specOf[S any](ctx context.Context, l *lookup, key Key) (*S, error) {
	r, err := l.resource(ctx, key)
	if err != nil || r == nil {
		return nil, err
	}
	spec, _ := r.Spec.(any).(*S)
	return spec, nil
}
