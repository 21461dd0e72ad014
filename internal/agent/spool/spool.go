package spool

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options has the settings of a Spool. Zero values are the defaults.
type Options struct {
	MaxBytes   int64         // on disk; half of it holds signals; default 64 MiB
	MaxAge     time.Duration // of a signal; default 24 h
	Linger     time.Duration // between two syncs of the disk; default 500 ms, negative: none
	HadSession bool          // the agent had a session before; an empty spool then was deleted, and a gap reports the loss

	FS     disk.FS   // default disk.OS{}
	Clock  Clock     // required
	Rand   io.Reader // for stream ids; default crypto/rand
	Logger *slog.Logger
}

// Clock reads the clocks of the agent's machine. They are the boot id, the time since boot and the wall clock.
type Clock interface {
	// BootMs is milliseconds since the machine's start, time asleep included: the
	// clock of Signal.AtMs.
	BootMs() uint64
	// BootID changes with every start of the machine.
	BootID() string
	// WallMs is Unix milliseconds; used only across a reboot.
	WallMs() int64
}

const (
	// liveGrace is the time after a session in which new signals are still live.
	liveGrace = 10 * time.Second
	// maxIndexEntries bounds the index in memory, whatever the signals' size.
	maxIndexEntries = 250_000
	// memoryBytes bounds the newest signals in memory.
	memoryBytes = 1 << 20
	// entryOverhead is counted for each signal beside its own bytes.
	entryOverhead = 16
)

// withDefaults returns the options with defaults filled in.
func (o Options) withDefaults() Options {
	o.MaxBytes = cmp.Or(o.MaxBytes, 64<<20)
	o.MaxAge = cmp.Or(o.MaxAge, 24*time.Hour)
	o.Linger = cmp.Or(o.Linger, 500*time.Millisecond)
	o.FS = cmp.Or[disk.FS](o.FS, disk.OS{})
	o.Rand = cmp.Or(o.Rand, rand.Reader)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Spool is the agent's log on disk of unacknowledged results and other messages for the server. Its size is bounded.
// It is safe for concurrent use.
type Spool struct {
	opts    Options
	dir     string
	notify  chan struct{}
	closing sync.WaitGroup // of logs whose folder was deleted

	mu              sync.Mutex
	log             *journal.Log
	logWaiter       *logWaiter  // of the entries of log
	streamState     streamState // its first and next are set when it is written
	lanes           [lanes]lane
	wallOffset      int64 // wall clock less boot clock at Open, ms
	bytes           int64 // counted against the budget
	hasSession      bool
	offlineSince    uint64            // boot clock at the end of the last session, or at Open
	readAhead       map[uint64][]byte // records read ahead, by token
	storeDelayed    bool              // some items are not in the log yet, because its queue is full
	unlimitedMemory bool              // memory may have all items: they are being renumbered
	stateAt         uint64            // commit of the newest state on disk
	cutSize         int64             // size of the log at the last cut
	stats           Stats
	refusals        refusalLog
	evictionsLogged uint64 // stats.Evicted at the last call of logEvictions
	folderChecked   uint64 // boot clock of the last check of the folder
	closed          bool
	scratch         []journal.Entry
	endedContext    context.Context // ended: the spool never waits for the log
}

// Stats has the counters and gauges of a spool.
type Stats struct {
	Unacknowledged uint64 // unacknowledged signals
	Bytes          int64  // of them
	Most           int64  // limit of Bytes
	Evicted        uint64 // since Open
	Refused        uint64 // by the server, since Open
	Blocked        error  // the reason why nothing can be written now; else nil
	Stream         wire.StreamID
	// EvictedInventories are the evicted signals with changes of the inventory; refused ones count.
	EvictedInventories uint64
}

// Open opens the spool in a folder, or makes a new spool with a random id. It repairs a damaged spool; lost signals
// become a gap.
func Open(dir string, o Options) (*Spool, error) {
	o = o.withDefaults()
	dir = filepath.Clean(dir)
	log, err := openLog(dir, &o)
	if err != nil {
		return nil, fmt.Errorf("open the agent's spool: %w", err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	boot := o.Clock.BootMs()
	s := &Spool{
		opts: o, dir: dir, log: log, notify: make(chan struct{}, 1), endedContext: ended,
		offlineSince: boot, folderChecked: boot, wallOffset: o.Clock.WallMs() - int64(boot), lanes: [lanes]lane{newLane(), newLane()}, refusals: refusalLog{},
	}
	s.logWaiter = &logWaiter{s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.recoverIndex(); err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("open the agent's spool: %w", err)
	}
	return s, nil
}

// openLog opens the log in the spool's folder. It repairs a damaged one.
func openLog(dir string, o *Options) (*journal.Log, error) {
	jo := journal.Options{
		FS: o.FS, Rand: o.Rand, Budget: o.MaxBytes, Reserve: -1, Tick: -1, Linger: o.Linger,
		MaxCommit: 64 << 10, QueueBytes: memoryBytes / 4, SegmentSize: o.MaxBytes / 32,
		Logger: o.Logger, Name: "spool",
		RepairCommand: "restart the agent, which repairs its spool",
	}
	log, err := journal.Open(dir, jo)
	if damage := (*journal.DamageError)(nil); errors.As(err, &damage) {
		o.Logger.Error("the spool is damaged; the agent continues without the lost signals", "err", damage)
		if _, err = journal.Repair(dir, jo); err == nil {
			log, err = journal.Open(dir, jo)
		}
	}
	return log, err
}

// Close syncs all results to the disk and closes the log
func (s *Spool) Close() error {
	s.mu.Lock()
	s.saveState()
	s.closed = true
	log := s.log
	s.mu.Unlock()
	defer s.closing.Wait()
	return log.Close()
}

// reportEntry returns an index entry whose loss report tells the server about a deleted or restored spool.
func reportEntry(nowMs int64, why lossReason) indexEntry {
	return indexEntry{at: wholeSeconds(nowMs), definition: keepaliveDefinition, lossReason: why}
}

// newStreamID returns a random id, never zero, for the spool's sequence of messages (stream).
func newStreamID(random io.Reader) (wire.StreamID, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return 0, fmt.Errorf("generate a random stream id: %w", err)
	}
	return wire.StreamID(binary.LittleEndian.Uint64(b[:]) | 1), nil
}

// Append adds a result or other message for the server to the spool, with the next sequence number. An urgent signal
// is sent at once. Append never waits.
func (s *Spool) Append(signal *wire.Signal, urgent bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return journal.ErrClosed
	}
	s.addSignal(laneForNew(s), signal, nil, urgent)
	return nil
}

// laneForNew returns the lane (queue) for a new message, live during a session, else backlog. It is live during
// a session and shortly after, else backlog.
func laneForNew(s *Spool) wire.Lane {
	if s.hasSession || elapsedMs(s.opts.Clock.BootMs(), s.offlineSince) < liveGrace.Milliseconds() {
		return wire.Live
	}
	return wire.Backlog
}

// Keepalive appends a keepalive message if a session is open. Without a session it does nothing.
func (s *Spool) Keepalive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return journal.ErrClosed
	}
	if s.hasSession {
		s.addSignal(wire.Live, &wire.Signal{Kind: wire.SignalKeepalive, AtMs: s.opts.Clock.BootMs()}, nil, false)
	}
	return nil
}

