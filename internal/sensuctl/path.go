package sensuctl

import (
	"net/url"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// IsSensuPath reports whether a path belongs to Sensu's API.
func IsSensuPath(path string) bool {
	switch path {
	case "/auth", "/version", "/health":
		return true
	}
	_, ok := parsePath(path)
	return ok || strings.HasPrefix(path, "/auth/")
}

// place holds the parts of a path: /api/GROUP/VERSION/[namespaces/NAMESPACE/]TYPE[/NAME…].
type place struct {
	group     string // core/v2
	namespace string // Muster's name of it; empty: all namespaces
	kind      string // checks
	names     []string
}

const maxPathParts = 16

// parsePath splits an escaped path. Muster's own paths (/api/v1) are not ok.
func parsePath(path string) (p place, ok bool) {
	rest, ok := strings.CutPrefix(path, "/api/")
	if !ok {
		return p, false
	}
	parts := strings.SplitN(rest, "/", maxPathParts)
	for i, part := range parts {
		var err error
		if parts[i], err = url.PathUnescape(part); err != nil {
			return p, false
		}
	}
	if parts[0] == "v1" || len(parts) < 3 || len(parts) == maxPathParts {
		return p, false
	}
	if p.group, parts = parts[0]+"/"+parts[1], parts[2:]; len(parts) > 1 && strings.HasPrefix(p.group, "enterprise/") {
		p.group, parts = p.group+"/"+parts[0], parts[1:] // /api/enterprise/licensing/v2/license
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		p.namespace, parts = model.CleanName(parts[1]), parts[2:]
		if p.namespace == "" {
			return p, false
		}
	}
	p.kind, p.names = parts[0], parts[1:]
	for len(p.names) > 0 && p.names[len(p.names)-1] == "" { // /users/
		p.names = p.names[:len(p.names)-1]
	}
	return p, p.kind != ""
}

// name returns Muster's form of the i-th name after the type; empty: there is none.
func (p *place) name(i int) string {
	if i >= len(p.names) {
		return ""
	}
	return model.CleanName(p.names[i])
}
