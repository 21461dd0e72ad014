package plan

import (
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// assets puts the archives of Assets into the definitions of the checks that name them, as
// hooks does with Hooks. The caller holds compiling.
func (p *Planner) assets(t *translation) error {
	moved := false
	for _, key := range t.keys {
		moved = moved || key.Kind == "Asset"
	}
	if moved {
		for key, def := range p.defs {
			if d, ok := def.(*checkDef); ok && d.assets != nil {
				if _, given := t.defs[key]; !given {
					again := *d
					t.set(key, &again)
				}
			}
		}
	}
	for _, d := range t.checks() {
		if d.assets == nil {
			continue
		}
		chunk := *d.chunk
		chunk.ID, chunk.Assets = 0, nil
		for _, name := range d.assets {
			in, of := model.SplitRef(d.ns, name)
			if def, _ := p.defined(t, intent.Key{Kind: "Asset", Namespace: in, Name: of}).(*routingDef); def != nil { // else intent lets nobody come to it
				chunk.Assets = append(chunk.Assets, chunkAsset(name, def.spec.(*model.AssetSpec)))
			}
		}
		var err error
		if d.size, err = sizeOf(&chunk); err != nil {
			return err
		}
		d.chunk = &chunk
	}
	return nil
}

func chunkAsset(name string, spec *model.AssetSpec) model.ChunkAsset {
	a := model.ChunkAsset{Name: name}
	for _, b := range spec.Builds {
		b.URL = ""
		a.Builds = append(a.Builds, b)
	}
	return a
}

// HandlerAssets are the Assets that handlers name, as NAMESPACE/NAME.
func (p *Planner) HandlerAssets() []string {
	return read(p, func(f *fleet) (list []string) {
		for _, d := range f.handlers {
			list = append(list, d.spec.Assets...)
		}
		return list
	})
}
