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

// storedPosition is a collector's read position, numbered so that the highest number is the newest position. Of
// several positions with one name, the highest number is the newest.
type storedPosition struct {
	change uint64
	name   string
	value  []byte
}

// positionSet has the newest read position of each source, such as a log file. It also has the signals whose positions
// are not yet on disk.
type positionSet struct {
	change   uint64 // number of the newest change
	byName   map[string]storedPosition
	unsynced map[laneNumber]bool // signals with positions that must not be sent yet; false: their records are on disk, their epoch is not
	newEpoch bool                // the state of the present epoch is not yet on disk
}

// setUnsynced records that a message with a read position is not yet on disk.
func (p *positionSet) setUnsynced(of laneNumber) {
	if p.unsynced == nil {
		p.unsynced = map[laneNumber]bool{}
	}
	p.unsynced[of] = true
}

// add adds a read position from the spool's own log, unless the set has a newer position.
func (p *positionSet) add(of storedPosition) {
	if p.byName == nil {
		p.byName = map[string]storedPosition{}
	}
	if p.change = max(p.change, of.change); p.byName[of.name].change < of.change {
		p.byName[of.name] = of
	}
}

// addNewest adds a new read position to the set, with a higher number than all others.
func (p *positionSet) addNewest(at *Position) storedPosition {
	of := storedPosition{p.change + 1, at.Name, slices.Clone(at.Value)}
	p.add(of)
	return of
}

// append appends an encoded read position to a record of the spool's log.
func (of *storedPosition) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, of.change)
	dst = append(binary.AppendUvarint(dst, uint64(len(of.name))), of.name...)
	return append(binary.AppendUvarint(dst, uint64(len(of.value))), of.value...)
}

// decodePosition decodes a stored read position at the start of data.
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

// encodeRecord encodes the read positions of all collectors as one record of the spool's log.
func (p *positionSet) encodeRecord(epoch uint64) []byte {
	data := appendRecord(nil, recordPositions, epoch)
	for _, of := range slices.SortedFunc(maps.Values(p.byName), func(a, b storedPosition) int { return cmp.Compare(a.change, b.change) }) {
		data = of.append(data)
	}
	return data
}

// AppendWithPosition adds a message to the spool together with the collector's read position after that message. The spool
// sends the signal when both are on disk, or while the disk refuses.
func (s *Spool) AppendWithPosition(signal *wire.Signal, at *Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return journal.ErrClosed
	}
	s.addSignal(laneForNew(s), signal, at, false)
	return nil
}

// SetPosition stores a collector's read position without a new message. A crash within the next second may lose it.
func (s *Spool) SetPosition(at *Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	of := s.streamState.positions.addNewest(at)
	_ = s.writeRecord(of.append(appendRecord(nil, recordPositions, s.streamState.epoch)), 0)
	s.maintainLog()
}

// Position returns the stored read position with the given name, or nil if none is stored.
func (s *Spool) Position(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streamState.positions.byName[name].value
}

// RemovePositions removes the stored read positions of deleted collectors. These are the positions whose names `keep`
// refuses.
func (s *Spool) RemovePositions(keep func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.streamState.positions.byName, func(name string, _ storedPosition) bool { return !keep(name) })
}

// awaitsDisk reports whether a message must stay unsent until its collector's read position is on disk. After a
// crash, the agent would otherwise read the same values again and send them twice. It does not wait for a disk
// that refuses.
func (p *positionSet) awaitsDisk(of laneNumber, log *journal.Log) bool {
	_, awaits := p.unsynced[of]
	return awaits && log.Stats().Blocked == nil
}

// recordSynced records that a message with a read position is on disk, and wakes a waiting session.
func (p *positionSet) recordSynced(of laneNumber, notify chan struct{}) {
	switch _, awaits := p.unsynced[of]; {
	case awaits && p.newEpoch:
		p.unsynced[of] = false
	case awaits:
		delete(p.unsynced, of)
		pause.Wake(notify)
	}
}

// recordEpochSynced records that the start of the spool's present run (epoch) is on disk, and wakes the
// session.
func (p *positionSet) recordEpochSynced(notify chan struct{}) {
	p.newEpoch = false
	maps.DeleteFunc(p.unsynced, func(_ laneNumber, recordAwaited bool) bool { return !recordAwaited })
	pause.Wake(notify)
}
