package intent

import (
	"context"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// proposal is intent as an apply would leave it: the applied resources, then those on record. It reads each row once,
// and rows known beforehand in one query. Use one proposal for one apply.
type proposal struct {
	repo    *repository
	applied map[Key]*model.Resource
	deleted map[Key]bool
	rows    map[Key]*Row // nil: not on record
	decoded map[Key]*model.Resource
}

func newProposal(repo *repository, applied map[Key]*model.Resource, deleted map[Key]bool) *proposal {
	return &proposal{repo: repo, applied: applied, deleted: deleted, rows: map[Key]*Row{}, decoded: map[Key]*model.Resource{}}
}

// read reads the rows of all keys that are not known yet, in one query.
func (p *proposal) read(ctx context.Context, keys []Key) error {
	var missing []Key
	for _, key := range keys {
		if _, known := p.rows[key]; !known {
			p.rows[key] = nil
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := p.repo.opts.Store.GetAll(ctx, missing)
	if err != nil {
		return err
	}
	for i := range rows {
		p.rows[rows[i].Key] = &rows[i]
	}
	return nil
}

// readAll reads the rows of all applied resources and of their references, along chains: one query for each step of
// the longest chain.
func (p *proposal) readAll(ctx context.Context) error {
	keys := slices.Collect(maps.Keys(p.applied))
	for _, r := range p.applied {
		if ns := KeyOf(r).Namespace; ns != "" {
			keys = append(keys, Key{Kind: "Namespace", Name: ns})
		}
		keys = append(keys, p.referencedKeys(r, false)...)
	}
	for len(keys) > 0 {
		if err := p.read(ctx, keys); err != nil {
			return err
		}
		var next []Key
		for _, key := range keys {
			if k, _ := p.repo.opts.Kinds.Of(key.Kind); k.Cycle.Problem == "" {
				continue
			}
			r, err := p.resource(ctx, key)
			if err != nil || r == nil {
				continue // whoever needs the row reports the error
			}
			for _, key := range p.referencedKeys(r, true) {
				if _, known := p.rows[key]; !known {
					next = append(next, key)
				}
			}
		}
		keys = next
	}
	return nil
}

// referencedKeys returns the keys that a resource refers to. With chain it returns its own kind only. Nodes with a
// machine are known without a query.
func (p *proposal) referencedKeys(r *model.Resource, chain bool) (keys []Key) {
	lookups := 0
	for _, ref := range p.repo.opts.Kinds.References(r) {
		if chain && !ref.Chain {
			continue
		}
		key := Key{ref.Kind, ref.Namespace, ref.Name}
		if ref.Kind == "Node" && !ref.Required {
			if p.repo.nodes.hasMachine([]string{key.Namespace}, key.Name) || lookups == maxNodeLookups {
				continue
			}
			lookups++
		}
		keys = append(keys, key)
	}
	return keys
}

// row returns a row on record; nil: there is none.
func (p *proposal) row(ctx context.Context, key Key) (*Row, error) {
	if err := p.read(ctx, []Key{key}); err != nil {
		return nil, err
	}
	return p.rows[key], nil
}

// resource returns a resource as the apply leaves it; nil: there is none.
func (p *proposal) resource(ctx context.Context, key Key) (*model.Resource, error) {
	if p.deleted[key] {
		return nil, nil
	}
	if r := p.applied[key]; r != nil {
		return r, nil
	}
	if r := p.decoded[key]; r != nil {
		return r, nil
	}
	row, err := p.row(ctx, key)
	if err != nil || row == nil {
		return nil, err
	}
	r, err := p.repo.decode(*row)
	if err != nil {
		return nil, err
	}
	p.decoded[key] = r
	return r, nil
}

// specOf returns the spec of a resource as the apply leaves it; nil: there is none.
func specOf[S any](ctx context.Context, p *proposal, key Key) (*S, error) {
	r, err := p.resource(ctx, key)
	if err != nil || r == nil {
		return nil, err
	}
	spec, _ := r.Spec.(any).(*S)
	return spec, nil
}
