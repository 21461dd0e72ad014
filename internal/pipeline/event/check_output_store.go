package event

import (
	"encoding/binary"
	"math/bits"

	"github.com/muster-fleet/muster/internal/wire"
)

// outputStore stores the outputs of a partition's events inside large pages of memory. A million texts are thus few
// objects for the garbage collector. Each text lies in an extent, a slice of fixed size.
//
// Extents come in classes (steps of 16 bytes to 256, then four per doubling); a
// freed extent waits on its class's list. Pages are never freed, only used again: memory
// follows the largest size so far.
type outputStore struct {
	pages     [][]byte
	usedBytes int                  // bytes taken of the last page
	free      [classes][]outputRef // by class
	big       map[uint32][]byte    // texts above maxExtent, by number
	bigNo     uint32
}

// outputRef is the place in memory where the output of an event is stored. It has page and offset or, for a text
// larger than the largest extent, a number.
type outputRef struct {
	at   uint32
	size uint32
}

const (
	unit      = 16
	pageBits  = 12 // units per page: 64 KiB
	pageBytes = unit << pageBits
	firstPage = 1 << 10
	maxExtent = 16 << 10
	classes   = 40
)

// sizeClass returns the class of the smallest memory slice (extent) that can hold a text of size bytes. Size is
// from 1 to maxExtent.
func sizeClass(size uint32) int {
	if size <= 256 {
		return int(size-1) / unit
	}
	exp := bits.Len32(size-1) - 1 // 8 for 257…512
	quarter := (size - 1) >> (exp - 2) & 3
	return 16 + (exp-8)*4 + int(quarter)
}

// sizeOfClass returns the number of bytes in a memory slice (extent) of a size class. It is a multiple of unit.
func sizeOfClass(class int) int {
	if class < 16 {
		return (class + 1) * unit
	}
	exp := 8 + (class-16)/4
	return 1<<exp + ((class-16)%4+1)<<(exp-2)
}

// text returns the output text that is stored at a reference. The text is valid until the next setText or dropText.
func (o *outputStore) text(r outputRef) []byte {
	switch {
	case r.size == 0:
		return nil
	case r.size > maxExtent:
		return o.big[r.at]
	}
	return o.extentBytes(r)[:r.size]
}

// extentBytes returns the memory from the start of a stored text to the end of its memory page.
func (o *outputStore) extentBytes(r outputRef) []byte {
	page := o.pages[r.at>>pageBits]
	return page[int(r.at&(1<<pageBits-1))*unit:]
}

// setText replaces the text at reference r, and returns the new reference
func (o *outputStore) setText(r outputRef, text []byte) outputRef {
	size := uint32(len(text))
	if r.size != 0 && size != 0 && r.size <= maxExtent && size <= maxExtent && sizeClass(r.size) == sizeClass(size) {
		r.size = size
		copy(o.extentBytes(r), text)
		return r
	}
	o.dropText(r)
	switch {
	case size == 0:
		return outputRef{}
	case size > maxExtent:
		if o.big == nil {
			o.big = map[uint32][]byte{}
		}
		o.bigNo++
		o.big[o.bigNo] = append([]byte(nil), text...)
		return outputRef{o.bigNo, size}
	}
	r = o.allocateExtent(sizeClass(size))
	r.size = size
	copy(o.extentBytes(r), text)
	return r
}

// dropText frees the memory (extent) of a stored text
func (o *outputStore) dropText(r outputRef) {
	switch {
	case r.size == 0:
	case r.size > maxExtent:
		delete(o.big, r.at)
	default:
		class := sizeClass(r.size)
		o.free[class] = append(o.free[class], r)
	}
}

// allocateExtent reserves an unused piece of memory (extent) for a text of a given size class. It comes from the free
// list or the end of the last page.
func (o *outputStore) allocateExtent(class int) outputRef {
	if list := o.free[class]; len(list) > 0 {
		r := list[len(list)-1]
		o.free[class] = list[:len(list)-1]
		return r
	}
	size := sizeOfClass(class)
	last := len(o.pages) - 1
	if last < 0 || len(o.pages[last])-o.usedBytes < size {
		// Pages grow with the partition: 256 partitions of a small fleet stay small.
		page := firstPage
		if last >= 0 {
			page = min(2*len(o.pages[last]), pageBytes)
		}
		for page < size {
			page *= 2
		}
		o.pages = append(o.pages, make([]byte, page))
		o.usedBytes = 0
		last++
	}
	r := outputRef{at: uint32(last)<<pageBits | uint32(o.usedBytes/unit)}
	o.usedBytes += size
	return r
}

