package trigger

import (
	"math"
	"sort"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// structure says which data structure, such as a list or deque, keeps the values of a window. It is a list, two
// stacks or a deque.
type structure uint8

const (
	// values keeps each value of the window.
	values structure = iota
	// stacks keeps aggregates by two stacks: an entry of the front stack holds the aggregate of itself and all younger
	// entries of that stack, one of the back stack its own value. The oldest entry leaves without a subtraction.
	stacks
	// deque keeps for a minimum (or maximum) the values that are smaller (larger) than all younger ones.
	deque
)

// operation is the way to combine two values of a window, such as their sum or minimum.
type operation uint8

const (
	keepFirst operation = iota
	keepLast
	sumFloat
	sumUnsigned
	minFloat
	minUnsigned
	maxFloat
	maxUnsigned
)

// combine computes, for example, the sum or minimum of two values, as the window's operation says. Both are the bits
// of a float64.
func (o operation) combine(older, newer uint64) uint64 {
	switch o {
	case keepFirst:
		return older
	case keepLast:
		return newer
	case sumFloat:
		return math.Float64bits(math.Float64frombits(older) + math.Float64frombits(newer))
	case sumUnsigned:
		return older + newer
	}
	if o.dominates(newer, older) {
		return newer
	}
	return older
}

// dominates reports whether a later value a makes an earlier value b irrelevant for a minimum or maximum.
func (o operation) dominates(a, b uint64) bool {
	switch o {
	case minFloat:
		return math.Float64frombits(a) <= math.Float64frombits(b)
	case minUnsigned:
		return a <= b
	case maxFloat:
		return math.Float64frombits(a) >= math.Float64frombits(b)
	}
	return a >= b
}

// Bounds of one window of stored values, in entries and in bytes.
const (
	maxValues     = 10_000    // of shape values; older ones are lost, and the function is unknown while its period has one
	maxAggregates = 4_096     // beyond it, entries are combined to coarser ones
	maxTexts      = 256       // of both, for windows of texts
	maxTextBytes  = 512 << 10 // of the texts of a window, unless they are as few as minTexts
	minTexts      = 4
)

// effect says whether a window stores a value, skips the value or marks the value as failed. The window stores
// the value, skips it, or marks it as broken.
type effect uint8

const (
	skip   effect = iota // the value does not count
	use                  // it makes an entry
	broken               // its test failed: the function is unknown while the value is in the period
)

// windowSpec describes a window (stored values of one function call), by item, period and data structure. It
// has item, period and data structure.
type windowSpec struct {
	position int
	itemType item.Type
	period   period
	shape    structure
	op       operation
	texts    bool // the window keeps texts: bits are unused
	// load returns the entry of a value.
	load func(item.Value) (bits uint64, u effect)
	// grain is the time over which values are combined to one entry: 0 for none.
	grain     int64
	signature string // equal for windows with equal state
}

// entry is one stored value of a window, or several values combined, for example to a sum.
type entry struct {
	at   int64 // of the youngest value, in nanoseconds
	bits uint64
}

// window holds the stored values of one function call, as entries in order of time. The first front entries are the
// front stack, those up to inside the back stack; later ones lie between the end of the period and now. Entries are a
// ring: index maps a rank to its place.
type window struct {
	entries []entry
	weights []uint32 // values of each entry, as aggregated as bits; nil: one each
	texts   []string // nil without
	head    int      // place of rank 0
	size    int

	front, frontLen int
	back            uint64 // aggregate of the back stack
	backWeight      uint32
	end             int64 // of the period at the last evaluation
	grain           int64
	lostUntil       int64 // time of the youngest value that did not fit, or whose test failed; 0: none
	newest          int64 // time of the newest value, also of one that does not count; 0: none
}

// ringIndex converts an entry's rank by time (0 is the oldest) to an index in the ring buffer. The position is
// the rank; 0 is the oldest.
func (w *window) ringIndex(rank int) int {
	if rank += w.head; rank >= len(w.entries) {
		rank -= len(w.entries)
	}
	return rank
}

// at returns the entry with the given rank by time, where 0 is the oldest. The position is the rank; 0 is the
// oldest.
func (w *window) at(rank int) *entry { return &w.entries[w.ringIndex(rank)] }

// weight returns how many values the entry with the given rank by time combines. rank is the entry's position
// in the order of time, 0 is the oldest.
func (w *window) weight(rank int) uint32 {
	if w.weights == nil {
		return 1
	}
	return w.weights[w.ringIndex(rank)]
}

// text returns the text of the entry with the given rank by time. rank is the entry's position in the order of
// time.
func (w *window) text(rank int) string { return w.texts[w.ringIndex(rank)] }

// add stores a value, measured at the time `at`, in the window. now is the time of the evaluation.
func (w *window) add(s *windowSpec, at, now int64, v item.Value) {
	w.newest = max(w.newest, at)
	bits, u := s.load(v)
	switch u {
	case skip:
		return
	case broken:
		w.lostUntil = max(w.lostUntil, at)
		if s.period.count == 0 {
			return
		}
	}
	w.advance(s, now)
	in := at <= w.end
	if in && s.period.count == 0 && at <= s.period.startOf(w.end) {
		return
	}
	rank := w.size
	if rank > 0 && w.at(rank-1).at > at {
		rank = sort.Search(w.size, func(i int) bool { return w.at(i).at > at })
	}
	if s.period.count > 0 && in && rank == 0 && w.frontLen >= int(s.period.count) {
		return
	}
	if s.shape == deque {
		var alive bool
		if rank, alive = w.removeDominated(s.op, rank, bits); !alive {
			return
		}
	}
	if w.grain > 0 && w.merge(s, rank, at, bits, in, v) {
		return
	}
	w.insert(rank, at, bits, s.texts, v)
	if in {
		w.frontLen++
		switch {
		case s.shape != stacks:
		case rank < w.front:
			w.front++
			if rank+1 < w.front {
				w.aggregate(s.op, rank, w.at(rank+1).bits, w.weight(rank+1))
			}
			w.aggregateAll(s.op, rank, bits)
		default:
			w.pushBack(s.op, bits, 1)
		}
	}
	w.evict(s)
	w.limitMemory(s)
}

// aggregate combines a number, itself computed from `weight` values, with one entry of the window. rank is the
// entry's position in the order of time.
func (w *window) aggregate(o operation, rank int, bits uint64, weight uint32) {
	e := w.at(rank)
	e.bits = o.combine(e.bits, bits)
	if w.weights != nil {
		w.weights[w.ringIndex(rank)] += weight
	}
}

// aggregateAll combines a value with each of the `before` oldest entries of the window. These are the `before`
// oldest entries of the front stack.
func (w *window) aggregateAll(o operation, before int, bits uint64) {
	for i := range before {
		w.aggregate(o, i, bits, 1)
	}
}

// pushBack combines a value with the running aggregate (such as a sum) of the window's newer values. They are
// the back stack. The value may be an aggregate of several.
func (w *window) pushBack(o operation, bits uint64, weight uint32) {
	if w.backWeight == 0 {
		w.back, w.backWeight = bits, weight
		return
	}
	w.back, w.backWeight = o.combine(w.back, bits), w.backWeight+weight
}

// merge combines a value with the entry of the same time slot, if such an entry exists. The slot's length is the
// grain. It reports whether such an entry exists.
func (w *window) merge(s *windowSpec, rank int, at int64, bits uint64, in bool, v item.Value) bool {
	o, older := s.op, true
	i := rank - 1
	if i < 0 || w.at(i).at/w.grain != at/w.grain || (i < w.frontLen) != in {
		older = false
		if i = rank; i >= w.size || w.at(i).at/w.grain != at/w.grain || (i < w.frontLen) != in {
			return false
		}
	}
	e := w.at(i)
	switch {
	case older:
		w.aggregate(o, i, bits, 1)
		if w.texts != nil && o == keepLast {
			w.texts[w.ringIndex(i)] = v.String()
		}
		e.at = at
	default:
		e.bits = o.combine(bits, e.bits)
		if w.weights != nil {
			w.weights[w.ringIndex(i)]++
		}
		if w.texts != nil && o == keepFirst {
			w.texts[w.ringIndex(i)] = v.String()
		}
	}
	if i < w.front {
		w.aggregateAll(o, i, bits)
	} else if in && s.shape == stacks {
		w.pushBack(o, bits, 1)
	}
	return true
}

// removeDominated removes older entries that no longer matter for a minimum or maximum beside a new value. They can no longer
// be the minimum or maximum. It returns the rank of the value, and whether the window needs it.
func (w *window) removeDominated(o operation, rank int, bits uint64) (int, bool) {
	if rank < w.size && o.dominates(w.at(rank).bits, bits) {
		return 0, false
	}
	first := rank
	for first > 0 && o.dominates(bits, w.at(first-1).bits) {
		first--
	}
	w.remove(first, rank)
	w.frontLen -= rank - first
	return first, true
}

// advance moves the end of the stored period up to the evaluation at `now`, and drops old values. Entries up to the
// new end come in, and old entries are dropped.
func (w *window) advance(s *windowSpec, now int64) {
	w.end = max(w.end, s.period.end(now))
	for w.frontLen < w.size && w.at(w.frontLen).at <= w.end {
		if s.shape == stacks {
			w.pushBack(s.op, w.at(w.frontLen).bits, w.weight(w.frontLen))
		}
		w.frontLen++
	}
	w.evict(s)
}

// evict drops the entries of a window that are older than its period.
func (w *window) evict(s *windowSpec) {
	drop := 0
	if count := int(s.period.count); count > 0 {
		drop = max(0, w.frontLen-count)
	} else {
		begin := s.period.startOf(w.end)
		for drop < w.frontLen && w.at(drop).at <= begin {
			drop++
		}
	}
	if drop > 0 {
		w.drop(s, drop)
	}
}

// drop removes the n oldest entries of the window.
func (w *window) drop(s *windowSpec, n int) {
	if w.texts != nil {
		for i := range n {
			w.texts[w.ringIndex(i)] = ""
		}
	}
	w.head = w.ringIndex(n)
	w.size -= n
	w.frontLen -= n
	switch {
	case s.shape != stacks:
	case n <= w.front:
		w.front -= n
	default: // the back stack becomes the front stack
		w.front, w.back, w.backWeight = w.frontLen, 0, 0
		for i := w.front - 2; i >= 0; i-- {
			next := w.at(i + 1)
			w.aggregate(s.op, i, next.bits, w.weight(i+1))
		}
	}
	if w.size == 0 {
		w.head = 0
	}
}

// total returns the aggregate (such as the sum) and the count of all values in the period. The aggregate is,
// for example, a sum.
func (w *window) total(o operation) (bits uint64, n int) {
	bits, n = w.back, int(w.backWeight)
	if w.front > 0 {
		weight := w.front
		if w.weights != nil {
			weight = int(w.weight(0))
		}
		if bits = w.at(0).bits; n > 0 {
			bits = o.combine(bits, w.back)
		}
		n += weight
	}
	return bits, n
}

// insert stores a value as a new entry at the given rank by time. rank is that entry's position in the order of
// time, 0 is the oldest.
func (w *window) insert(rank int, at int64, bits uint64, texts bool, v item.Value) {
	if w.size == len(w.entries) {
		w.growRing(texts)
	}
	w.size++
	for i := w.size - 1; i > rank; i-- {
		w.move(i, i-1)
	}
	p := w.ringIndex(rank)
	w.entries[p] = entry{at, bits}
	if w.weights != nil {
		w.weights[p] = 1
	}
	if texts {
		w.texts[p] = v.String()
	}
}

// remove removes the entries between two ranks by time. first (inclusive) and last (exclusive) are positions in
// the order of time.
func (w *window) remove(first, last int) {
	if first == last {
		return
	}
	for ; last < w.size; first, last = first+1, last+1 {
		w.move(first, last)
	}
	w.size = first
}

// move copies an entry from one rank by time to another. Positions are in the order of time, 0 is the oldest.
func (w *window) move(to, from int) {
	to, from = w.ringIndex(to), w.ringIndex(from)
	w.entries[to] = w.entries[from]
	if w.weights != nil {
		w.weights[to] = w.weights[from]
	}
	if w.texts != nil {
		w.texts[to] = w.texts[from]
	}
}

// growRing enlarges the ring buffer of a window, for more entries.
func (w *window) growRing(texts bool) {
	n := len(w.entries)
	if n == 0 {
		n = 1
	} else {
		n += max(1, n/2)
	}
	w.entries = copyRing(w.entries, w.head, n)
	if w.weights != nil || w.grain > 0 {
		w.weights = copyRing(w.weights, w.head, n)
	}
	if texts {
		w.texts = copyRing(w.texts, w.head, n)
	}
	w.head = 0
}

// copyRing copies the elements of a ring buffer into a larger slice, the oldest element first.
func copyRing[T any](ring []T, head, size int) []T {
	out := make([]T, size)
	n := copy(out, ring[head:])
	copy(out[n:], ring[:head])
	return out
}

// limitMemory keeps the memory of a window within its limit, by dropping or combining entries. If each value counts it drops
// the oldest values, else it combines adjacent entries.
func (w *window) limitMemory(s *windowSpec) {
	limit := maxAggregates
	combines := s.period.count == 0 && (s.shape != values || s.op != keepLast)
	switch {
	case s.texts:
		limit = maxTexts
	case !combines:
		limit = maxValues
	}
	switch {
	case !combines:
		for w.size > limit+int(s.period.count) || w.size > minTexts && w.textBytes() > maxTextBytes {
			w.lostUntil = max(w.lostUntil, w.at(0).at)
			w.frontLen = max(w.frontLen, 1)
			w.drop(s, 1)
		}
	case w.size > limit || w.size > minTexts && w.textBytes() > maxTextBytes:
		if w.grain == 0 {
			w.grain = max(1, int64(s.period.span+s.period.shift.Delay())/maxAggregates)
			w.weights = make([]uint32, len(w.entries))
			for i := range w.size {
				w.weights[w.ringIndex(i)] = 1
				if i < w.front {
					w.weights[w.ringIndex(i)] = uint32(w.front - i)
				}
			}
		}
		for w.size > limit/2 || w.size > minTexts && w.textBytes() > maxTextBytes/2 {
			w.grain *= 2
			w.coarsen(s)
		}
	}
}

// coarsen doubles the length of the time slots, and combines the entries in each slot. The slot's length is the grain.
func (w *window) coarsen(s *windowSpec) {
	size, front, inside := 0, 0, 0
	for i := range w.size {
		e, side := *w.at(i), 0
		if i >= w.front {
			side++
		}
		if i >= w.frontLen {
			side++
		}
		lastSide := 0
		if size > front {
			lastSide++
		}
		if size > inside {
			lastSide++
		}
		if size > 0 && side == lastSide && w.at(size-1).at/w.grain == e.at/w.grain {
			last := w.at(size - 1)
			last.at = e.at
			if side > 0 || s.shape != stacks { // an aggregate of the front stack has the younger one already
				last.bits = s.op.combine(last.bits, e.bits)
				w.weights[w.ringIndex(size-1)] += w.weight(i)
			}
			continue
		}
		w.move(size, i)
		size++
		if side == 0 {
			front++
		}
		if side < 2 {
			inside++
		}
	}
	for i := size; i < w.size && w.texts != nil; i++ {
		w.texts[w.ringIndex(i)] = ""
	}
	w.size, w.front, w.frontLen = size, front, inside
}

// textBytes returns the length of all texts of a window.
func (w *window) textBytes() (n int) {
	for _, text := range w.texts {
		n += len(text)
	}
	return n
}

// grains has the lengths of the time slots in which long windows combine values.
var grains = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// slotLength returns the length of the time slots whose values a long window combines into one entry. The
// length is in nanoseconds; 0 means that values are not combined. A period up to an hour, moved by up to an
// hour, has none. A longer period has slots of about a hundredth of the period.
func slotLength(p *period) int64 {
	reach := p.span + p.shift.Delay()
	if p.span <= time.Hour && p.shift.Delay() <= time.Hour {
		return 0
	}
	for _, g := range grains {
		if p.span/g <= 120 && reach/g <= maxAggregates/2 {
			return int64(g)
		}
	}
	return int64(grains[len(grains)-1])
}
