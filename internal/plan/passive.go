package plan

import (
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// PassiveCheck finds a check by its name; not ok: there is none.
func (p *Planner) PassiveCheck(namespace, name string) (c directory.PassiveCheck, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	id, ok := p.fleet.checkByName[ref{namespace, name}]
	if !ok {
		return c, false
	}
	def := p.fleet.checks[id].def
	if def.passive {
		c.Chunk = def.chunk
	}
	c.Disabled, c.Source = def.disabled, def.shown.labels[model.SourceLabel]
	return c, true
}

// PassiveChecks returns the passive checks of a namespace that were made for a source; empty: all.
func (p *Planner) PassiveChecks(namespace, source string) (ids []model.CheckID) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for id, c := range p.fleet.checks {
		if d := c.def; d != nil && d.passive && (namespace == "" || d.ns == namespace) && (source == "" || d.shown.labels[model.SourceLabel] == source) {
			ids = append(ids, id)
		}
	}
	return ids
}
