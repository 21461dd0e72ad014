package event

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// node is what a partition knows of a machine beside its event states.
type node struct {
	id        model.NodeID
	namespace model.NamespaceID
	stopped   bool            // said Bye: its deadlines wait for it to come back
	states    []nodeState     // by check id
	promised  []model.CheckID // admitted and not yet in states; not kept: see Admit
	streams   []streamLast    // what it sent so far; newest use last

	session uint64
	timeout int64 // ns of its keepalive; zero: it has none
	warning int64 // ns of silence after which its keepalive warns; zero: it does not
	heard   int64 // receive time of the last sign of life
	waits   bool  // a state may have flagWaits

	backlog      uint64 // signals of the backlog lane still to come
	backlogUntil int64  // listening time until which TTLs wait for them; zero: they do not
}

// patience is how long the node may be silent before something is said of it.
func (n *node) patience() int64 {
	if n.warning > 0 {
		return n.warning
	}
	return n.timeout
}

type nodeState struct {
	check model.CheckID
	slot  uint32
}

type streamLast struct {
	key  wire.StreamKey
	last uint64
}

// maxStreams bounds the numberings remembered per node: one stream has two lanes,
// and a node gets a new stream only when its spool was lost or rolled back.
const maxStreams = 16

// find is a binary search: nodes have tens of checks, and their ids lie in a few
// cache lines.
func (n *node) find(check model.CheckID) (slot uint32, ok bool) {
	low, high := 0, len(n.states)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if n.states[mid].check < check {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(n.states) && n.states[low].check == check {
		return n.states[low].slot, true
	}
	return 0, false
}

func (n *node) search(check model.CheckID) (int, bool) {
	return slices.BinarySearchFunc(n.states, check, func(e nodeState, c model.CheckID) int {
		return int(int64(e.check) - int64(c))
	})
}

func (n *node) insert(check model.CheckID, slot uint32) {
	at, found := n.search(check)
	if found {
		panic("BUG: state added twice")
	}
	if len(n.states) == cap(n.states) { // a quarter more: nodes stop growing soon
		n.states = append(make([]nodeState, 0, len(n.states)+len(n.states)/4+8), n.states...)
	}
	n.states = slices.Insert(n.states, at, nodeState{check, slot})
}

func (n *node) remove(check model.CheckID) {
	at, found := n.search(check)
	if !found {
		panic("BUG: state removed that is not there")
	}
	n.states = slices.Delete(n.states, at, at+1)
}

// stream returns the numbering, and moves it to the end as the newest used.
func (n *node) stream(key wire.StreamKey) (s *streamLast, known bool) {
	last := len(n.streams) - 1
	for i := last; i >= 0; i-- {
		if n.streams[i].key == key {
			// The two lanes of a stream take turns; only older ones move.
			if i < last-1 {
				moved := n.streams[i]
				copy(n.streams[i:], n.streams[i+1:])
				n.streams[last] = moved
				i = last
			}
			return &n.streams[i], true
		}
	}
	if len(n.streams) == maxStreams {
		copy(n.streams, n.streams[1:])
		n.streams = n.streams[:last]
	}
	n.streams = append(n.streams, streamLast{key: key})
	return &n.streams[len(n.streams)-1], false
}

func millis(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }
