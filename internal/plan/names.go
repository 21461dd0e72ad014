package plan

import "github.com/muster-fleet/muster/internal/model"

// Names answers by number what reactions ask: react.Names.
type Names struct{ *Planner }

// Node returns how a node is called and labelled now.
func (n Names) Node(id model.NodeID) (namespace, name string, labels map[string]string, ok bool) {
	if namespace, name, ok = n.NodeName(id); ok {
		labels = n.NodeLabels(id)
	}
	return namespace, name, labels, ok
}

// Check returns how a check is called now.
func (n Names) Check(id model.CheckID) (namespace, name string, ok bool) { return n.CheckName(id) }

// Namespace returns how a namespace is called.
func (n Names) Namespace(id model.NamespaceID) (name string, ok bool) { return n.NamespaceName(id) }
