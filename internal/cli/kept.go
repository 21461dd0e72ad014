package cli

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// sensuNotes names, once for each file, what only runs because Sensu had it.
func (a *app) sensuNotes(docs []declaration) (notes []string) {
	in, of := map[string][]string{}, []string{}
	for _, d := range docs {
		k, _ := a.Kinds.Of(d.located.Kind)
		what := k.FromSensu(d.located.Spec)
		if what == "" {
			continue
		}
		if len(in[d.located.File]) == 0 {
			of = append(of, d.located.File)
		}
		if !strings.Contains(strings.Join(in[d.located.File], ", "), what) {
			in[d.located.File] = append(in[d.located.File], what)
		}
	}
	for _, file := range of {
		notes = append(notes, fmt.Sprintf("%s: kept from Sensu: %s. It runs as it is; Muster's own kind for notifications is Route (%s)",
			file, strings.Join(in[file], ", "), model.SensuKindsPage))
	}
	return notes
}
