package load_test

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// pathFleet holds the nodes and assignments of a resultPath, in place of intent and planner. Only the nodes' keys
// change, in their first sessions.
type pathFleet struct {
	nodes       map[uuid.UUID]core.Node // guarded by mu
	mu          sync.RWMutex
	list        []enlisted // by number
	classes     []orders
	definitions []*model.Definition // of all classes, by number
}

// enlisted is a node that may connect.
type enlisted struct {
	uid   uuid.UUID
	name  string
	class int
}

// orders is the assignment of the nodes of a class.
type orders struct {
	definitions []*model.Definition
	hash        [32]byte
}

// The first ids differ from those of a real server.
const (
	firstNode     = 1000
	firstCheck    = 100
	pathNamespace = 2
)

// newPathFleet returns the nodes and assignments of a scenario.
func newPathFleet(sc *scenario.Scenario) *pathFleet {
	f := &pathFleet{nodes: map[uuid.UUID]core.Node{}}
	definitions := map[string]*model.Definition{}
	for _, k := range sc.Placed() { // in this order they are in each assignment, too
		for n := range max(1, k.Count) {
			definitions[k.FullName(n)] = f.check(k.FullName(n), time.Duration(k.Interval), time.Duration(k.TTL))
		}
	}
	for i := range sc.Agents {
		var o orders
		for _, k := range sc.Held(&sc.Agents[i]) {
			for n := range max(1, k.Count) {
				o.definitions = append(o.definitions, definitions[k.FullName(n)])
			}
		}
		f.order(o)
	}
	for _, m := range simulated.Members(sc) {
		f.enlist(m.UID, m.Name, m.Class)
	}
	return f
}

// check adds a check definition.
func (f *pathFleet) check(name string, interval, ttl time.Duration) *model.Definition {
	n := firstCheck + len(f.definitions)
	c := &model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(n), Unit: model.CheckID(n), Namespace: pathNamespace, Name: name},
		Command: &model.Command{Shell: "true"}, Interval: interval, Timeout: interval, TTL: ttl, FailAfter: 3, RecoverAfter: 1,
		Severities: [4]model.Severity{model.NotClassified, model.SeverityWarning, model.High, model.Average}}
	c.Hash = wire.DefinitionHash(wire.AppendDefinition(nil, c.Seal()))
	f.definitions = append(f.definitions, &c.Definition)
	return &c.Definition
}

// order adds the assignment of the next class.
func (f *pathFleet) order(o orders) {
	if len(o.definitions) > 0 {
		o.hash = wire.AssignmentHash(o.definitions, nil, nil)
	}
	f.classes = append(f.classes, o)
}

// enlist adds a node that may connect.
func (f *pathFleet) enlist(uid uuid.UUID, name string, class int) {
	f.nodes[uid] = core.Node{ID: model.NodeID(firstNode + len(f.list)), Name: name, Namespace: pathNamespace}
	f.list = append(f.list, enlisted{uid, name, class})
}

// node returns the node with this id, or nil.
func (f *pathFleet) node(id model.NodeID) *enlisted {
	if i := int(id) - firstNode; i >= 0 && i < len(f.list) {
		return &f.list[i]
	}
	return nil
}

// Lookup returns the node with this uid, for muster.Nodes.
func (f *pathFleet) Lookup(uid uuid.UUID) (core.Node, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, ok := f.nodes[uid]
	return n, ok
}

// Retirement returns that no node is retired.
func (f *pathFleet) Retirement(uuid.UUID, string) muster.Retirement { return muster.Retirement{} }

// FirstKey keeps the key of a node's first session and refuses later other ones.
func (f *pathFleet) FirstKey(uid uuid.UUID, key string) (onRecord, holder string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[uid]
	if n.Key == "" {
		n.Key = key
		f.nodes[uid] = n
	}
	return n.Key, ""
}

// RecordAgent does nothing, because there is no intent.
func (f *pathFleet) RecordAgent(core.Node, *wire.Hello) (limit, reason string) { return "", "" }

// Namespace returns the default limits.
func (f *pathFleet) Namespace(model.NamespaceID) core.NamespaceLimits {
	return core.NamespaceLimits{Namespace: "load"}
}

// For returns the assignment of a node, for directory.Assignments.
func (f *pathFleet) For(id model.NodeID) *directory.Assignment {
	n := f.node(id)
	if n == nil {
		return nil
	}
	k := &f.classes[n.class]
	return &directory.Assignment{Node: id, UID: n.uid, Generation: wire.Generation{Epoch: 1, Revision: 1}, Hash: k.hash, Definitions: k.definitions}
}

// Definition returns the definition with this id, or nil.
func (f *pathFleet) Definition(id model.DefinitionID) *model.Definition {
	if i := int(id) - firstCheck; i >= 0 && i < len(f.definitions) {
		return f.definitions[i]
	}
	return nil
}

// CheckDefinition returns the check definition with this id, or nil.
func (f *pathFleet) CheckDefinition(id model.DefinitionID) *model.CheckDefinition {
	return f.Definition(id).AsCheck()
}

// Subscribe does nothing, because assignments never change.
func (f *pathFleet) Subscribe(func(directory.Change)) {}
