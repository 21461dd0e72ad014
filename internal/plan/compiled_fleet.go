package plan

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/wire"
)

// fleet is the planner's model of all nodes, with compiled resources, group members and assigned checks. It has no
// lock and does no input or output. Only apply changes it (incremental_recomputation.go). A test computes all derived fields from
// the definitions and compares.
type fleet struct {
	now         func() time.Time // for the times of steps
	definitions map[intent.Key]any
	resources   map[directory.ResourceKey]*resourceDef // resources that land on no node
	namespaces  map[string]*directory.Namespace

	nodes       map[model.NodeID]*node
	byBareName  map[string][]model.NodeID // nodes by name without namespace: at most one of each namespace
	all         *roaring.Bitmap
	proxies     *roaring.Bitmap // ids of all proxy nodes
	exempt      *roaring.Bitmap // nodes whose state lets them run no directive
	inNamespace map[string]*roaring.Bitmap

	newSearch func(context.Context) EntrySearch // in inventories; nil: none yet
	search    EntrySearch                       // of the conditions
	// limitsConditions: the next pass is the trial of a preview, which fails where new conditions take too much time.
	limitsConditions bool

	groupNumbers *groupNumbers
	groups       map[directory.GroupID]*group
	mentions     map[route.Name]*dependents // groups and units by the node that they name
	conditions   *conditionIndex
	units        map[model.UnitID]*placedUnit
	properties   *propertyIndex

	groupSets *sets[directory.GroupID]
	unitSets  *sets[model.UnitID]
	rivals    map[route.Name]int // directives by technique that exclude one another on a node
	contested int                // techniques with at least two of them
	counts    Counts
	oversized int // nodes whose assignment would be too large
}

// Counts has counters of the planner's work since the start, such as evaluated conditions. Tests use it to check that
// a small change causes little work.
type Counts struct {
	Passes     uint64 // lists of changes compiled
	Nodes      uint64 // nodes whose groups and units were computed
	Groups     uint64 // groups whose members were computed
	Units      uint64 // units whose nodes were computed
	Conditions uint64 // conditions evaluated on a node
	Built      uint64 // assignments composed, changed or not
	Changed    uint64 // assignments that differ from before
}

// node has the definition of a node, with its groups, checks and assignment. The planner has computed groups, checks
// and assignment.
type node struct {
	def        *nodeDef
	groups     *groupSet
	units      *unitSet
	content    *content // shared part of the assignment; nil: not built yet
	excess     int      // bytes by which the assignment would exceed the limit
	generation wire.Generation
}

// group has a declared group, its member nodes, and the nodes that ask to join
type group struct {
	def      *groupDef       // nil: resources name the group, but it is not declared
	assigned *roaring.Bitmap // nodes that an operator or a join token put in
	pending  *roaring.Bitmap // nodes whose agents want to join; nil: none
	vouched  *roaring.Bitmap // nodes of wanted whose operator or join token allows the request
	members  sharedSet       // all member nodes, also through contained groups
	parents  []directory.GroupID
	units    []model.UnitID // units that target the group
}

// dependents has the groups and checks with targets that name one node or one condition.
type dependents struct {
	groups []directory.GroupID
	units  []model.UnitID
}

// placedUnit is a compiled check together with the nodes that the check runs on
type placedUnit struct {
	def        *unit
	nodes      sharedSet
	overridden *roaring.Bitmap // nodes on which another directive of its technique runs instead
}

// selectedNodes returns all nodes that a check's or directive's targets select, including nodes with an
// overriding directive. Nodes that run another directive instead also count.
func (u *placedUnit) selectedNodes() *roaring.Bitmap { return roaring.Or(u.nodes.Bitmap, u.overridden) }

// sharedSet is a copy-on-write set of nodes that the planner shares with its readers. After share, a reader of
// the directory uses the same bitmap, so the next change copies it first.
type sharedSet struct {
	*roaring.Bitmap
	shared bool
}

// newSharedSet returns an empty set of nodes for the planner and its readers.
func newSharedSet() sharedSet { return sharedSet{Bitmap: roaring.New()} }

// add adds a node to the set, and first copies the bitmap if readers share the bitmap. It copies the bitmap
// first if readers share the bitmap.
func (s *sharedSet) add(id model.NodeID) {
	s.copyShared()
	s.Add(uint32(id))
}

// remove removes a node from the set, and first copies the bitmap if readers share the bitmap. It copies the
// bitmap first if readers share the bitmap.
func (s *sharedSet) remove(id model.NodeID) {
	s.copyShared()
	s.Remove(uint32(id))
}

// copyShared replaces the bitmap by a copy before a change, if readers share the bitmap.
func (s *sharedSet) copyShared() {
	if s.shared {
		s.Bitmap, s.shared = s.Bitmap.Clone(), false
	}
}

// share returns the set's bitmap for readers, so that the next change works on a copy. The next change copies
// the bitmap.
func (s *sharedSet) share() *roaring.Bitmap {
	s.shared = true
	return s.Bitmap
}