// A result may carry extra fields (hooks, values). They are stored in one text with the output:
// the length of the output, the output, and the extra fields as encoded by the agent. The flag
// flagExtra marks such a text; without it the text is the output alone.

// storeOutput stores the output of an event with its encoded extra fields, such as values and labels
func (p *eventPartition) storeOutput(s *stateSlot, output, extra []byte) {
	if len(extra) == 0 {
		s.flags &^= flagExtra
		s.output = p.outputs.setText(s.output, output)
		return
	}
	s.flags |= flagExtra
	p.textScratch = binary.AppendUvarint(p.textScratch[:0], uint64(len(output)))
	p.textScratch = append(append(p.textScratch, output...), extra...)
	s.output = p.outputs.setText(s.output, p.textScratch)
}

// rawOutput returns the stored output of an event with its encoded extra fields, such as values and labels. Both are
// valid until the next storeOutput.
func (p *eventPartition) rawOutput(s *stateSlot) (output, extra []byte) {
	all := p.outputs.text(s.output)
	if s.flags&flagExtra == 0 {
		return all, nil
	}
	size, n := binary.Uvarint(all)
	if n <= 0 || size > uint64(len(all)-n) {
		return nil, nil // decodeState refuses invalid extra fields
	}
	return all[n : n+int(size)], all[n+int(size):]
}

// outputText returns the output text of an event. The text is valid until any output of the partition changes.
func (p *eventPartition) outputText(s *stateSlot) []byte {
	output, _ := p.rawOutput(s)
	return output
}

// isValidExtra reports whether stored extra fields have the encoding that storeOutput writes.
func isValidExtra(all []byte) bool {
	size, n := binary.Uvarint(all)
	if n <= 0 || size > uint64(len(all)-n) {
		return false
	}
	_, err := wire.DecodeExtra(all[n+int(size):])
	return err == nil
}

// decodeExtra decodes the extra fields of an event state, such as values and labels
func (p *eventPartition) decodeExtra(s *stateSlot) (x wire.Extra) {
	if _, encoded := p.rawOutput(s); len(encoded) > 0 {
		x, _ = wire.DecodeExtra(encoded) // the session validated it; malformed bytes count as none
	}
	return x
}

// bitset is a set of event states, with one bit per slot index. A partition holds a few thousand slots, so that a set
// is a few hundred bytes and an intersection takes nanoseconds: compressed bitmaps would cost more than they save.
type bitset struct {
	words []uint64
	count int
}

// add adds the slot number of an event to the set.
func (b *bitset) add(i uint32) {
	w := int(i >> 6)
	for w >= len(b.words) {
		b.words = append(b.words, 0)
	}
	if b.words[w]&(1<<(i&63)) == 0 {
		b.words[w] |= 1 << (i & 63)
		b.count++
	}
}

// remove removes the slot number of an event from the set.
func (b *bitset) remove(i uint32) {
	w := int(i >> 6)
	if w < len(b.words) && b.words[w]&(1<<(i&63)) != 0 {
		b.words[w] &^= 1 << (i & 63)
		b.count--
	}
}

// has reports whether the set contains the slot number of an event.
func (b *bitset) has(i uint32) bool {
	w := int(i >> 6)
	return w < len(b.words) && b.words[w]&(1<<(i&63)) != 0
}

// copyFrom makes the set equal to the set o, without a new allocation.
func (b *bitset) copyFrom(o *bitset) {
	b.words = append(b.words[:0], o.words...)
	b.count = o.count
}

// intersect keeps only the events that are also in the set o
func (b *bitset) intersect(o *bitset) {
	n := min(len(b.words), len(o.words))
	clear(b.words[n:])
	b.count = 0
	for i, w := range o.words[:n] {
		b.words[i] &= w
		b.count += bits.OnesCount64(b.words[i])
	}
}

// union adds all events of the set o to the set.
func (b *bitset) union(o *bitset) {
	for len(b.words) < len(o.words) {
		b.words = append(b.words, 0)
	}
	b.count = 0
	for i, w := range o.words {
		b.words[i] |= w
	}
	for _, w := range b.words {
		b.count += bits.OnesCount64(w)
	}
}

// reset empties the set and keeps its memory.
func (b *bitset) reset() {
	clear(b.words)
	b.count = 0
}
