package plan

import (
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/window"
)

// calendars puts the times in which checks do not run into their definitions: an agent knows
// no Windows. A check whose Window, or the zone of whose namespace, may have changed is
// defined anew, which changes nothing where it comes to the same. The caller holds compiling.
func (p *Planner) calendars(t *translation) error {
	moved := false
	for _, key := range t.keys {
		moved = moved || key.Kind == "Window" || key.Kind == "Namespace"
	}
	if moved {
		for key, def := range p.defs {
			if d, ok := def.(*checkDef); ok && len(d.except) > 0 {
				if _, given := t.defs[key]; !given {
					again := *d
					t.set(key, &again)
				}
			}
		}
	}
	for _, d := range t.checks() {
		if len(d.except) == 0 {
			continue
		}
		chunk := *d.chunk
		chunk.ID, chunk.Except = 0, nil
		for _, e := range d.except {
			chunk.Except = append(chunk.Except, p.calendar(t, d.ns, e))
		}
		size, err := sizeOf(&chunk)
		if err != nil {
			return err
		}
		d.chunk, d.size = &chunk, size
	}
	return nil
}

func (p *Planner) calendar(t *translation, ns string, e model.ScheduleException) model.Span {
	if e.Window == "" {
		return window.Inline(e.During, p.zone(t, ns))
	}
	in, name := model.SplitRef(ns, e.Window)
	d, _ := p.defined(t, intent.Key{Kind: "Window", Namespace: in, Name: name}).(*routingDef)
	if d == nil {
		return model.Span{} // intent lets nobody delete what is named: it comes from another version
	}
	spec := d.spec.(*model.WindowSpec)
	zone := spec.TimeZone
	if zone == "" {
		zone = p.zone(t, in)
	}
	return model.Span{Zone: zone, Spans: spec.Spans}
}

func (p *Planner) zone(t *translation, ns string) string {
	if d, ok := p.defined(t, intent.Key{Kind: "Namespace", Name: ns}).(*namespaceDef); ok {
		return d.zone
	}
	return ""
}

// defined is a definition as it is after the translation.
func (p *Planner) defined(t *translation, key intent.Key) any {
	if def, changed := t.defs[key]; changed {
		return def
	}
	return p.defs[key]
}