// addSignal appends a message for the server to a lane (live or backlog), under the next sequence number. A
// collector's signal has its read position (at), else at is nil.
func (s *Spool) addSignal(l wire.Lane, signal *wire.Signal, at *Position, urgent bool) {
	now, boot := s.opts.Clock.WallMs(), s.opts.Clock.BootMs()
	h := spooledSignal{signal: *signal, boot: s.streamState.boot, wallMs: now - elapsedMs(boot, signal.AtMs)}
	number := s.lanes[l].nextNumber()
	if at != nil {
		h.position = s.streamState.positions.addNewest(at)
		s.streamState.positions.setUnsynced(laneNumber{l, number})
	}
	data := appendSignalRecord(nil, s.streamState.epoch, l, number, &h)
	s.lanes[l].addNumber(indexEntry{
		at: wholeSeconds(s.nowMs() - elapsedMs(boot, signal.AtMs)), definition: signal.Definition, kind: signal.Kind, size: uint32(len(data)), urgent: urgent,
	}, data)
	s.bytes += int64(len(data)) + entryOverhead
	s.storeEntries()
	s.evictExcess()
	s.maintainLog()
	pause.Wake(s.notify)
}

// elapsedMs returns the milliseconds between two values of the boot clock, never negative.
func elapsedMs(nowMs, atMs uint64) int64 {
	if atMs > nowMs {
		return 0
	}
	return int64(nowMs - atMs)
}

// wholeSeconds converts milliseconds to whole seconds, never negative.
func wholeSeconds(ms int64) uint32 { return uint32(max(0, ms/1000)) }

