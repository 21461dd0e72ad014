package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// SnapshotVersion is the first byte of a snapshot's body: the version of the container.
const SnapshotVersion = 1

// A snapshot is one partition in one canonical order, so that two shards that got there by
// different ways write the same bytes. docs/snapshot-format.md has the table of fields:
//
//	byte     version of the container
//	uvarint  number of sections; then each:
//	text     its name (uvarint length, bytes)
//	byte     its version
//	u64      its length, little-endian; then its bytes
//
// The shard writes the first section, nodes; each reducer writes its own, in the order of Add.

// nodesSection is the shard's own part of a snapshot. It has the nodes with their connections and streams, and the
// marks of removed nodes.
var nodesSection = Section{Name: "nodes", Version: 1}

// Snapshot encodes the state of a partition (share of the nodes) and appends the bytes to dst. It also returns
// the journal position of that state. One goroutine at a time may call it for a partition. Files of reducers
// are written first, while commits are applied.
//
// A snapshot replaces the replay of everything up to its position, and with it the effects
// of those commits: it must not be used for a restart before every reducer's
// consumers have recorded them. The effects of its last commit may not have been handed on yet:
// write it beside, WaitApplied, wait for the consumers, then rename it (store/snapshot does).
func (s *Shard) Snapshot(id model.Partition, dst []byte) (body []byte, at journal.Position) {
	for _, r := range s.reducers {
		if f, ok := r.(Flusher); ok {
			f.Flush(id)
		}
	}
	p := s.partitions[id]
	p.Lock()
	defer p.Unlock()
	// Commits that do not touch the partition leave its own position behind.
	at = p.at
	if applied := s.workers[int(id)%len(s.workers)].applied.Load(); applied > at.Number {
		at = journal.Position{Log: s.log.Load(), Number: applied}
	}
	dst = append(dst, SnapshotVersion)
	dst = binary.AppendUvarint(dst, uint64(1+len(s.reducers)))
	dst = appendSection(dst, nodesSection, p.encode)
	for _, r := range s.reducers {
		dst = appendSection(dst, r.Section(), func(dst []byte) []byte { return r.Encode(p, dst) })
	}
	return dst, at
}

// appendSection appends a section with its name and length to a snapshot. It writes name, version, length, and the
// content that the function encode appends.
func appendSection(dst []byte, s Section, encode func([]byte) []byte) []byte {
	dst = append(AppendText(dst, s.Name), s.Version)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	from := len(dst)
	dst = encode(dst)
	binary.LittleEndian.PutUint64(dst[from-8:], uint64(len(dst)-from))
	return dst
}

// EmptySnapshot encodes an empty partition as a snapshot
func EmptySnapshot() []byte { return []byte{SnapshotVersion, 0} }

// Hash returns a hash of a partition's state over all snapshot sections. Equal states have equal hashes.
func (s *Shard) Hash(id model.Partition) [32]byte {
	body, _ := s.Snapshot(id, nil)
	return sha256.Sum256(body)
}

// Restore restores the state of an empty partition from an encoded snapshot. Commits up to at are passed over for it;
// replay must begin at the lowest position of all partitions. A reducer that has no section starts empty at that
// position; a section without a reducer is an error. After an error the partition is empty again. Restores of
// different partitions may run at the same time; all must return before the first commit (Run may have begun).
func (s *Shard) Restore(id model.Partition, at journal.Position, body []byte) error {
	p := s.partitions[id]
	p.Lock()
	defer p.Unlock()
	if len(p.nodes) > 0 || p.tombstones.Len() > 0 {
		return fmt.Errorf("restore partition %d: the partition already has nodes", id)
	}
	if err := p.decodeSections(NewDecoder(body)); err != nil {
		p.reset()
		return fmt.Errorf("restore partition %d: %w", id, err)
	}
	p.at = at
	s.recordRestoredPosition(id, at)
	return nil
}

