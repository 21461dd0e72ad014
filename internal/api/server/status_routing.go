package server

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// unroutedWarnings warns of namespaces with open problems for which nobody is notified by default:
// no Route matches everything, none is called default, and the namespace names no handlers.
func (s *request) unroutedWarnings(namespace string) (warnings []string) {
	for id, counts := range s.Events.CountsByNamespace() {
		name, ok := s.Directory.NamespaceName(id)
		if !ok || counts.Problems == 0 || namespace != "" && name != namespace {
			continue
		}
		m := &route.Problem{Node: route.Name{Namespace: name}, Status: model.Critical, Severity: model.High}
		if _, by := notification.Routes(s.View, m, nil); by == route.NoRecipient {
			warnings = append(warnings, fmt.Sprintf("nobody is told of problems in namespace %s that no Route matches and whose check names no handler; a Route called default would take them: muster explain route", name))
		}
	}
	slices.Sort(warnings)
	return warnings
}
