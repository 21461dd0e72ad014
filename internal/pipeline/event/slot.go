package event

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// slot is one event state as it lies in memory: no pointers, so that the garbage
// collector never looks inside. Times are Unix nanoseconds of the journal.
type slot struct {
	results  uint64
	lost     uint64
	history  uint64 // two bits each, newest in the lowest
	stream   uint64
	number   uint64
	received int64
	executed int64
	lastOK   int64
	changed  int64

	check        model.CheckID
	chunk        model.ChunkID
	node         uint32 // the shard's index of it
	streak       uint32 // in a row on this side of OK: passing where status is OK, else failing
	occurrences  uint32
	watermark    uint32
	stateChanges uint32
	durationMs   uint32
	order        model.ResultDigest // of all results
	output       outputRef

	status     model.Status
	severity   model.Severity
	historyLen uint8
	flags      slotFlags
}

type slotFlags uint8

const (
	flagExpired  slotFlags = 1 << iota // the status is a deadline's
	flagOpen                           // there is an open problem
	flagBacklog                        // the last result came in the backlog lane
	flagWaits                          // the TTL ran out, and the node was not heard of since
	flagFlapping                       // its status keeps changing
	flagExtra                          // its text holds extra fields, too
)

// flagProxied: another node ran it, see partition.runners.
const flagProxied slotFlags = 1 << 6

const slabSlots = 64

// slab holds slots in pages that never move.
type slab struct {
	pages []*[slabSlots]slot
	free  []uint32
	high  uint32 // slots ever taken
}

func (s *slab) at(i uint32) *slot { return &s.pages[i/slabSlots][i%slabSlots] }

func (s *slab) allocate() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	if int(s.high) == len(s.pages)*slabSlots {
		s.pages = append(s.pages, new([slabSlots]slot))
	}
	s.high++
	return s.high - 1
}

func (s *slab) release(i uint32) {
	*s.at(i) = slot{}
	s.free = append(s.free, i)
}

// count adds one result to the counters of the state.
func (s *slot) count(stream wire.StreamID, number uint64) {
	s.order = s.order.Append(uint64(stream), number)
	s.results++
}

const historyMask = 1<<(2*model.HistoryDepth) - 1

func (s *slot) remember(status model.Status) {
	s.history = (s.history<<2 | uint64(status)) & historyMask
	if s.historyLen < model.HistoryDepth {
		s.historyLen++
	}
}
