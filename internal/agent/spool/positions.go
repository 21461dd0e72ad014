package spool

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// Position is the read position of a collector in its source, such as a log file. The spool stores the position and the values
// before it in one record, so that a restart repeats no value and leaves none out.
type Position struct {
	Name  string // of the source
	Value []byte
}

// storedPosition is a Position with the number of its change; of several with one name, the highest number is the newest.
type storedPosition struct {
	change uint64
	name   string
	value  []byte
}

// positionSet has the newest position of each source, and the signals whose positions are not yet on disk.
type positionSet struct {
	change   uint64 // number of the newest change
	byName   map[string]storedPosition
	unsynced map[laneNumber]bool // signals with positions that must not be sent yet; false: their records are on disk, their epoch is not
	newEpoch bool                // the state of the present epoch is not yet on disk
}

// setUnsynced records that a signal, whose record also has a position, is not yet on disk.
func (p *positionSet) setUnsynced(of laneNumber) {
	if p.unsynced == nil {
		p.unsynced = map[laneNumber]bool{}
	}
	p.unsynced[of] = true
}

// add adds a position from the log to the set, unless the set has a newer position of the same source.
func (p *positionSet) add(of storedPosition) {
	if p.byName == nil {
		p.byName = map[string]storedPosition{}
	}
	if p.change = max(p.change, of.change); p.byName[of.name].change < of.change {
		p.byName[of.name] = of
	}
}

// next gives a new position the next change number and adds it to the set.
func (p *positionSet) next(at *Position) storedPosition {
	of := storedPosition{p.change + 1, at.Name, slices.Clone(at.Value)}
	p.add(of)
	return of
}

// append appends the encoded position to a log record.
func (of *storedPosition) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, of.change)
	dst = append(binary.AppendUvarint(dst, uint64(len(of.name))), of.name...)
	return append(binary.AppendUvarint(dst, uint64(len(of.value))), of.value...)
}

// decodePosition decodes a stored position at the start of data.
func decodePosition(data []byte) (of storedPosition, rest []byte, ok bool) {
	text := func() []byte {
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			ok = false
			return nil
		}
		text := data[n : n+int(size)]
		data = data[n+int(size):]
		return text
	}
	change, n := binary.Uvarint(data)
	if n <= 0 || change == 0 {
		return of, nil, false
	}
	data, ok = data[n:], true
	of = storedPosition{change, string(text()), slices.Clone(text())}
	return of, data, ok
}

// record encodes all positions as a record of the log.
func (p *positionSet) record(epoch uint64) []byte {
	data := appendRecord(nil, recordPositions, epoch)
	for _, of := range slices.SortedFunc(maps.Values(p.byName), func(a, b storedPosition) int { return cmp.Compare(a.change, b.change) }) {
		data = of.append(data)
	}
	return data
}

// AppendWith adds a signal to the spool as Append does, together with the position that the collector has reached after
// the signal's values. The spool sends the signal when both are on disk, or while the disk refuses.
func (s *Spool) AppendWith(signal *wire.Signal, at *Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return journal.ErrClosed
	}
	s.addSignal(newestLane(s), signal, at, false)
	return nil
}

// SetPosition stores a position without a signal. A crash within the next second may lose it.
func (s *Spool) SetPosition(at *Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	of := s.streamState.positions.next(at)
	_ = s.writeRecord(of.append(appendRecord(nil, recordPositions, s.streamState.epoch)), 0)
	s.maintainLog()
}

// Position returns the value of the position with this name, or nil if there is none.
func (s *Spool) Position(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streamState.positions.byName[name].value
}

// KeepPositions removes the stored read positions of collectors that no longer exist: those whose names keep refuses.
func (s *Spool) KeepPositions(keep func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.streamState.positions.byName, func(name string, _ storedPosition) bool { return !keep(name) })
}

// awaitsDisk reports whether a signal must not be sent yet because its position, or the id of its stream, is not on disk: after a crash the
// agent would read the same values again and send them twice. It does not wait for a disk that refuses.
func (p *positionSet) awaitsDisk(of laneNumber, log *journal.Log) bool {
	_, awaits := p.unsynced[of]
	return awaits && log.Stats().Blocked == nil
}

// noteSynced records that a signal is on disk, and wakes the session if it waits for that.
func (p *positionSet) noteSynced(of laneNumber, notify chan struct{}) {
	switch _, awaits := p.unsynced[of]; {
	case awaits && p.newEpoch:
		p.unsynced[of] = false
	case awaits:
		delete(p.unsynced, of)
		pause.Wake(notify)
	}
}

// noteEpoch records that the state of the spool's present run (epoch) is on disk.
func (p *positionSet) noteEpoch(notify chan struct{}) {
	p.newEpoch = false
	maps.DeleteFunc(p.unsynced, func(_ laneNumber, recordAwaited bool) bool { return !recordAwaited })
	pause.Wake(notify)
}
