package plan

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// A set is a sorted list of ids that all nodes with the same list share. ids and next never change.
type set[T ~uint32] struct {
	ids  []T
	next []T // of a unit set: units whose second body the nodes have, see rollout
	key  string
	refs int // nodes that have it; 0: swept after the pass

	composed *composition // of a unit set: its chunks at present
	names    []string     // of a group set: the names as conditions see them
}

type (
	groupSet = set[directory.GroupID]
	unitSet  = set[model.UnitID]
)

func (s *set[T]) has(id T) bool {
	_, found := slices.BinarySearch(s.ids, id)
	return found
}

// onNext reports whether the nodes of a unit set have the second body of a unit.
func (s *set[T]) onNext(id T) bool {
	_, found := slices.BinarySearch(s.next, id)
	return found
}

// sets interns. The empty set is there from the start and never swept.
type sets[T ~uint32] struct {
	byKey  map[string]*set[T]
	empty  *set[T]
	buf    []byte
	unused []*set[T] // without a node at some time of this pass
}

func newSets[T ~uint32]() *sets[T] {
	empty := &set[T]{refs: 1}
	return &sets[T]{byKey: map[string]*set[T]{"": empty}, empty: empty}
}

// intern returns the shared set of two lists (sorted, no doubles), which it copies.
func (s *sets[T]) intern(ids, next []T) *set[T] {
	s.buf = s.buf[:0]
	for _, id := range ids {
		s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(id))
	}
	if len(next) > 0 {
		s.buf = append(s.buf, 0) // a key of ids alone has a multiple of four bytes
		for _, id := range next {
			s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(id))
		}
	}
	if found := s.byKey[string(s.buf)]; found != nil {
		return found
	}
	made := &set[T]{ids: slices.Clone(ids), next: slices.Clone(next), key: string(s.buf)}
	s.byKey[made.key] = made
	s.unused = append(s.unused, made) // until a node moves to it
	return made
}

// move moves a node from one set to another.
func (s *sets[T]) move(at **set[T], to *set[T]) {
	to.refs++
	from := *at
	*at = to
	if from.refs--; from.refs == 0 {
		s.unused = append(s.unused, from)
	}
}

// sweep forgets the sets that no node has.
func (s *sets[T]) sweep() {
	for _, d := range s.unused {
		if d.refs == 0 {
			delete(s.byKey, d.key)
		}
	}
	s.unused = s.unused[:0]
}

// composition is a unit set at present: the chunks of its units and the names of the properties that they
// read. Immutable but for contents.
type composition struct {
	chunks   []*model.Chunk // ascending by id
	names    []string       // ascending
	proxied  *directory.ProxyTargets
	hash     [32]byte // wire.ChunksHash(chunks, proxied)
	size     int      // of the chunks in an assignment, in bytes
	contents map[string]*content
}

// content is the shared part of the assignments of all nodes with the same unit set and the same property
// values.
type content struct {
	*composition
	directory.Content
	propertiesHash [32]byte
	size           int    // in bytes, at most wire.MaxAssignment
	key            string // of the properties, in composition.contents
	refs           int
	faults         atomic.Pointer[[]fault] // nil: nobody has asked yet
}

// excess returns by how many bytes, at least one, the content is too large; zero: it fits.
func (c *content) excess() int {
	most := max(len(c.chunks), len(c.Properties))
	if c.proxied != nil {
		most = max(most, len(c.proxied.Nodes))
		for i := range c.proxied.Nodes { // one is never split
			if over := c.proxied.Nodes[i].Size() - wire.MaxPart; over > 0 {
				return over
			}
		}
	}
	if c.size <= wire.MaxAssignment && most <= wire.MaxChunks {
		return 0
	}
	return max(c.size-wire.MaxAssignment, most-wire.MaxChunks, 1)
}

// insert and remove keep a sorted list of different values.
func insert[T ~uint32](list []T, v T) []T {
	i, found := slices.BinarySearch(list, v)
	if found {
		return list
	}
	return slices.Insert(list, i, v)
}

func remove[T ~uint32](list []T, v T) []T {
	i, found := slices.BinarySearch(list, v)
	if !found {
		return list
	}
	return slices.Delete(list, i, i+1)
}

// difference calls removed for values in before alone and added for values in after alone. Both lists are
// sorted.
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