// newFleet returns a fleet without nodes, groups and checks.
func newFleet(numbers *groupNumbers, now func() time.Time) *fleet {
	return &fleet{
		now:         now,
		definitions: map[intent.Key]any{}, resources: map[directory.ResourceKey]*resourceDef{}, namespaces: map[string]*directory.Namespace{},
		nodes: map[model.NodeID]*node{}, byBareName: map[string][]model.NodeID{},
		all: roaring.New(), proxies: roaring.New(), exempt: roaring.New(), inNamespace: map[string]*roaring.Bitmap{},
		groupNumbers: numbers, groups: map[directory.GroupID]*group{}, mentions: map[route.Name]*dependents{},
		conditions: newConditionIndex(), units: map[model.UnitID]*placedUnit{}, properties: newPropertyIndex(),
		groupSets: newSets[directory.GroupID](), unitSets: newSets[model.UnitID](), rivals: map[route.Name]int{},
	}
}

// group returns a group by its number. It adds an empty group for a name that no resource declares.
func (f *fleet) group(g directory.GroupID) *group {
	found := f.groups[g]
	if found == nil {
		found = &group{assigned: roaring.New(), members: newSharedSet()}
		f.groups[g] = found
	}
	return found
}

// groupText returns the name of a group as shown to people. A group of namespace shared gets the text shared/NAME,
// another group only NAME.
func (f *fleet) groupText(g directory.GroupID) string {
	return directory.GroupText(f.groupNumbers.name(g))
}

// nodesNamed returns the nodes that a name in targets means, in one namespace or in all namespaces.
func (f *fleet) nodesNamed(name route.Name) []model.NodeID {
	if name.Namespace == "" {
		return f.byBareName[name.Name]
	}
	for _, id := range f.byBareName[name.Name] {
		if f.nodes[id].def.Namespace == name.Namespace {
			return []model.NodeID{id}
		}
	}
	return nil
}

// namespaceID returns the id of a namespace. It returns zero for an unknown namespace.
func (f *fleet) namespaceID(name string) model.NamespaceID {
	if n := f.namespaces[name]; n != nil {
		return n.ID
	}
	return 0
}

// removeUnusedSets removes the shared lists of checks and groups that no node uses.
func (f *fleet) removeUnusedSets() {
	f.groupSets.removeUnused()
	f.unitSets.removeUnused()
}

// groupNumbers assigns a permanent number to the name of each group. Safe for concurrent use.
type groupNumbers struct {
	mu    sync.Mutex
	ids   map[route.Name]directory.GroupID
	names []route.Name
}

// newGroupNumbers returns an empty numbering of groups.
func newGroupNumbers() *groupNumbers {
	return &groupNumbers{ids: map[route.Name]directory.GroupID{}}
}

// number returns the number of a group by name, and assigns the next number to a new name. A new name gets the
// next number.
func (g *groupNumbers) number(name route.Name) directory.GroupID {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, ok := g.ids[name]
	if !ok {
		id = directory.GroupID(len(g.names))
		g.ids[name] = id
		g.names = append(g.names, name)
	}
	return id
}

// name returns the name of a group by its number
func (g *groupNumbers) name(id directory.GroupID) route.Name {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names[id]
}

// list returns all group names, each at the index of its number. Names added later do not change the returned list.
func (g *groupNumbers) list() []route.Name {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names[:len(g.names):len(g.names)]
}

// bitmapForKey returns the bitmap under a map key, and adds an empty bitmap if the key is missing. It adds an
// empty bitmap if the key is missing.
func bitmapForKey[K comparable](m map[K]*roaring.Bitmap, key K) *roaring.Bitmap {
	b := m[key]
	if b == nil {
		b = roaring.New()
		m[key] = b
	}
	return b
}

// clearBit removes an id from the bitmap under a key of a map. It deletes an empty bitmap.
func clearBit[K comparable](m map[K]*roaring.Bitmap, key K, id uint32) {
	if b := m[key]; b != nil {
		b.Remove(id)
		if b.IsEmpty() {
			delete(m, key)
		}
	}
}

// set is a sorted list of group ids or check ids. All nodes with the same list share one set. ids, next and lost never
// change.
type set[T ~uint32] struct {
	ids        []T
	next       []T // only in a unit set: the units whose second body the nodes run, see rollout
	overridden []T // only in a unit set: the directives that others of their technique override, see overrule
	key        string
	refs       int // number of nodes with this set; 0: sweep removes it after the pass

	composed *compiledSet // only in a unit set: its compiledSet at present
	names    []string     // only in a group set: the names as conditions see them
}

type (
	// groupSet is a shared set of group ids, equal for all nodes in the same groups.
	groupSet = set[directory.GroupID]
	// unitSet is a shared set of check ids, equal for all nodes that run the same checks.
	unitSet = set[model.UnitID]
)

// has reports whether a set contains the id of a group or check.
func (s *set[T]) has(id T) bool {
	_, found := slices.BinarySearch(s.ids, id)
	return found
}

