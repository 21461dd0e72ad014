package spool

import (
	"cmp"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// lanes is how many lanes a stream has.
const lanes = 2

// reason says why a number has no signal any more.
type reason uint8

const (
	kept     reason = iota // it has
	overFull               // the spool was over its budget
	tooOld                 // older than MaxAge
	diskLost               // not found on disk
	unkept                 // acknowledged, but the server no longer has it
	refused                // the server will not have it

	// Not losses: a number spent to tell the operator what became of the spool, or of the
	// whole agent.
	newSpool      // it is not the one that the agent had
	olderDisk     // the server knows numbers that this disk never gave
	folderDeleted // while the agent ran
	olderTwice    // olderDisk, found out only after another start

	reasons // how many there are
)

// tells says that a number is no signal that was lost, but news of the agent.
func (r reason) tells() bool { return r >= newSpool }

// itself is the definition under which the node's own event hears of what no check can:
// news of the spool, and losses of which nobody knows the check.
var itself = model.BuiltinChunk(model.KeepaliveCheck)

func (r reason) String() string {
	return [...]string{
		kept: "kept", overFull: "the spool was full", tooOld: "too old", diskLost: "lost on the agent's disk",
		unkept: "acknowledged before, but the server no longer has it", refused: "refused by the server",
		newSpool:      "the agent's spool was deleted: what it held and the server had not acknowledged is lost",
		olderDisk:     "the agent's spool is older than what the server has of it: it was brought back from a copy, or its last second was not written",
		folderDeleted: "the agent's spool was deleted while it ran: it was made anew with what was in memory",
		olderTwice: "the agent's spool is older than what the server has of it: it was brought back from a copy; " +
			"of what it made without the server before its last start, some may be lost",
	}[r]
}

// item is what memory knows of one number: 24 bytes.
type item struct {
	commit uint64 // where the log has it; zero: not yet on disk
	at     uint32 // when the signal was made: seconds, see Spool.nowMs
	chunk  model.ChunkID
	size   uint32 // of the record; of a number that is gone, how many signals are told lost with it
	gone   reason
	kind   wire.SignalKind
	urgent bool
	logged bool // the log has it; of a number that is gone: the log knows that, and its size
}

// waits says whether what is older may not have been handed to the log either.
func (it *item) waits() bool { return !it.logged || it.gone != kept }

// origin is the kind and chunk of signals.
type origin struct {
	kind  wire.SignalKind
	chunk model.ChunkID
}

// lane is one numbering: items[i] is number first+i. Numbers from front to first-1
// are gone too, for one reason and with counts, but without an item each.
type lane struct {
	front  uint64
	why    reason
	counts map[origin]uint64 // nil: nobody knows of which checks they were

	first  uint64
	items  []item
	aged   uint64 // below it nothing is kept that could be too old
	cursor uint64 // the next number to send
	sent   uint64 // no number above was ever handed to a session
	found  uint64 // numbers up to here are of an earlier life of the spool
	urgent int    // urgent items at or above the cursor

	// told is the number with which lost results of a check are told: one gap speaks of all
	// of them, whatever lies between.
	told map[loss]uint64

	// recent are the newest records, the last one being number next()-1.
	recent      [][]byte
	recentBytes int
}

type loss struct {
	origin
	why reason
}

func newLane() lane { return lane{front: 1, first: 1, cursor: 1, told: map[loss]uint64{}} }

func (l *lane) next() uint64 { return l.first + uint64(len(l.items)) }

func (l *lane) at(number uint64) *item { return &l.items[number-l.first] }

func (l *lane) holds(number uint64) bool { return number >= l.first && number < l.next() }

// doubtful says whether the server, which keeps numbers up to last, has some that an
// earlier life gave here to signals and never sent.
func (l *lane) doubtful(last uint64) bool {
	for n := max(l.sent+1, l.first); n <= min(last, l.found) && n < l.next(); n++ {
		if l.at(n).gone == kept {
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

// memory returns the record of a number if it is among the newest.
func (l *lane) memory(number uint64) []byte {
	start := l.next() - uint64(len(l.recent))
	if number < start || number >= l.next() {
		return nil
	}
	return l.recent[number-start]
}

// trim lets the oldest records in memory go above limit bytes, if they are on disk.
// Above hard bytes the oldest that the log would not take are lost: their numbers
// are returned.
func (l *lane) trim(limit, hard int) (lost []uint64) {
	for l.recentBytes > limit {
		it := l.at(l.next() - uint64(len(l.recent)))
		if it.commit == 0 && it.gone == kept {
			break
		}
		l.forgetOldest()
	}
	if l.recentBytes <= hard {
		return nil
	}
	start := l.next() - uint64(len(l.recent))
	for i := 0; i < len(l.recent) && l.recentBytes > hard/8*7; i++ {
		it := l.at(start + uint64(i))
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

// drop forgets everything up to and including last, and returns the bytes that
// were counted for it.
func (l *lane) drop(last uint64) (bytes int64) {
	if last < l.first {
		l.front = max(l.front, min(last+1, l.first))
		return 0
	}
	if last >= l.next() {
		last = l.next() - 1
	}
	if last < l.first {
		l.settle()
		return 0
	}
	n := int(last - l.first + 1)
	for i := range l.items[:n] {
		it := &l.items[i]
		if it.gone == kept {
			bytes += int64(it.size) + itemOverhead
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
	l.settle()
	return bytes
}

// settle ends the region before first: the server has it, or its gap.
func (l *lane) settle() {
	l.front, l.why, l.counts = l.first, kept, nil
	l.cursor = max(l.cursor, l.first)
}

// collapse turns the oldest n numbers, all gone, into counts.
func (l *lane) collapse(n int) {
	if l.counts == nil {
		l.counts = map[origin]uint64{}
	}
	front, cursor, counts := l.front, l.cursor, l.counts
	l.why = l.items[n-1].gone
	why := l.why
	for i := range l.items[:n] {
		if of, n := l.items[i].telling(); n > 0 {
			counts[of] += uint64(n)
		}
	}
	l.drop(l.first + uint64(n) - 1)
	l.front, l.cursor, l.counts, l.why = front, cursor, counts, why
}

// frontGap describes the numbers before first.
func (l *lane) frontGap() *wire.Gap {
	gap := &wire.Gap{Last: l.first - 1, Reason: l.why.String()}
	for of, n := range l.counts {
		gap.Counts = append(gap.Counts, wire.GapCount{Kind: of.kind, Chunk: of.chunk, Count: n})
	}
	if l.counts == nil {
		gap.Counts = []wire.GapCount{{Kind: wire.SignalResult, Chunk: itself, Count: l.first - l.front}}
	}
	slices.SortFunc(gap.Counts, func(a, b wire.GapCount) int {
		return cmp.Or(cmp.Compare(a.Chunk, b.Chunk), cmp.Compare(a.Kind, b.Kind))
	})
	return gap
}

// advance moves the cursor behind last.
func (l *lane) advance(last uint64) {
	l.cursor, l.sent = max(l.cursor, l.first), max(l.sent, last)
	for ; l.cursor <= last; l.cursor++ {
		if l.at(l.cursor).urgent {
			l.urgent--
		}
	}
}

// rewind moves the cursor to number.
func (l *lane) rewind(number uint64) {
	l.cursor, l.urgent = number, 0
	for i := max(number, l.first) - l.first; i < uint64(len(l.items)); i++ {
		if l.items[i].urgent {
			l.urgent++
		}
	}
}

// gapAt describes the numbers from the cursor on that are gone for one reason.
func (l *lane) gapAt(number uint64) *wire.Gap {
	why := l.at(number).gone
	gap := &wire.Gap{Reason: why.String()}
	counts := map[origin]int{} // index in gap.Counts
	for last := number; last < l.next() && l.at(last).gone == why; last++ {
		of, n := l.at(last).telling()
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
	if why.tells() {
		gap.Counts = []wire.GapCount{{Kind: wire.SignalKeepalive, Chunk: itself}}
	}
	return gap
}

// telling returns the origin and the count of the losses that a gap reports with this number. A
// signal of an unknown chunk counts as a result of the node itself.
func (it *item) telling() (of origin, n uint32) {
	if it.chunk == 0 {
		return origin{wire.SignalResult, itself}, it.size
	}
	return origin{it.kind, it.chunk}, it.size
}

// lose marks a number as gone. That its result is lost is told with the newest number
// that is gone and was not sent yet; one that was sent may be kept, and tells of itself.
func (l *lane) lose(number uint64, why reason) {
	it := l.at(number)
	it.gone, it.commit, it.size, it.logged = why, 0, 0, false
	if it.chunk == 0 && why != diskLost {
		return // a keepalive
	}
	it.size = 1
	if number < l.cursor {
		return
	}
	of := loss{origin{it.kind, it.chunk}, why}
	if at := l.told[of]; at >= l.cursor && l.holds(at) && l.at(at).gone == why {
		older, newer := l.at(min(at, number)), l.at(max(at, number))
		newer.size += older.size
		older.size = 0
		older.logged, newer.logged = false, false
		number = max(at, number)
	}
	l.told[of] = number
}

// maxGapCounts keeps a gap's frame small; the rest is the next gap.
const maxGapCounts = 1000
