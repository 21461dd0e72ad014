package spool

import (
	"cmp"
	"iter"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// lanes is the number of lanes of a stream.
const lanes = 2

// place is a number in a lane.
type place struct {
	lane   wire.Lane
	number uint64
}

// items iterates over the items of both lanes, each in ascending order. The loop must not add or drop items.
func (s *Spool) items() iter.Seq2[place, *item] {
	return func(yield func(place, *item) bool) {
		for l := range s.lanes {
			ln := &s.lanes[l]
			for i := range ln.items {
				if !yield(place{wire.Lane(l), ln.first + uint64(i)}, &ln.items[i]) {
					return
				}
			}
		}
	}
}

// reason is the cause of a lost signal.
type reason uint8

const (
	notLost      reason = iota // it is not lost
	spoolFull                  // the spool was over its budget
	tooOld                     // older than MaxAge
	diskLost                   // not found on disk
	lostByServer               // acknowledged, but the server lost it
	refused                    // by the server, for good

	// Reports: numbers without a signal, whose gaps inform the operator about the spool.
	spoolMissing        // the former one was deleted
	diskRolledBack      // the server has numbers that were never sent from this disk
	folderDeleted       // while the agent ran
	diskRolledBackTwice // olderDisk, detected after another start

	reasons // number of reasons
)

// keepaliveChunk is the chunk of reports and of losses of unknown checks: both belong to the node's own event.
var keepaliveChunk = model.BuiltinChunk(model.KeepaliveCheck)

func (r reason) String() string {
	return [...]string{
		notLost: "kept", spoolFull: "the spool was full", tooOld: "too old", diskLost: "lost on the agent's disk",
		lostByServer: "acknowledged, but lost by the server", refused: "refused by the server",
		spoolMissing:   "the agent's spool was deleted: results without an acknowledgement are lost",
		diskRolledBack: "the agent's spool is older than the server's numbers: it was restored from a copy, or its last second was not written",
		folderDeleted:  "the agent's spool was deleted while it ran; the agent made a new one from memory",
		diskRolledBackTwice: "the agent's spool is older than the server's numbers: it was restored from a copy; " +
			"some results from before its last start may be lost",
	}[r]
}

// cost returns the bytes that count against the budget.
func (it *item) cost() int64 { return int64(it.size) + itemOverhead }

// item is the index entry of one number: 24 bytes.
type item struct {
	commit uint64 // of its record in the log; zero: not yet durable
	at     uint32 // when the signal was made: seconds, see Spool.nowMs
	chunk  model.ChunkID
	size   uint32 // bytes of the record; of a lost number, the signals that its gap reports lost
	lost   reason
	kind   wire.SignalKind
	urgent bool
	logged bool // the log has the record; of a lost number: it has the loss and size
}

// mayWait returns whether older items may not be in the log either.
func (it *item) mayWait() bool { return !it.logged || it.lost != notLost }

// origin groups signals by kind and chunk.
type origin struct {
	kind  wire.SignalKind
	chunk model.ChunkID
}

// lane is one numbering: items[i] is number first+i. Numbers from front to first-1 are lost for the reason
// why; counts has the lost signals.
type lane struct {
	front  uint64
	why    reason
	counts map[origin]uint64 // lost signals; nil: of unknown checks

	first  uint64
	items  []item
	aged   uint64 // all numbers below are checked for their age
	cursor uint64 // the next number to send
	sent   uint64 // no higher number was ever sent
	old    uint64 // last number before the spool was opened
	urgent int    // urgent items at or above the cursor

	// reported has the number whose gap reports all lost results of a check.
	reported map[loss]uint64

	// recent are the newest records, the last one being number next()-1.
	recent      [][]byte
	recentBytes int
}

// loss groups lost signals: one gap reports all of them.
type loss struct {
	origin
	why reason
}

func newLane() lane { return lane{front: 1, first: 1, cursor: 1, reported: map[loss]uint64{}} }

func (l *lane) nextNumber() uint64 { return l.first + uint64(len(l.items)) }

// unacknowledged returns the count of numbers that the server has not acknowledged.
func (l *lane) unacknowledged() uint64 { return l.nextNumber() - l.front }

func (l *lane) item(number uint64) *item { return &l.items[number-l.first] }

func (l *lane) contains(number uint64) bool { return number >= l.first && number < l.nextNumber() }

// doubtful returns whether the server, which has numbers up to last, has numbers that the spool assigned
// before it was opened and never sent.
func (l *lane) doubtful(last uint64) bool {
	for n := max(l.sent+1, l.first); n <= min(last, l.old) && n < l.nextNumber(); n++ {
		if l.item(n).lost == notLost {
			return true
		}
	}
	return false
}

// push adds the next number.
func (l *lane) push(it item, data []byte) {
	l.items = append(l.items, it)
	l.recent = append(l.recent, data)
	l.recentBytes += len(data)
	if it.urgent {
		l.urgent++
	}
}

// recentRecord returns the record of a number that is in memory; nil: it is not.
func (l *lane) recentRecord(number uint64) []byte {
	start := l.nextNumber() - uint64(len(l.recent))
	if number < start || number >= l.nextNumber() {
		return nil
	}
	return l.recent[number-start]
}

// trimRecent drops the oldest durable records from memory above limit bytes. Above hard bytes it drops the
// oldest records that the log has not accepted, and returns their lost numbers.
func (l *lane) trimRecent(limit, hard int) (lost []uint64) {
	for l.recentBytes > limit {
		it := l.item(l.nextNumber() - uint64(len(l.recent)))
		if it.commit == 0 && it.lost == notLost {
			break
		}
		l.forgetOldest()
	}
	if l.recentBytes <= hard {
		return nil
	}
	start := l.nextNumber() - uint64(len(l.recent))
	for i := 0; i < len(l.recent) && l.recentBytes > hard/8*7; i++ {
		it := l.item(start + uint64(i))
		if it.logged {
			continue
		}
		l.recentBytes -= len(l.recent[i])
		l.recent[i] = nil
		lost = append(lost, start+uint64(i))
	}
	return lost
}

func (l *lane) forgetOldest() {
	l.recentBytes -= len(l.recent[0])
	l.recent[0] = nil
	l.recent = l.recent[1:]
}

// dropThrough removes all numbers up to last, and returns the bytes that were counted for them.
func (l *lane) dropThrough(last uint64) (bytes int64) {
	if last < l.first {
		l.front = max(l.front, min(last+1, l.first))
		return 0
	}
	n := int(min(last+1, l.nextNumber()) - l.first)
	for i := range l.items[:n] {
		it := &l.items[i]
		if it.lost == notLost {
			bytes += it.cost()
		}
		if it.urgent && l.first+uint64(i) >= l.cursor {
			l.urgent--
		}
	}
	for len(l.recent) > len(l.items)-n {
		l.forgetOldest()
	}
	l.items = l.items[n:]
	if cap(l.items) > 1024 && len(l.items) < cap(l.items)/4 {
		l.items = append(make([]item, 0, len(l.items)*2), l.items...)
	}
	l.first += uint64(n)
	l.endFrontGap()
	return bytes
}

// endFrontGap ends the range before first: the server has its signals, or its gap.
func (l *lane) endFrontGap() {
	l.front, l.why, l.counts = l.first, notLost, nil
	l.cursor = max(l.cursor, l.first)
}

// collapseOldest replaces the items of the oldest n numbers, which are lost, by counts.
func (l *lane) collapseOldest(n int) {
	if l.counts == nil {
		l.counts = map[origin]uint64{}
	}
	front, cursor, counts, why := l.front, l.cursor, l.counts, l.items[n-1].lost
	for i := range l.items[:n] {
		if of, n := l.items[i].losses(); n > 0 {
			counts[of] += uint64(n)
		}
	}
	l.dropThrough(l.first + uint64(n) - 1)
	l.front, l.cursor, l.counts, l.why = front, cursor, counts, why
}

// frontGap returns the gap of the numbers before first.
func (l *lane) frontGap() *wire.Gap {
	gap := &wire.Gap{Last: l.first - 1, Reason: l.why.String()}
	for of, n := range l.counts {
		gap.Counts = append(gap.Counts, wire.GapCount{Kind: of.kind, Chunk: of.chunk, Count: n})
	}
	if l.counts == nil {
		gap.Counts = []wire.GapCount{{Kind: wire.SignalResult, Chunk: keepaliveChunk, Count: l.first - l.front}}
	}
	slices.SortFunc(gap.Counts, func(a, b wire.GapCount) int {
		return cmp.Or(cmp.Compare(a.Chunk, b.Chunk), cmp.Compare(a.Kind, b.Kind))
	})
	return gap
}

// advance moves the cursor behind last.
func (l *lane) advance(last uint64) {
	l.sent = max(l.sent, last)
	for l.cursor = max(l.cursor, l.first); l.cursor <= last; l.cursor++ {
		if l.item(l.cursor).urgent {
			l.urgent--
		}
	}
}

// rewind moves the cursor to front: all numbers are sent again.
func (l *lane) rewind() {
	l.cursor, l.urgent = l.front, 0
	for i := range l.items {
		if l.items[i].urgent {
			l.urgent++
		}
	}
}

// gapAt returns the gap of the lost numbers from number on that have one reason.
func (l *lane) gapAt(number uint64) *wire.Gap {
	why := l.item(number).lost
	gap := &wire.Gap{Reason: why.String()}
	counts := map[origin]int{} // index in gap.Counts
	for last := number; last < l.nextNumber() && l.item(last).lost == why; last++ {
		of, n := l.item(last).losses()
		i, ok := counts[of]
		if n > 0 && !ok {
			if len(gap.Counts) == maxGapCounts {
				return gap
			}
			i = len(gap.Counts)
			counts[of] = i
			gap.Counts = append(gap.Counts, wire.GapCount{Kind: of.kind, Chunk: of.chunk})
		}
		if n > 0 {
			gap.Counts[i].Count += uint64(n)
		}
		gap.Last = last
	}
	if why >= spoolMissing { // news of the agent, not a lost signal
		gap.Counts = []wire.GapCount{{Kind: wire.SignalKeepalive, Chunk: keepaliveChunk}}
	}
	return gap
}

// losses returns the origin and the count of the losses that the gap of this number reports. A signal of an
// unknown chunk counts as a result of the node itself.
func (it *item) losses() (of origin, n uint32) {
	if it.chunk == 0 {
		return origin{wire.SignalResult, keepaliveChunk}, it.size
	}
	return origin{it.kind, it.chunk}, it.size
}

// markLost marks a number as lost. The newest lost number of a check that is not sent yet reports all its
// losses. A number that was sent may be acknowledged, and reports its own loss.
func (l *lane) markLost(number uint64, why reason) {
	it := l.item(number)
	it.lost, it.commit, it.size, it.logged = why, 0, 0, false
	if it.chunk == 0 && why != diskLost {
		return // a keepalive
	}
	it.size = 1
	if number < l.cursor {
		return
	}
	of := loss{origin{it.kind, it.chunk}, why}
	if at := l.reported[of]; at >= l.cursor && l.contains(at) && l.item(at).lost == why {
		older, newer := l.item(min(at, number)), l.item(max(at, number))
		newer.size += older.size
		older.size = 0
		older.logged, newer.logged = false, false
		number = max(at, number)
	}
	l.reported[of] = number
}

// maxGapCounts bounds the counts of one gap; the next gap has the others.
const maxGapCounts = 1000
