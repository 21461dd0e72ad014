package event

import "math/bits"

// bitset is a set of slots. A partition holds a few thousand slots, so that a set
// is a few hundred bytes and an intersection takes nanoseconds: compressed bitmaps
// would cost more than they save.
type bitset struct {
	words []uint64
	count int
}

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

func (b *bitset) remove(i uint32) {
	w := int(i >> 6)
	if w < len(b.words) && b.words[w]&(1<<(i&63)) != 0 {
		b.words[w] &^= 1 << (i & 63)
		b.count--
	}
}

func (b *bitset) has(i uint32) bool {
	w := int(i >> 6)
	return w < len(b.words) && b.words[w]&(1<<(i&63)) != 0
}

// copyFrom makes b equal to o, in b's memory.
func (b *bitset) copyFrom(o *bitset) {
	b.words = append(b.words[:0], o.words...)
	b.count = o.count
}

// intersect removes all slots that are not in o.
func (b *bitset) intersect(o *bitset) {
	n := min(len(b.words), len(o.words))
	clear(b.words[n:])
	b.count = 0
	for i, w := range o.words[:n] {
		b.words[i] &= w
		b.count += bits.OnesCount64(b.words[i])
	}
}

// unite adds all slots of o.
func (b *bitset) unite(o *bitset) {
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

func (b *bitset) reset() {
	clear(b.words)
	b.count = 0
}
