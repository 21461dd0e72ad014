package inventory

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// The section inventory has the entries of the partition's nodes once, and the nodes with the places of their entries in that list.
// docs/snapshot-format.md has the table of fields.

// encode appends the inventories of the partition to a snapshot.
func (p *partition) encode(d *dictionary, b []byte) []byte {
	var ids []uint32
	count := 0
	for _, n := range p.SortedNodes() {
		of := &p.nodes[n]
		ids = append(ids, of.ids...)
		for _, one := range of.history {
			ids = append(ids, one.id&^went)
		}
		if of.received != 0 {
			count++
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	entries := d.entries(ids)
	order := make([]int, len(ids)) // of entries
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return strings.Compare(string(entries[x]), string(entries[y])) })
	places := make([]uint32, len(ids)) // by the place in ids
	b = binary.AppendUvarint(b, uint64(len(order)))
	before := ""
	for place, i := range order {
		places[i] = uint32(place)
		e := string(entries[i])
		shared := 0
		for shared < min(len(before), len(e)) && before[shared] == e[shared] {
			shared++
		}
		b = shard.AppendText(binary.AppendUvarint(b, uint64(shared)), e[shared:])
		before = e
	}
	placeOf := func(id uint32) uint32 {
		i, _ := slices.BinarySearch(ids, id)
		return places[i]
	}
	b = binary.AppendUvarint(b, uint64(count))
	var list []uint32
	for _, n := range p.SortedNodes() {
		of := &p.nodes[n]
		if of.received == 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(p.Node(n).ID))
		b = binary.AppendVarint(b, of.received)
		b = binary.AppendVarint(b, of.changed)
		b = shard.AppendBool(b, of.stale)
		list = list[:0]
		for _, id := range of.ids {
			list = append(list, placeOf(id))
		}
		slices.Sort(list)
		b = binary.AppendUvarint(b, uint64(len(list)))
		last := uint32(0)
		for _, place := range list {
			b = binary.AppendUvarint(b, uint64(place-last))
			last = place
		}
		b = binary.AppendUvarint(b, uint64(len(of.history)))
		for _, one := range of.history {
			b = binary.AppendUvarint(b, uint64(one.at))
			b = binary.AppendUvarint(b, uint64(placeOf(one.id&^went))<<1|uint64(one.id>>31))
		}
	}
	return b
}

// decode reads the inventories of a partition from a snapshot. The partition is empty and the shard has already
// decoded its nodes.
func (p *partition) decode(dictionary *dictionary, d *shard.Decoder) {
	var entries []inventory.Entry
	for range d.Count() {
		var shared string
		if n := d.Uint(); len(entries) > 0 && n <= uint64(len(entries[len(entries)-1])) {
			shared = string(entries[len(entries)-1][:n])
		} else if n > 0 {
			d.Fail("beginning of an entry")
			return
		}
		e := inventory.Entry(shared + string(d.Bytes()))
		if len(e) < 2 || len(entries) > 0 && e <= entries[len(entries)-1] {
			d.Fail("order of entries")
			return
		}
		entries = append(entries, e)
	}
	dictionary.mu.Lock()
	defer dictionary.mu.Unlock()
	for range d.Count() {
		id := model.NodeID(d.Uint32())
		n, known := p.Find(id)
		if !known || p.nodes[n].received != 0 {
			d.Fail("inventory of an unknown node, or the second one of a node")
			return
		}
		of := node{received: d.Int(), changed: d.Int(), stale: d.Byte() == 1}
		place := uint64(0)
		count := d.Count()
		of.ids = make([]uint32, 0, count)
		for i := range count {
			step := d.Uint()
			if place += step; i > 0 && step == 0 || place >= uint64(len(entries)) {
				d.Fail("place of an entry")
				break
			}
			of.ids = append(of.ids, dictionary.acquireLocked(entries[place]))
			of.sum += dictionary.slots[of.ids[len(of.ids)-1]].hash
			of.bytes += len(entries[place])
		}
		slices.Sort(of.ids)
		for range d.Count() {
			at, place := d.Uint32(), d.Uint32()
			if uint64(place>>1) >= uint64(len(entries)) {
				d.Fail("place of a difference")
				break
			}
			of.history = append(of.history, difference{at, dictionary.acquireLocked(entries[place>>1]) | place&1<<31})
		}
		if of.received == 0 && d.Err() == nil {
			d.Fail("time of an inventory")
		}
		dictionary.sizes[p.Node(n).Namespace] += len(of.ids)
		p.nodes[n] = of // RemoveNode releases the entries of a malformed section
		if d.Err() != nil {
			return
		}
	}
}