// decodeSections reads all sections of a partition's snapshot and refuses unknown versions and sections.
func (p *Partition) decodeSections(d *Decoder) error {
	if version := d.Byte(); d.err == nil && version != SnapshotVersion {
		return fmt.Errorf("%w: the snapshot has version %d, this program reads version %d", ErrSnapshot, version, SnapshotVersion)
	}
	decoded := map[string]bool{}
	for i := range d.Count() {
		section := Section{Name: string(d.Bytes()), Version: d.Byte()}
		body := NewDecoder(d.nextBytes(d.Fixed64()))
		if d.err != nil {
			return d.err
		}
		known, decode := nodesSection, p.decode
		if i > 0 {
			if known, decode = p.findSection(section.Name); decode == nil {
				return fmt.Errorf("%w: section %q: this program has no reducer of that name", ErrSnapshot, section.Name)
			}
		}
		switch {
		case section.Name != known.Name || decoded[section.Name]:
			return fmt.Errorf("%w: found section %q, expected %q", ErrSnapshot, section.Name, known.Name)
		case section.Version != known.Version:
			return fmt.Errorf("%w: section %q has version %d, this program reads version %d", ErrSnapshot, section.Name, section.Version, known.Version)
		}
		decoded[section.Name] = true
		if decode(body); body.err == nil && len(body.rest) > 0 {
			body.Fail("bytes after the end")
		}
		if body.err != nil {
			return fmt.Errorf("read section %q of the snapshot: %w", section.Name, body.err)
		}
	}
	if d.err == nil && len(d.rest) > 0 {
		d.Fail("bytes after the end")
	}
	return d.err
}

// findSection looks up a snapshot section by name, and returns its supported version and its decode function.
func (p *Partition) findSection(name string) (Section, func(*Decoder)) {
	for _, r := range p.shard.reducers {
		if s := r.Section(); s.Name == name {
			return s, func(d *Decoder) { r.Decode(p, d) }
		}
	}
	return Section{}, nil
}

// recordRestoredPosition records the journal position of a partition that was restored from a snapshot. The worker's applied
// position becomes the lowest of the worker's partitions.
func (s *Shard) recordRestoredPosition(id model.Partition, at journal.Position) {
	s.restoreMu.Lock()
	defer s.restoreMu.Unlock()
	s.log.Store(at.Log)
	s.restoredAt[id] = at.Number
	w := s.workers[int(id)%len(s.workers)]
	lowest := at.Number
	for _, p := range w.owned {
		lowest = min(lowest, s.restoredAt[p.ID])
	}
	w.applied.Store(lowest)
}

// reset removes all nodes and all state from the partition, after a failed restore.
func (p *Partition) reset() {
	for len(p.order) > 0 {
		p.RemoveNode(p.order[len(p.order)-1])
	}
	p.nodes, p.free, p.tombstones, p.intentMark = nil, nil, Tombstones[model.NodeID]{}, nil
	for i, r := range p.shard.reducers {
		*p.deadlines[i] = expect.Engine{}
		r.Reset(p, p.deadlines[i])
	}
}

// RevisionRecord returns the newest journal record that gives the revision (version number) of the declared
// resources. It also has their highest id. It is zero if no such record was journaled. All partitions have the
// same one unless commits of the journal are lost: then that of the partition furthest ahead counts.
func (s *Shard) RevisionRecord() (last wire.IntentRecord) {
	furthest := uint64(0)
	for _, p := range s.partitions {
		p.Lock()
		if mark := decodeRevisionRecord(p.intentMark); mark != nil && p.at.Number >= furthest {
			last, furthest = *mark, p.at.Number
		}
		p.Unlock()
	}
	return last
}

// SnapshotRevision returns the record of the declared resources' revision (version number) that an encoded
// snapshot contains. It also has their highest id. It is nil if none is readable.
func SnapshotRevision(body []byte) *wire.IntentRecord {
	d := NewDecoder(body)
	if version, sections := d.Byte(), d.Count(); version != SnapshotVersion || sections == 0 {
		return nil
	}
	d.Bytes() // name of the first section
	d.Byte()  // its version
	return decodeRevisionRecord(NewDecoder(d.nextBytes(d.Fixed64())).Bytes())
}

