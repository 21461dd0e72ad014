package plan

import (
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// secrets puts into the definitions of checks where an agent finds the values that it needs: on the
// node itself, or by asking the server for them by name. No value is in a definition. A check is
// defined anew when a Secret may have changed. The caller holds compiling.
func (p *Planner) secrets(t *translation) error {
	moved := false
	for _, key := range t.keys {
		moved = moved || key.Kind == "Secret"
	}
	if moved {
		for key, def := range p.defs {
			if d, ok := def.(*checkDef); ok && len(d.secrets) > 0 {
				if _, given := t.defs[key]; !given {
					again := *d
					t.set(key, &again)
				}
			}
		}
	}
	for _, d := range t.checks() {
		if len(d.secrets) == 0 {
			continue
		}
		chunk := *d.chunk
		chunk.ID, chunk.Secrets = 0, nil
		for _, s := range d.secrets {
			in, name := model.SplitRef(d.ns, s.Secret)
			known := model.ChunkSecret{Env: s.Env, Name: in + "/" + name}
			if def, _ := p.defined(t, intent.Key{Kind: "Secret", Namespace: in, Name: name}).(*secretDef); def != nil {
				known.AgentEnv, known.AgentFile = def.spec.AgentEnv, def.spec.AgentFile
			} // else the server says that there is none, which intent lets nobody come to
			chunk.Secrets = append(chunk.Secrets, known)
		}
		size, err := sizeOf(&chunk)
		if err != nil {
			return err
		}
		d.chunk, d.size = &chunk, size
	}
	return nil
}

// Secret implements Directory: where the value of a Secret is. The specification must not be
// changed.
func (p *Planner) Secret(namespace, name string) (*model.SecretSpec, bool) {
	d := read(p, func(f *fleet) *secretDef { return f.secrets[ref{namespace, name}] })
	if d == nil {
		return nil, false
	}
	return d.spec, true
}
