package plan

import "github.com/muster-fleet/muster/internal/model"

// Passive is a check as who brings results from outside asks for it.
type Passive struct {
	Chunk    *model.CheckChunk // that judges its results now; nil: agents run this check
	Disabled bool              // no result is wanted
	Source   string            // its label source: for whom it was made; empty: for nobody in particular
}

// Passive finds a check by its name; not ok: there is none.
func (p *Planner) Passive(namespace, name string) (c Passive, ok bool) {
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

// Passives are all passive checks.
func (p *Planner) Passives() (ids []model.CheckID) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for id, c := range p.fleet.checks {
		if c.def != nil && c.def.passive {
			ids = append(ids, id)
		}
	}
	return ids
}

// PassivesIn are the passive checks of a namespace that were made for a source; empty: all.
func (p *Planner) PassivesIn(namespace, source string) (ids []model.CheckID) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for id, c := range p.fleet.checks {
		if d := c.def; d != nil && d.passive && d.ns == namespace && (source == "" || d.shown.labels[model.SourceLabel] == source) {
			ids = append(ids, id)
		}
	}
	return ids
}