// decodeRevisionRecord decodes a journal record that gives the revision (version number) of the declared
// resources. It returns nil if the input is empty or another record.
func decodeRevisionRecord(encoded []byte) *wire.IntentRecord {
	var r wire.Record
	if len(encoded) == 0 || r.Decode(encoded) != nil || r.Kind != wire.RecordIntent {
		return nil
	}
	return &r.Intent
}

// ErrSnapshot reports that bytes are no snapshot of the present program.
var ErrSnapshot = errors.New("snapshot is malformed")

// Decoder reads one reducer's section of a snapshot. After the first error it returns zeros. Slices that it returns
// alias the section.
type Decoder struct {
	rest []byte
	err  error
}

// NewDecoder returns a decoder of a snapshot section.
func NewDecoder(section []byte) *Decoder { return &Decoder{rest: section} }

// Rest returns the bytes of the snapshot section that the decoder has not read yet.
func (d *Decoder) Rest() []byte { return d.rest }

// Skip ignores all bytes of the snapshot section that the decoder has not read.
func (d *Decoder) Skip() { d.rest = nil }

// Fail records a malformed element as the decoder's error, if the decoder has no error yet
func (d *Decoder) Fail(element string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrSnapshot, element)
	}
	d.rest = nil
}

// Err returns the first error of the decoder.
func (d *Decoder) Err() error { return d.err }

// Uint reads an unsigned integer in variable length (varint) from the snapshot section.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.Fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// Uint32 reads an unsigned varint of at most 32 bits from the snapshot section.
func (d *Decoder) Uint32() uint32 {
	v := d.Uint()
	if v > 1<<32-1 {
		d.Fail("number out of range")
		return 0
	}
	return uint32(v)
}

