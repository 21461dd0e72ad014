package view

import (
	"slices"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// scope is the namespaces of a bound caller. View.For wraps every store with it.
//
// Resources of namespace shared reach all nodes, so definitions of its checks and members of its
// groups are visible, as far as nodes of the scope have them; its resources are not.
type scope struct {
	subject    *access.Subject
	need       access.Need
	namespaces []string // names
}

func (x *scope) has(namespace string) bool { return slices.Contains(x.namespaces, namespace) }

// defines reports whether definitions of a namespace are visible where they are in force.
func (x *scope) defines(namespace string) bool {
	return namespace == model.SharedNamespaceName || x.has(namespace)
}

// key reports whether a resource is visible. A Namespace belongs to itself.
func (x *scope) key(key intent.Key) bool {
	if key.Kind == "Namespace" {
		return x.has(key.Name)
	}
	return x.has(key.Namespace)
}

// refuse is the error about everything in another namespace, whether it exists or not.
func (x *scope) refuse(namespace string) error { return x.subject.AllowIn(x.need, namespace) }
