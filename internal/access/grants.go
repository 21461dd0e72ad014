package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Roles of people. Each one includes those before it.
const (
	Viewer   = "viewer"   // reads
	Operator = "operator" // also runs checks, silences, acknowledges and resolves, tries handlers
	Admin    = "admin"    // also declares resources; everywhere, also manages users and the server
)

// Roles of programs. Nobody logs in with them, and each opens one door that is not the API. The
// password of Agent stands on every machine, so it never opens the door of Alerts.
const (
	Agent  = "agent"  // of a user: lets agents of another system in
	Alerts = "alerts" // of a user or a token: brings alerts in
)

func forPrograms(role string) bool { return role == Agent || role == Alerts }

// level orders the roles of people; 0 has no rights in the API.
func level(role string) int { return slices.Index([]string{Viewer, Operator, Admin}, role) + 1 }

// Grants are the rights of a user or a token.
type Grants struct {
	// Role holds in every namespace; empty: only Bindings count.
	Role string `json:"role,omitempty"`
	// Bindings are roles of people in single namespaces, by namespace. They add to Role.
	Bindings map[string]string `json:"bindings,omitempty"`
	// Namespaces bound the role of a program; empty: everywhere.
	Namespaces []string `json:"namespaces,omitempty"`
	// Run permits commands on nodes wherever the subject is at least an operator. No role has it by itself.
	Run bool `json:"run,omitempty"`
}

// Validate refuses grants that contradict themselves.
func (g *Grants) Validate() error {
	if forPrograms(g.Role) {
		switch {
		case g.Run:
			return model.Errorf(model.Invalid, "a user with the role %s runs no commands", g.Role)
		case len(g.Bindings) > 0:
			return model.Errorf(model.Invalid, "bindings are for people; the role %s is bounded by namespaces", g.Role)
		}
		return nil
	}
	highest := level(g.Role)
	for _, namespace := range slices.Sorted(maps.Keys(g.Bindings)) {
		role := g.Bindings[namespace]
		switch {
		case level(role) == 0:
			return unknownRole(role)
		case namespace == model.SharedNamespaceName:
			return model.Errorf(model.Invalid, "nobody is bound to namespace %s: what is there reaches the nodes of all namespaces", namespace).
				WithHint("give the role in every namespace: --role %s", role)
		}
		if err := model.NameError(namespace); err != nil {
			return model.Errorf(model.Invalid, "binding to %q: this is no name of a namespace: %w", namespace, err)
		}
		highest = max(highest, level(role))
	}
	switch {
	case len(g.Namespaces) > 0:
		return model.Errorf(model.Invalid, "namespaces are of the roles %s and %s; bind a person to a namespace: --bind NAMESPACE=ROLE", Agent, Alerts)
	case level(g.Role) == 0 && (g.Role != "" || len(g.Bindings) == 0):
		return unknownRole(g.Role)
	case g.Run && highest < level(Operator):
		return model.Errorf(model.Invalid, "a %s changes nothing, and so runs no commands", Viewer).WithHint("give the role %s too", Operator)
	}
	return nil
}

func unknownRole(role string) error {
	return model.Errorf(model.Invalid, "role %q: want %s, %s or %s", role, Admin, Operator, Viewer)
}

// levelIn is the level in one namespace.
func (g *Grants) levelIn(namespace string) int {
	return max(level(g.Role), level(g.Bindings[namespace]))
}

// CoveredBy reports whether g permits nothing that o does not permit.
func (g *Grants) CoveredBy(o *Grants) bool {
	if forPrograms(g.Role) {
		elsewhere := func(namespace string) bool { return o.levelIn(namespace) < level(Admin) }
		return o.Role == Admin || len(g.Namespaces) > 0 && !slices.ContainsFunc(g.Namespaces, elsewhere)
	}
	if level(g.Role) > level(o.Role) || g.Run && !o.Run {
		return false
	}
	for namespace, role := range g.Bindings {
		if level(role) > o.levelIn(namespace) {
			return false
		}
	}
	return true
}

// Equal reports whether both permit the same, written the same way.
func (g *Grants) Equal(o *Grants) bool {
	return g.Role == o.Role && g.Run == o.Run && slices.Equal(g.Namespaces, o.Namespaces) && maps.Equal(g.Bindings, o.Bindings)
}

// String is the grants for people: "viewer, operator in web, may run commands".
func (g *Grants) String() string {
	var parts []string
	if g.Role != "" {
		parts = append(parts, g.Role)
	}
	for _, namespace := range slices.Sorted(maps.Keys(g.Bindings)) {
		parts = append(parts, fmt.Sprintf("%s in %s", g.Bindings[namespace], namespace))
	}
	if g.Run {
		parts = append(parts, "may run commands")
	}
	return strings.Join(parts, ", ")
}