// Int reads a signed integer in variable length (zigzag varint) from the snapshot section.
func (d *Decoder) Int() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.Fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// Byte reads the next byte of the snapshot section.
func (d *Decoder) Byte() byte {
	if b := d.nextBytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Fixed64 reads a 64-bit integer from the next eight bytes of the snapshot section, little-endian.
func (d *Decoder) Fixed64() uint64 {
	if b := d.nextBytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Fixed32 reads a 32-bit integer from the next four bytes of the snapshot section, little-endian.
func (d *Decoder) Fixed32() uint32 {
	if b := d.nextBytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Bytes reads a length from the snapshot section, and then that number of bytes.
func (d *Decoder) Bytes() []byte { return d.nextBytes(d.Uint()) }

// Array fills the slice dst with the next bytes of the snapshot section.
func (d *Decoder) Array(dst []byte) { copy(dst, d.nextBytes(uint64(len(dst)))) }

// Count reads how many elements follow in the snapshot section, each of at least one byte.
func (d *Decoder) Count() int {
	n := d.Uint()
	if n > uint64(len(d.rest)) {
		d.Fail("more elements than bytes")
		return 0
	}
	return int(n)
}

// nextBytes returns the next size bytes, or records an error if the section is shorter.
func (d *Decoder) nextBytes(size uint64) []byte {
	if size > uint64(len(d.rest)) {
		d.Fail("cut short")
		return nil
	}
	v := d.rest[:size:size]
	d.rest = d.rest[size:]
	return v
}

// AppendBool appends a bool to a snapshot section as one byte.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendText appends to a snapshot section the length of a text and then the text. Decoder.Bytes reads them.
func AppendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Flags of a node in a snapshot.
const (
	nodeStopped = 1 << iota
	nodeWaits
	nodeEveryKeepalive
)

// encode appends the state of the partition's nodes to a snapshot. The section also has the newest record of
// the declared resources' revision and the tombstones of removed nodes.
func (p *Partition) encode(b []byte) []byte {
	b = AppendText(b, string(p.intentMark))
	b = binary.AppendUvarint(b, uint64(len(p.order)))
	var before model.NodeID
	for _, n := range p.order {
		node := &p.nodes[n]
		b = binary.AppendUvarint(b, uint64(node.ID-before))
		before = node.ID
		b = p.encodeNode(b, n, node)
	}
	return p.tombstones.Encode(b, cmp.Compare[model.NodeID], func(b []byte, id model.NodeID) []byte {
		return binary.AppendUvarint(b, uint64(id))
	})
}

// encodeNode appends one node to a snapshot section.
func (p *Partition) encodeNode(b []byte, n uint32, node *Node) []byte {
	b = binary.AppendUvarint(b, uint64(node.Namespace))
	var flags byte
	if node.Stopped {
		flags |= nodeStopped
	}
	if node.awaitsHeartbeat {
		flags |= nodeWaits
	}
	if node.EveryKeepalive {
		flags |= nodeEveryKeepalive
	}
	b = append(b, flags, byte(node.Keepalive))
	b = binary.LittleEndian.AppendUint64(b, node.session)
	b = binary.AppendVarint(b, node.Timeout)
	b = binary.AppendVarint(b, node.Warning)
	b = binary.AppendVarint(b, node.silence)
	b = binary.AppendVarint(b, node.LastSeen)
	b = binary.AppendVarint(b, p.keepalives.Due(n))
	b = binary.AppendUvarint(b, node.backlog)
	b = binary.AppendVarint(b, node.BacklogUntil)
	b = binary.AppendUvarint(b, uint64(len(node.streams)))
	for _, s := range node.streams {
		b = binary.LittleEndian.AppendUint64(b, uint64(s.key.Stream))
		b = append(b, byte(s.key.Lane))
		b = binary.AppendUvarint(b, s.last)
	}
	return b
}

// decode reads the snapshot section "nodes", with the nodes and the tombstones of removed nodes
func (p *Partition) decode(d *Decoder) {
	if p.intentMark = slices.Clone(d.Bytes()); len(p.intentMark) > 0 && decodeRevisionRecord(p.intentMark) == nil {
		d.Fail("the mark of the intent")
		return
	}
	var id model.NodeID
	for i := range d.Count() {
		step := d.Uint32()
		next := id + model.NodeID(step)
		if i > 0 && next <= id {
			d.Fail("nodes out of order")
		}
		if d.err != nil {
			return
		}
		id = next
		p.decodeNode(d, id)
	}
	p.tombstones.Decode(d, func(d *Decoder) model.NodeID { return model.NodeID(d.Uint32()) })
}

// decodeNode reads one node from a snapshot section.
func (p *Partition) decodeNode(d *Decoder, id model.NodeID) {
	n := p.AddNode(id, model.NamespaceID(d.Uint32()))
	node := &p.nodes[n]
	flags := d.Byte()
	node.Stopped, node.awaitsHeartbeat, node.EveryKeepalive = flags&nodeStopped != 0, flags&nodeWaits != 0, flags&nodeEveryKeepalive != 0
	if node.Keepalive = KeepaliveState(d.Byte()); node.Keepalive >= keepaliveStates {
		d.Fail("keepalive out of range")
		return
	}
	node.session = d.Fixed64()
	node.Timeout = d.Int()
	node.Warning = d.Int()
	node.silence = d.Int()
	node.LastSeen = d.Int()
	if due := d.Int(); due > 0 {
		p.keepalives.Set(n, due)
	}
	node.backlog = d.Uint()
	node.BacklogUntil = d.Int()
	streams := d.Count()
	if streams > MaxStreams {
		d.Fail("too many streams")
		return
	}
	for range streams {
		key := wire.StreamKey{Stream: wire.StreamID(d.Fixed64()), Lane: wire.Lane(d.Byte())}
		node.streams = append(node.streams, streamSequence{key, d.Uint()})
	}
}
