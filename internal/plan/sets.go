package plan

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// A set is a sorted list of ids that all nodes with the same list share.
type set[T ~uint32] struct {
	ids  []T
	key  string
	refs int // nodes that point here; 0: swept after the pass

	// Of check sets: what they are made of now, see composition.
	composed *composition
	// Of group sets: names as conditions see them.
	names []string
}

type (
	groupSet = set[gid]
	checkSet = set[model.CheckID]
)

func (s *set[T]) has(id T) bool {
	_, found := slices.BinarySearch(s.ids, id)
	return found
}

// sets interns. The empty set is there from the start and never swept.
type sets[T ~uint32] struct {
	byKey map[string]*set[T]
	empty *set[T]
	buf   []byte
	dead  []*set[T] // had no more refs at some time of this pass
}

func newSets[T ~uint32]() *sets[T] {
	empty := &set[T]{refs: 1}
	return &sets[T]{byKey: map[string]*set[T]{"": empty}, empty: empty}
}

// intern returns the shared set of ids (sorted, no doubles), which it copies.
func (s *sets[T]) intern(ids []T) *set[T] {
	s.buf = s.buf[:0]
	for _, id := range ids {
		s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(id))
	}
	if found := s.byKey[string(s.buf)]; found != nil {
		return found
	}
	made := &set[T]{ids: slices.Clone(ids), key: string(s.buf)}
	s.byKey[made.key] = made
	s.dead = append(s.dead, made) // until somebody points to it
	return made
}

// move lets a pointer leave one set for another.
func (s *sets[T]) move(at **set[T], to *set[T]) {
	to.refs++
	from := *at
	*at = to
	if from.refs--; from.refs == 0 {
		s.dead = append(s.dead, from)
	}
}

// sweep forgets the sets that nobody points to.
func (s *sets[T]) sweep() {
	for _, d := range s.dead {
		if d.refs == 0 {
			delete(s.byKey, d.key)
		}
	}
	s.dead = s.dead[:0]
}

// composition is what a check set means at present: the chunks of its checks and the
// names of the properties that they read. Immutable but for contents.
type composition struct {
	chunks   []*model.Chunk          // ascending by id
	names    []string                // ascending
	proxied  *directory.ProxyTargets // whom the proxy checks among them speak of; nil: there are none
	hash     [32]byte                // wire.ChunksHash(chunks, proxied)
	size     int                     // of the chunks in an assignment, in bytes
	contents map[string]*content
}

// content is what an assignment holds, shared by all nodes of the same check set
// with the same property values.
type content struct {
	*composition
	properties []wire.Property
	hash       [32]byte // of the assignment

	propertiesHash [32]byte
	size           int    // in bytes, at most wire.MaxAssignment
	key            string // of properties, in composition.contents
	refs           int
	faults         atomic.Pointer[[]fault] // nil: nobody has asked yet
}
