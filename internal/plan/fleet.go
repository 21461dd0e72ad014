package plan

import (
	"slices"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
	"github.com/muster-fleet/muster/internal/wire"
)

// fleet is what the planner knows: definitions, who is in which group, which checks
// land where. It has no lock and does no input or output. Change it by apply only
// (pass.go). Every derived field is a pure function of the definitions; a test
// recomputes them all and compares.
type fleet struct {
	gids *gids

	nodes       map[model.NodeID]*node
	byName      map[ref]model.NodeID
	byBareName  map[string][]model.NodeID
	byUID       map[uuid.UUID]model.NodeID
	all         *roaring.Bitmap
	proxies     *roaring.Bitmap // nodes without a machine
	inNamespace map[string]*roaring.Bitmap
	byLabel     map[where.Pair]*roaring.Bitmap
	byLabelKey  map[unique.Handle[string]]*roaring.Bitmap

	groups     map[gid]*group
	naming     map[ref]*users // who names a node
	conditions map[conditionKey]*conditionState
	scoped     map[string][]*conditionState // conditions by namespace of their owner
	// groupReaders is how many conditions read node.groups.
	groupReaders int

	checks      map[model.CheckID]*check
	checkByName map[ref]model.CheckID
	readers     map[string][]model.CheckID // checks by property that they read

	properties  map[propertyPlace][]*propertyDef
	sources     map[string]*propertySources // by property
	namespaces  map[string]*namespaceDef
	namespaceOf map[model.NamespaceID]string
	handlers    map[ref]*handlerDef
	secrets     map[ref]*secretDef
	pipelines   map[ref]*model.PipelineSpec
	routes      map[ref]*model.RouteSpec
	filters     map[ref]*model.FilterSpec
	mutators    map[ref]*model.MutatorSpec

	groupSets *sets[gid]
	checkSets *sets[model.CheckID]
	candidate *where.Node
	operators *where.Node // the same node, with the labels that the server owns and nothing else
	counts    Counts
	excess    int // nodes whose assignment would be too large
}

// Counts is the work done since the start. Tests hold a change to its share of it.
type Counts struct {
	Passes     uint64 // lists of changes compiled
	Nodes      uint64 // nodes whose groups and checks were computed
	Groups     uint64 // groups whose members were computed
	Checks     uint64 // checks whose holders were computed
	Conditions uint64 // conditions evaluated on a node
	Built      uint64 // assignments composed, changed or not
	Changed    uint64 // assignments that differ from before
}

type node struct {
	def     *nodeDef
	groups  *groupSet
	checks  *checkSet
	content *content // nil until built, and where it would be too large
	excess  int      // bytes by which it would be
	gen     wire.Generation
}

type group struct {
	def     *groupDef       // nil: only mentioned
	own     *roaring.Bitmap // nodes of which an operator or token says so
	claimed *roaring.Bitmap // nodes whose agents say so; nil: none
	vouched *roaring.Bitmap // those of them that may, whatever the group says
	members *roaring.Bitmap // all, those of groups inside included
	parents []gid           // groups that list this one
	checks  []model.CheckID // that target this one
}

type users struct {
	groups []gid
	checks []model.CheckID
}

// conditionState is one condition and where it holds. users are those for which it
// adds nodes; conditions of except have none.
type conditionState struct {
	*condition
	matches *roaring.Bitmap
	refs    int
	fresh   bool // not evaluated yet
	users
}

type check struct {
	def     *checkDef
	holders *roaring.Bitmap
}

// propertyPlace is where a Property resource stands in the chain.
type propertyPlace struct {
	property string
	scope    scope
}

// propertySources are the places that give one property a value, but for global ones,
// namespaces and the nodes' own lists. They keep a look-up from walking all groups of a node.
type propertySources struct {
	groups []gid // ascending
	nodes  int   // Property resources in the scope of a node
}

func newFleet(g *gids) *fleet {
	return &fleet{
		gids: g, nodes: map[model.NodeID]*node{}, byName: map[ref]model.NodeID{},
		byBareName: map[string][]model.NodeID{}, byUID: map[uuid.UUID]model.NodeID{},
		all: roaring.New(), proxies: roaring.New(), inNamespace: map[string]*roaring.Bitmap{},
		byLabel: map[where.Pair]*roaring.Bitmap{}, byLabelKey: map[unique.Handle[string]]*roaring.Bitmap{},
		groups: map[gid]*group{}, naming: map[ref]*users{},
		conditions: map[conditionKey]*conditionState{}, scoped: map[string][]*conditionState{},
		checks: map[model.CheckID]*check{}, checkByName: map[ref]model.CheckID{},
		readers: map[string][]model.CheckID{}, properties: map[propertyPlace][]*propertyDef{}, sources: map[string]*propertySources{},
		namespaces: map[string]*namespaceDef{}, namespaceOf: map[model.NamespaceID]string{},
		handlers: map[ref]*handlerDef{}, secrets: map[ref]*secretDef{}, pipelines: map[ref]*model.PipelineSpec{}, routes: map[ref]*model.RouteSpec{},
		filters: map[ref]*model.FilterSpec{}, mutators: map[ref]*model.MutatorSpec{},
		groupSets: newSets[gid](), checkSets: newSets[model.CheckID](),
		candidate: where.NewNode(), operators: where.NewNode(),
	}
}

// group returns the group of a name, declared or not.
func (f *fleet) group(g gid) *group {
	found := f.groups[g]
	if found == nil {
		found = &group{own: roaring.New(), members: roaring.New()}
		f.groups[g] = found
	}
	return found
}

func (f *fleet) usersOf(r ref) *users {
	found := f.naming[r]
	if found == nil {
		found = &users{}
		f.naming[r] = found
	}
	return found
}

func (f *fleet) dropUsers(r ref) {
	if u := f.naming[r]; u != nil && len(u.groups) == 0 && len(u.checks) == 0 {
		delete(f.naming, r)
	}
}

// acquire and release count the users of a condition; the last one ends it.
func (f *fleet) acquire(c *condition, p *pass) *conditionState {
	s := f.conditions[c.key]
	if s == nil {
		s = &conditionState{condition: c, matches: roaring.New(), fresh: true}
		f.conditions[c.key] = s
		f.scoped[c.key.ns] = append(f.scoped[c.key.ns], s)
		p.fresh = append(p.fresh, s)
		if c.ReadsGroups() {
			f.groupReaders++
		}
	}
	s.refs++
	return s
}

func (f *fleet) release(c *condition) {
	s := f.conditions[c.key]
	if s.refs--; s.refs > 0 {
		return
	}
	delete(f.conditions, c.key)
	if c.ReadsGroups() {
		f.groupReaders--
	}
	list := f.scoped[c.key.ns]
	f.scoped[c.key.ns] = slices.DeleteFunc(list, func(x *conditionState) bool { return x == s })
}

// conditionsOver calls fn for the conditions that may hold on nodes of a namespace.
func (f *fleet) conditionsOver(ns string, fn func(*conditionState)) {
	for _, s := range f.scoped[ns] {
		fn(s)
	}
	if ns != SharedNamespace {
		for _, s := range f.scoped[SharedNamespace] {
			fn(s)
		}
	}
}

func bitmapOf[K comparable](m map[K]*roaring.Bitmap, key K) *roaring.Bitmap {
	b := m[key]
	if b == nil {
		b = roaring.New()
		m[key] = b
	}
	return b
}

func clearBit[K comparable](m map[K]*roaring.Bitmap, key K, id uint32) {
	if b := m[key]; b != nil {
		b.Remove(id)
		if b.IsEmpty() {
			delete(m, key)
		}
	}
}
