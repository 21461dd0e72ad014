package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
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

// nodesSection is the shard's own section: nodes, their life and streams, tombstones.
var nodesSection = Section{Name: "nodes", Version: 1}

// Snapshot appends the partition's body to dst and returns the position it reflects.
//
// A snapshot replaces the replay of everything up to its position, and with it the effects
// of those commits: it must not be used for a restart before every reducer's
// consumers have recorded them. The effects of its last commit may not have been handed on yet:
// write it beside, WaitApplied, wait for the consumers, then rename it (store/snapshot does).
func (s *Shard) Snapshot(id model.Partition, dst []byte) (body []byte, at journal.Position) {
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

func appendSection(dst []byte, s Section, encode func([]byte) []byte) []byte {
	dst = append(AppendText(dst, s.Name), s.Version)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	from := len(dst)
	dst = encode(dst)
	binary.LittleEndian.PutUint64(dst[from-8:], uint64(len(dst)-from))
	return dst
}

// EmptySnapshot is the body of a partition that holds nothing.
func EmptySnapshot() []byte { return []byte{SnapshotVersion, 0} }

// Hash is equal for two partitions that hold the same in every section.
func (s *Shard) Hash(id model.Partition) [32]byte {
	body, _ := s.Snapshot(id, nil)
	return sha256.Sum256(body)
}

// Restore fills an empty partition from a snapshot's body. Commits up to at are
// passed over for it; replay must begin at the lowest position of all partitions.
// A reducer that has no section starts empty at that position; a section without a reducer
// is an error. After an error the partition is empty again. Restores of different partitions
// may run at the same time; all must return before the first commit (Run may have begun).
func (s *Shard) Restore(id model.Partition, at journal.Position, body []byte) error {
	p := s.partitions[id]
	p.Lock()
	defer p.Unlock()
	if len(p.nodes) > 0 || len(p.tombstones) > 0 {
		return fmt.Errorf("restore partition %d: it is not empty", id)
	}
	if err := p.decodeSections(NewDecoder(body)); err != nil {
		p.reset()
		return fmt.Errorf("restore partition %d: %w", id, err)
	}
	p.at = at
	s.restored(id, at)
	return nil
}

func (p *Partition) decodeSections(d *Decoder) error {
	if version := d.Byte(); d.err == nil && version != SnapshotVersion {
		return fmt.Errorf("%w: version %d, this program reads version %d", ErrSnapshot, version, SnapshotVersion)
	}
	decoded := map[string]bool{}
	for i := range d.Count() {
		section := Section{Name: string(d.Bytes()), Version: d.Byte()}
		body := NewDecoder(d.next(d.Fixed64()))
		if d.err != nil {
			return d.err
		}
		known, decode := nodesSection, p.decode
		if i > 0 {
			if known, decode = p.section(section.Name); decode == nil {
				return fmt.Errorf("%w: section %q: this program has no view of that name", ErrSnapshot, section.Name)
			}
		}
		switch {
		case section.Name != known.Name || decoded[section.Name]:
			return fmt.Errorf("%w: section %q in place of %q", ErrSnapshot, section.Name, known.Name)
		case section.Version != known.Version:
			return fmt.Errorf("%w: section %q has version %d, this program reads version %d", ErrSnapshot, section.Name, section.Version, known.Version)
		}
		decoded[section.Name] = true
		if decode(body); body.err == nil && len(body.rest) > 0 {
			body.Fail("bytes after the end")
		}
		if body.err != nil {
			return fmt.Errorf("section %q: %w", section.Name, body.err)
		}
	}
	if d.err == nil && len(d.rest) > 0 {
		d.Fail("bytes after the end")
	}
	return d.err
}

// section finds the reducer that reads a section.
func (p *Partition) section(name string) (Section, func(*Decoder)) {
	for _, r := range p.shard.reducers {
		if s := r.Section(); s.Name == name {
			return s, func(d *Decoder) { r.Decode(p, d) }
		}
	}
	return Section{}, nil
}

// restored moves Applied to the lowest position of each worker's partitions: where
// all are at the journal's head, nothing will be replayed.
func (s *Shard) restored(id model.Partition, at journal.Position) {
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

// reset makes the partition empty, and takes its nodes out of the index of places.
func (p *Partition) reset() {
	for len(p.order) > 0 {
		p.RemoveNode(p.order[len(p.order)-1])
	}
	p.nodes, p.free, p.buried = nil, nil, nil
	clear(p.tombstones)
	for i, r := range p.shard.reducers {
		*p.deadlines[i] = expect.Engine{}
		r.Reset(p, p.deadlines[i])
	}
}
