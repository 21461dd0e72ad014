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

// laneNumber identifies a message for the server by its lane (live or backlog queue) and sequence number.
type laneNumber struct {
	lane   wire.Lane
	number uint64
}

// indexEntries iterates over the spool's index of results, by ascending sequence number. It covers both lanes, live
// results and backlog. The loop must not add or drop entries.
func (s *Spool) indexEntries() iter.Seq2[laneNumber, *indexEntry] {
	return func(yield func(laneNumber, *indexEntry) bool) {
		for l := range s.lanes {
			ln := &s.lanes[l]
			for i := range ln.entries {
				if !yield(laneNumber{wire.Lane(l), ln.first + uint64(i)}, &ln.entries[i]) {
					return
				}
			}
		}
	}
}

// lossReason is the reason why a result was lost before the server stored the result. An example is its age.
type lossReason uint8

const (
	notLost         lossReason = iota // the signal is not lost
	spoolFull                         // the spool was over its budget
	tooOld                            // older than MaxAge
	diskLost                          // not found on disk
	lostByServer                      // acknowledged, but the server lost it
	refusedByServer                   // the server refused the signal for good

	// Reports: numbers without a signal, whose gaps inform the operator about the spool.
	spoolMissing        // the spool of the last start was deleted
	diskRolledBack      // the server has numbers that were never sent from this disk
	folderDeleted       // while the agent ran
	diskRolledBackTwice // as diskRolledBack, detected one start of the agent later

	reasons // number of reasons
)

// keepaliveDefinition is the definition of reports and of losses of unknown checks: both belong to the node's own event.
var keepaliveDefinition = model.BuiltinDefinitionID(model.KeepaliveCheck)

// String returns the reason in words, such as "the spool was full"
func (r lossReason) String() string {
	return [...]string{
		notLost: "kept", spoolFull: "the spool was full", tooOld: "too old", diskLost: "lost on the agent's disk",
		lostByServer: "acknowledged, but lost by the server", refusedByServer: "refused by the server",
		spoolMissing:   "the agent's spool was deleted: results without an acknowledgement are lost",
		diskRolledBack: "the agent's spool is older than the server's numbers: it was restored from a copy, or its last second was not written",
		folderDeleted:  "the agent's spool was deleted while the agent ran; the agent created a new spool from memory",
		diskRolledBackTwice: "the agent's spool is older than the server's numbers: it was restored from a copy; " +
			"some results from before its last start may be lost",
	}[r]
}

// budgetBytes returns how many bytes of the spool's disk limit a result uses.
func (it *indexEntry) budgetBytes() int64 { return int64(it.size) + entryOverhead }

// indexEntry describes one stored message for the server (signal) in the spool's in-memory index. It has the
// signal's size, age and place in the log.
type indexEntry struct {
	commit     uint64 // number of its commit in the log; zero: not yet durable
	at         uint32 // time of the signal in seconds, see Spool.nowMs
	definition model.DefinitionID
	size       uint32 // bytes of the record; of a lost number, the signals that its gap reports lost
	lossReason lossReason
	kind       wire.SignalKind
	urgent     bool
	logged     bool // the log has the record; of a lost number: it has the loss and size
}

// hasUnloggedBefore reports whether messages older than an index entry may still be missing in the log on disk.
func (it *indexEntry) hasUnloggedBefore() bool { return !it.logged || it.lossReason != notLost }

// signalOrigin is the kind of a message (such as result) and its check. Lost signals are counted by origin.
type signalOrigin struct {
	kind       wire.SignalKind
	definition model.DefinitionID
}

// lane is one of the spool's two numbered sequences of results, live or backlog. The backlog is from a time without a
// session. Numbers from firstUnacknowledged to first-1 are lost; frontReason is the cause, and counts has the lost
// signals.
type lane struct {
	firstUnacknowledged uint64
	frontReason         lossReason
	counts              map[signalOrigin]uint64 // lost signals; nil: of unknown checks

	first           uint64
	entries         []indexEntry
	ageCheckedBelow uint64 // all numbers below are checked for their age
	cursor          uint64 // the next number to send
	sent            uint64 // no higher number was ever sent
	lastBeforeOpen  uint64 // last number before the spool was opened
	urgent          int    // urgent items at or above the cursor

	// reportingNumbers has the number whose gap reports all lost results of a check.
	reportingNumbers map[lossGroup]uint64

	// recent are the newest records, the last one being number next()-1.
	recent      [][]byte
	recentBytes int
}

// lossGroup is the key of a counter of lost results, with kind, check and reason. One report to the
// server covers all results with the same key.
type lossGroup struct {
	signalOrigin
	reason lossReason
}

