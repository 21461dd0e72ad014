package journal

// batch collects the entries of one commit, copied by Append in order, and their Waiters. Batches are
// reused, so that a steady flow allocates nothing.
type batch struct {
	data    []byte  // the entries' bytes, back to back
	entries []place // of each in data
	waiters []waiterToken
	signals int
	raw     int // size of the entries grouped by section, lengths included
}

type place struct {
	section Section
	at, n   uint32
}

type waiterToken struct {
	waiter Waiter
	token  uint64
}

// rawSize returns the bytes of an entry in a commit before compression.
func rawSize(e *Entry) int { return uvarintLen(len(e.Data)) + len(e.Data) }

func (b *batch) add(e *Entry) {
	b.entries = append(b.entries, place{section: e.Section, at: uint32(len(b.data)), n: uint32(len(e.Data))})
	b.data = append(b.data, e.Data...)
	b.raw += rawSize(e)
	b.signals += e.Signals
	if e.Waiter != nil {
		b.waiters = append(b.waiters, waiterToken{e.Waiter, e.Token})
	}
}

func (b *batch) reset() {
	clear(b.waiters) // drop the references
	*b = batch{data: b.data[:0], entries: b.entries[:0], waiters: b.waiters[:0]}
}

// grouper sorts a batch's entries by section, stably: count, add up, place.
type grouper struct {
	count [int(All) + 1]uint32
	size  [int(All) + 1]uint32
}

// group fills c's rows and raw bytes from b.
func (g *grouper) group(b *batch, c *commit) {
	clear(g.count[:])
	clear(g.size[:])
	for _, e := range b.entries {
		g.count[e.section]++
		g.size[e.section] += uint32(uvarintLen(int(e.n))) + e.n
	}
	at := uint32(0)
	for s := range g.count {
		if g.count[s] == 0 {
			continue
		}
		end := at + g.size[s]
		c.addSpan(span{section: Section(s), count: g.count[s], start: at, end: end})
		g.size[s], at = at, end // from here on: the place of the section's next entry
	}
	c.raw = grow(c.raw, b.raw)
	for _, e := range b.entries {
		to := g.size[e.section]
		n := e.n
		for n >= 0x80 {
			c.raw[to] = byte(n) | 0x80
			n >>= 7
			to++
		}
		c.raw[to] = byte(n)
		to++
		copy(c.raw[to:], b.data[e.at:e.at+e.n])
		g.size[e.section] = to + e.n
	}
}

// grow returns b with length n, its content undefined.
func grow(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	return make([]byte, n, n+n/4)
}
