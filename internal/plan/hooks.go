package plan

import (
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// hooks puts the commands of Hooks into the definitions of the checks that name them: an agent
// knows none. A check is defined anew when a Hook may have changed. The caller holds compiling.
func (p *Planner) hooks(t *translation) error {
	moved := false
	for _, key := range t.keys {
		moved = moved || key.Kind == "Hook"
	}
	if moved {
		for key, def := range p.defs {
			if d, ok := def.(*checkDef); ok && d.hooks != nil {
				if _, given := t.defs[key]; !given {
					again := *d
					t.set(key, &again)
				}
			}
		}
	}
	for _, d := range t.checks() {
		if d.hooks == nil {
			continue
		}
		chunk := *d.chunk
		chunk.ID, chunk.Hooks = 0, nil
		for _, h := range d.hooks {
			if h, ok := p.hook(t, d.ns, h); ok {
				chunk.Hooks = append(chunk.Hooks, h)
			}
		}
		template, err := chunk.Template()
		if err != nil {
			return err
		}
		if d.size, err = sizeOf(&chunk); err != nil {
			return err
		}
		d.chunk, d.props, d.template = &chunk, template.Names(), nil
		if len(d.props) > 0 {
			d.template = template
		}
	}
	return nil
}

// hook is a check's hook with the command of the Hook that it names; not ok: there is none,
// which intent lets nobody come to.
func (p *Planner) hook(t *translation, ns string, h model.Hook) (model.Hook, bool) {
	if h.Hook == "" {
		return h, true
	}
	in, name := model.SplitRef(ns, h.Hook)
	d, _ := p.defined(t, intent.Key{Kind: "Hook", Namespace: in, Name: name}).(*routingDef)
	if d == nil {
		return h, false
	}
	spec := d.spec.(*model.HookSpec)
	return model.Hook{Name: h.Title(), When: h.When, Command: spec.Command, Timeout: spec.Timeout, Stdin: spec.Stdin}, true
}