// newLane returns an empty lane (sequence of numbered results), whose first number is 1
func newLane() lane {
	return lane{firstUnacknowledged: 1, first: 1, cursor: 1, reportingNumbers: map[lossGroup]uint64{}}
}

// nextNumber returns the next free sequence number of the lane (numbered sequence of results).
func (l *lane) nextNumber() uint64 { return l.first + uint64(len(l.entries)) }

// unacknowledged returns how many messages of the lane (live or backlog queue) the server has not acknowledged.
func (l *lane) unacknowledged() uint64 { return l.nextNumber() - l.firstUnacknowledged }

// entryOf returns the index entry of the lane's message with the given sequence number. The argument is the
// signal's sequence number.
func (l *lane) entryOf(number uint64) *indexEntry { return &l.entries[number-l.first] }

// containsNumber reports whether the lane (numbered sequence of results) has a message with a given sequence number.
func (l *lane) containsNumber(number uint64) bool {
	return number >= l.first && number < l.nextNumber()
}

// serverIsAhead reports whether the server has higher sequence numbers than the lane ever sent. The cause is
// the restore of an old disk copy.
func (l *lane) serverIsAhead(last uint64) bool {
	for n := max(l.sent+1, l.first); n <= min(last, l.lastBeforeOpen) && n < l.nextNumber(); n++ {
		if l.entryOf(n).lossReason == notLost {
			return true
		}
	}
	return false
}

// addNumber appends a message to the lane (numbered sequence of results) under the next sequence number.
func (l *lane) addNumber(it indexEntry, data []byte) {
	l.entries = append(l.entries, it)
	l.recent = append(l.recent, data)
	l.recentBytes += len(data)
	if it.urgent {
		l.urgent++
	}
}

// recentRecord returns the log record of the message with a given sequence number, if still in memory. It
// returns nil if the record is only on disk.
func (l *lane) recentRecord(number uint64) []byte {
	start := l.nextNumber() - uint64(len(l.recent))
	if number < start || number >= l.nextNumber() {
		return nil
	}
	return l.recent[number-start]
}

// dropRecentRecords removes the oldest synced records from memory until at most `limit` bytes are left. Above hard
// bytes it drops the oldest records that the log has not accepted, and returns their lost numbers.
func (l *lane) dropRecentRecords(limit, hard int) (lost []uint64) {
	for l.recentBytes > limit {
		it := l.entryOf(l.nextNumber() - uint64(len(l.recent)))
		if it.commit == 0 && it.lossReason == notLost {
			break
		}
		l.forgetOldestRecord()
	}
	if l.recentBytes <= hard {
		return nil
	}
	start := l.nextNumber() - uint64(len(l.recent))
	for i := 0; i < len(l.recent) && l.recentBytes > hard/8*7; i++ {
		it := l.entryOf(start + uint64(i))
		if it.logged {
			continue
		}
		l.recentBytes -= len(l.recent[i])
		l.recent[i] = nil
		lost = append(lost, start+uint64(i))
	}
	return lost
}

// forgetOldestRecord frees the lane's oldest log record in memory, and keeps the message's entry in the index.
func (l *lane) forgetOldestRecord() {
	l.recentBytes -= len(l.recent[0])
	l.recent[0] = nil
	l.recent = l.recent[1:]
}

// dropThrough removes all messages up to a given sequence number from the lane (live or backlog queue). It
// returns how many bytes of the spool's disk limit become free.
func (l *lane) dropThrough(last uint64) (bytes int64) {
	if last < l.first {
		l.firstUnacknowledged = max(l.firstUnacknowledged, min(last+1, l.first))
		return 0
	}
	n := int(min(last+1, l.nextNumber()) - l.first)
	for i := range l.entries[:n] {
		it := &l.entries[i]
		if it.lossReason == notLost {
			bytes += it.budgetBytes()
		}
		if it.urgent && l.first+uint64(i) >= l.cursor {
			l.urgent--
		}
	}
	for len(l.recent) > len(l.entries)-n {
		l.forgetOldestRecord()
	}
	l.entries = l.entries[n:]
	if cap(l.entries) > 1024 && len(l.entries) < cap(l.entries)/4 {
		l.entries = append(make([]indexEntry, 0, len(l.entries)*2), l.entries...)
	}
	l.first += uint64(n)
	l.removeFrontGap()
	return bytes
}

// removeFrontGap deletes the counts of the lane's first lost messages, when the server has acknowledged the
// loss report. A report (Gap) had told the server about the loss.
func (l *lane) removeFrontGap() {
	l.firstUnacknowledged, l.frontReason, l.counts = l.first, notLost, nil
	l.cursor = max(l.cursor, l.first)
}

