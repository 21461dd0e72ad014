package run

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Asset is an extracted archive that a command needs.
type Asset = model.AssetDir

// pathOf is the list in which programs are looked for.
func pathOf(env []string) (path string) {
	for _, kv := range env {
		if p, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = p
		}
	}
	return path
}