// storeEntries appends to the spool's log the results that are only in memory, oldest first. It stops when the
// log's queue is full.
func (s *Spool) storeEntries() {
	s.storeDelayed = false
	defer func() {
		if s.unlimitedMemory = s.unlimitedMemory && s.storeDelayed; s.streamState.positions.newEpoch && !s.storeDelayed {
			s.storeDelayed = !s.saveState() // the state that names the new stream comes last
		}
	}()
	for l := range s.lanes {
		ln := &s.lanes[l]
		from := len(ln.recent)
		for from > 0 && ln.entryOf(ln.nextNumber()-uint64(len(ln.recent)-from+1)).hasUnloggedBefore() {
			from--
		}
		for i := from; i < len(ln.recent); i++ {
			number := ln.nextNumber() - uint64(len(ln.recent)-i)
			it := ln.entryOf(number)
			if it.lossReason != notLost {
				continue
			}
			if s.writeRecord(ln.recent[i], s.commitToken(laneNumber{wire.Lane(l), number})) != nil {
				s.storeDelayed = true
				break
			}
			it.logged = true
		}
	}
}

// writeRecord appends one record to the spool's log, and does not wait until the record is on disk. Token zero:
// its position is not needed.
func (s *Spool) writeRecord(data []byte, token uint64) error {
	e := journal.Entry{Data: data, Token: token}
	if token != 0 {
		e.Waiter = s.logWaiter
	}
	s.scratch = append(s.scratch[:0], e)
	return s.log.Append(s.endedContext, s.scratch...)
}

// Tokens name an item: bit 63 the state, else lane, epoch (its low bits), number.
const (
	tokenState  = 1 << 63
	tokenLane   = 62
	tokenEpoch  = 56
	tokenNumber = 1<<56 - 1
)

// commitToken packs a message's lane, epoch and sequence number into the token that the log returns after
// writing. The log returns the token when the record is on disk.
func (s *Spool) commitToken(p laneNumber) uint64 {
	return uint64(p.lane)<<tokenLane | (s.streamState.epoch&0x3f)<<tokenEpoch | p.number
}

// logWaiter is notified by the spool's log about finished and failed writes. Commits of an abandoned log are
// ignored.
type logWaiter struct{ s *Spool }

// Committed records that a message's log record is on disk. Of a failed write it records nothing.
func (h *logWaiter) Committed(token uint64, at journal.Position, err error) {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.logWaiter != h {
		return
	}
	if token&tokenState != 0 {
		s.stateAt = at.Number
		if positions := &s.streamState.positions; positions.newEpoch && token>>tokenEpoch&0x3f == s.streamState.epoch&0x3f {
			positions.recordEpochSynced(s.notify)
		}
		return
	}
	l, number := token>>tokenLane&1, token&tokenNumber
	ln := &s.lanes[l]
	if p := (laneNumber{wire.Lane(l), number}); token == s.commitToken(p) {
		s.streamState.positions.recordSynced(p, s.notify)
		if ln.containsNumber(number) {
			if it := ln.entryOf(number); it.lossReason == notLost {
				it.commit = at.Number
			}
		}
	}
	if s.storeDelayed {
		s.storeEntries()
	}
}

// saveState writes collectors' read positions and the state of the message sequence (stream) to the spool's
// log. It returns false while the log's queue is full.
func (s *Spool) saveState() (queued bool) {
	for l := range s.lanes {
		s.streamState.first[l], s.streamState.next[l] = s.lanes[l].firstUnacknowledged, s.lanes[l].nextNumber()
	}
	s.scratch = s.scratch[:0]
	if len(s.streamState.positions.byName) > 0 { // in one commit with the state: a cut below that deletes older records of positions
		s.scratch = append(s.scratch, journal.Entry{Data: s.streamState.positions.encodeRecord(s.streamState.epoch)})
	}
	s.scratch = append(s.scratch, journal.Entry{Data: s.streamState.append(nil), Token: tokenState | s.streamState.epoch&0x3f<<tokenEpoch, Waiter: s.logWaiter})
	return s.log.Append(s.endedContext, s.scratch...) == nil
}

// EndSession records the end of the session with the server. New results then belong to the backlog.
func (s *Spool) EndSession() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasSession, s.offlineSince = false, s.opts.Clock.BootMs()
}

// Stats returns the counters and gauges of the spool.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Most = s.opts.budget()
	st.Bytes, st.Stream = s.bytes, s.streamState.stream
	for l := range s.lanes {
		st.Unacknowledged += s.lanes[l].unacknowledged()
	}
	st.Blocked = s.log.Stats().Blocked
	return st
}

// HasUnacked reports whether the spool has a message of the given kind, not yet acknowledged and not lost.
func (s *Spool) HasUnacked(kind wire.SignalKind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.indexEntries() {
		if e.kind == kind && e.lossReason == notLost {
			return true
		}
	}
	return false
}

// nowMs returns the present time in milliseconds, independent of changes of the wall clock during the run. It
// is the wall clock of Open plus the boot time since then.
func (s *Spool) nowMs() int64 { return s.wallOffset + int64(s.opts.Clock.BootMs()) }
