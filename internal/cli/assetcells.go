package cli

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// machines says in words which machines an asset has archives for.
func machines(s *model.AssetSpec) string {
	var list []string
	for i := range s.Builds {
		list = append(list, s.Builds[i].For())
	}
	return strings.Join(list, ", ")
}

// needsAssets shows which Assets something names.
func (a *app) needsAssets(names []string) {
	if len(names) > 0 {
		a.field("assets", "%s", strings.Join(names, ", "))
	}
}