// runsNewVersion reports whether the nodes of a set already run the new version of a check. This is so in a gradual
// roll-out.
func (s *set[T]) runsNewVersion(id T) bool {
	_, found := slices.BinarySearch(s.next, id)
	return found
}

// sets stores each distinct list of group or check ids only once. All nodes with the same groups or checks share one
// set. The empty set always exists.
type sets[T ~uint32] struct {
	byKey  map[string]*set[T]
	empty  *set[T]
	buf    []byte
	unused []*set[T] // sets that had no node at some time of this pass
}

// newSets returns a store of shared id lists that has only the empty list.
func newSets[T ~uint32]() *sets[T] {
	empty := &set[T]{refs: 1}
	return &sets[T]{byKey: map[string]*set[T]{"": empty}, empty: empty}
}

// intern returns the one shared copy of a sorted list of ids. It creates a missing set. It copies the lists.
func (s *sets[T]) intern(ids, next, lost []T) *set[T] {
	if len(ids)+len(next)+len(lost) == 0 {
		return s.empty
	}
	s.buf = s.buf[:0]
	for _, list := range [...][]T{ids, next, lost} {
		s.buf = appendIDs(binary.BigEndian.AppendUint32(s.buf, uint32(len(list))), list)
	}
	if found := s.byKey[string(s.buf)]; found != nil {
		return found
	}
	made := &set[T]{ids: slices.Clone(ids), next: slices.Clone(next), overridden: slices.Clone(lost), key: string(s.buf)}
	s.byKey[made.key] = made
	s.unused = append(s.unused, made) // no node uses the new set yet
	return made
}

// appendIDs appends ids in four bytes each to a text that is a map key.
func appendIDs[T ~uint32](key []byte, ids []T) []byte {
	for _, id := range ids {
		key = binary.BigEndian.AppendUint32(key, uint32(id))
	}
	return key
}

// moveReference moves a node's reference from one shared list of ids to another list
func (s *sets[T]) moveReference(at **set[T], to *set[T]) {
	to.refs++
	from := *at
	*at = to
	if from.refs--; from.refs == 0 {
		s.unused = append(s.unused, from)
	}
}

// removeUnused removes the shared lists of ids that no node uses.
func (s *sets[T]) removeUnused() {
	for _, d := range s.unused {
		if d.refs == 0 {
			delete(s.byKey, d.key)
		}
	}
	s.unused = s.unused[:0]
}

// compiledSet has the compiled checks that all nodes with the same set of checks share. It also has the names of the
// properties that the checks read. Only its contents change after its creation.
type compiledSet struct {
	definitions []*model.Definition // ascending by id
	names       []string            // ascending
	enforces    bool                // a directive may enforce where an operator chose the node
	proxied     *directory.ProxyTargets
	leftOut     []model.UnitID // units without which the assignment fits, the largest first
	hash        [32]byte       // wire.DefinitionsHash(definitions, proxied)
	size        int            // bytes that the definitions take in an assignment
	contents    map[string]*content
}

// content is the part of an assignment (checks and property values) that several nodes share. The nodes have the same
// checks and the same property values.
type content struct {
	*compiledSet
	directory.SharedContent
	propertiesHash [32]byte
	size           int      // bytes of the encoded assignment
	fitting        *content // the part within wire.MaxAssignment, if this one is larger; nil: not computed yet
	key            string   // propertiesKey of the values, as in compiledSet.contents
	refs           int
	faults         atomic.Pointer[[]fault] // faults of the content; nil: not computed yet
}

// bytesOverLimit returns by how many bytes the content of an assignment exceeds the size limit. It returns zero if the
// content fits.
func (c *content) bytesOverLimit() int {
	most := max(len(c.definitions), len(c.Properties))
	if c.proxied != nil {
		most = max(most, len(c.proxied.Nodes))
		for i := range c.proxied.Nodes { // a proxy node is never split between frames
			if over := c.proxied.Nodes[i].Size() - wire.MaxPart; over > 0 {
				return over
			}
		}
	}
	if c.size <= wire.MaxAssignment && most <= wire.MaxDefinitions {
		return 0
	}
	return max(c.size-wire.MaxAssignment, most-wire.MaxDefinitions, 1)
}

// insert adds a value to a sorted list without duplicates.
func insert[T ~uint32](list []T, v T) []T {
	i, found := slices.BinarySearch(list, v)
	if found {
		return list
	}
	return slices.Insert(list, i, v)
}

// remove removes a value from a sorted list without duplicates.
func remove[T ~uint32](list []T, v T) []T {
	i, found := slices.BinarySearch(list, v)
	if !found {
		return list
	}
	return slices.Delete(list, i, i+1)
}

// difference compares two sorted lists, and calls a function for each removed and each added value. It calls removed
// or added for each value that only one list has. Both lists are sorted.
func difference[T ~uint32](before, after []T, removed, added func(T)) {
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			removed(before[0])
			before = before[1:]
		case len(before) == 0 || after[0] < before[0]:
			added(after[0])
			after = after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
}