// replaceOldestByCounts replaces the index entries of the oldest n messages by counts of lost messages. All of these signals
// are lost.
func (l *lane) replaceOldestByCounts(n int) {
	if l.counts == nil {
		l.counts = map[signalOrigin]uint64{}
	}
	front, cursor, counts, why := l.firstUnacknowledged, l.cursor, l.counts, l.entries[n-1].lossReason
	for i := range l.entries[:n] {
		if of, n := l.entries[i].reportedLosses(); n > 0 {
			counts[of] += uint64(n)
		}
	}
	l.dropThrough(l.first + uint64(n) - 1)
	l.firstUnacknowledged, l.cursor, l.counts, l.frontReason = front, cursor, counts, why
}

// frontGap returns the report (Gap) to the server about messages lost at the start of the lane.
func (l *lane) frontGap() *wire.Gap {
	gap := &wire.Gap{Last: l.first - 1, Reason: l.frontReason.String()}
	for of, n := range l.counts {
		gap.Counts = append(gap.Counts, wire.GapCount{Kind: of.kind, Definition: of.definition, Count: n})
	}
	if l.counts == nil {
		gap.Counts = []wire.GapCount{{Kind: wire.SignalResult, Definition: keepaliveDefinition, Count: l.first - l.firstUnacknowledged}}
	}
	slices.SortFunc(gap.Counts, func(a, b wire.GapCount) int {
		return cmp.Or(cmp.Compare(a.Definition, b.Definition), cmp.Compare(a.Kind, b.Kind))
	})
	return gap
}

// moveCursorAfter makes the message after the given sequence number the next message of the lane to send.
func (l *lane) moveCursorAfter(last uint64) {
	l.sent = max(l.sent, last)
	for l.cursor = max(l.cursor, l.first); l.cursor <= last; l.cursor++ {
		if l.entryOf(l.cursor).urgent {
			l.urgent--
		}
	}
}

// rewindCursor makes the lane's first unacknowledged message the next message to send, again. So all
// unacknowledged signals are sent again.
func (l *lane) rewindCursor() {
	l.cursor, l.urgent = l.firstUnacknowledged, 0
	for i := range l.entries {
		if l.entries[i].urgent {
			l.urgent++
		}
	}
}

// gapAt returns the report (Gap) to the server about consecutive lost messages from a given sequence number on.
// It covers consecutive signals with the same reason.
func (l *lane) gapAt(number uint64) *wire.Gap {
	why := l.entryOf(number).lossReason
	gap := &wire.Gap{Reason: why.String()}
	counts := map[signalOrigin]int{} // index in gap.Counts
	for last := number; last < l.nextNumber() && l.entryOf(last).lossReason == why; last++ {
		of, n := l.entryOf(last).reportedLosses()
		i, ok := counts[of]
		if n > 0 && !ok {
			if len(gap.Counts) == maxGapCounts {
				return gap
			}
			i = len(gap.Counts)
			counts[of] = i
			gap.Counts = append(gap.Counts, wire.GapCount{Kind: of.kind, Definition: of.definition})
		}
		if n > 0 {
			gap.Counts[i].Count += uint64(n)
		}
		gap.Last = last
	}
	if why >= spoolMissing { // news of the agent, not a lost signal
		gap.Counts = []wire.GapCount{{Kind: wire.SignalKeepalive, Definition: keepaliveDefinition}}
	}
	return gap
}

// reportedLosses returns how many lost messages one index entry reports, with the kind and check of the
// messages. A signal of an unknown definition counts as a result of the node's keepalive.
func (it *indexEntry) reportedLosses() (of signalOrigin, n uint32) {
	if it.definition == 0 {
		return signalOrigin{wire.SignalResult, keepaliveDefinition}, it.size
	}
	return signalOrigin{it.kind, it.definition}, it.size
}

// markLost marks the message with a given sequence number as lost, with the reason. The signal is the one with
// the sequence number `number`. The newest lost number of a check that is not sent yet reports all its losses.
// A number that was sent may be acknowledged, and reports its own loss.
func (l *lane) markLost(number uint64, why lossReason) {
	it := l.entryOf(number)
	it.lossReason, it.commit, it.size, it.logged = why, 0, 0, false
	if it.definition == 0 && why != diskLost {
		return // a keepalive
	}
	it.size = 1
	if number < l.cursor {
		return
	}
	of := lossGroup{signalOrigin{it.kind, it.definition}, why}
	if at := l.reportingNumbers[of]; at >= l.cursor && l.containsNumber(at) && l.entryOf(at).lossReason == why {
		older, newer := l.entryOf(min(at, number)), l.entryOf(max(at, number))
		newer.size += older.size
		older.size = 0
		older.logged, newer.logged = false, false
		number = max(at, number)
	}
	l.reportingNumbers[of] = number
}

// maxGapCounts bounds the counts of one gap; the next gap has the others.
const maxGapCounts = 1000
