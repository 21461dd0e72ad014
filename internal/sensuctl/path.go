package sensuctl

import (
	"net/url"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Takes says whether a path is one that sensuctl asks, and none of Muster's own.
func Takes(path string) bool {
	switch path {
	case "/auth", "/version", "/health":
		return true
	}
	if strings.HasPrefix(path, "/auth/") {
		return true
	}
	_, ok := parsePath(path)
	return ok
}

// place is what a path names: /api/GROUP/VERSION/[namespaces/NAMESPACE/]TYPE[/NAME…].
type place struct {
	group     string // core/v2
	namespace string // as it is called here; empty: all of them
	kind      string // checks
	names     []string
}

// maxDepth is how many parts of a path are told apart.
const maxDepth = 16

// parsePath takes an escaped path apart.
func parsePath(path string) (p place, ok bool) {
	rest, ok := strings.CutPrefix(path, "/api/")
	if !ok {
		return p, false
	}
	parts := strings.SplitN(rest, "/", maxDepth)
	for i, part := range parts {
		clear, err := url.PathUnescape(part)
		if err != nil {
			return p, false
		}
		parts[i] = clear
	}
	if parts[0] == "v1" || len(parts) < 3 || len(parts) == maxDepth { // Muster's own
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

// name is the i-th name after the type as it is called here; empty: there is none.
func (p *place) name(i int) string {
	if i >= len(p.names) {
		return ""
	}
	return model.CleanName(p.names[i])
}
