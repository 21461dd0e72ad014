package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"
)

// commit implements Commit. The committer fills raw; a commit that is read from a file has packed, and
// unpacks raw when a section is requested.
type commit struct {
	head  header
	log   uint64 // present incarnation of its log
	spans []span // ascending
	names []Section
	raw   []byte

	inflate sync.Mutex // guards raw, whole and broken while packed is unpacked
	whole   bool       // raw is valid
	packed  []byte     // compressed entries
	body    []byte     // buffer that packed is a part of
	broken  error

	refs atomic.Int32
	pool *sync.Pool
}

var _ Commit = (*commit)(nil)

// newCommit takes an empty commit with one user from the pool.
func newCommit(pool *sync.Pool) *commit {
	c, _ := pool.Get().(*commit)
	if c == nil {
		c = &commit{pool: pool}
	}
	c.head, c.spans, c.names = header{}, c.spans[:0], c.names[:0]
	c.raw, c.body, c.packed = c.raw[:0], c.body[:0], nil
	c.whole, c.broken = false, nil
	c.refs.Store(1)
	return c
}

func (c *commit) addSpan(s span) {
	c.spans = append(c.spans, s)
	c.names = append(c.names, s.section)
}

// parse copies the bytes of a commit that was read and verified.
func (c *commit) parse(h header, body []byte) (err error) {
	c.head = h
	if h.flags&flagLost != 0 {
		c.whole = true
		return nil
	}
	c.body = append(c.body[:0], body...)
	c.spans, c.packed, err = parseTable(c.spans[:0], &c.head, c.body)
	for _, s := range c.spans {
		c.names = append(c.names, s.section)
	}
	return err
}

func (c *commit) Position() Position       { return Position{Log: c.log, Number: c.head.number} }
func (c *commit) Received() int64          { return c.head.received }
func (c *commit) Listening() time.Duration { return c.head.listening }
func (c *commit) Sections() []Section      { return c.names }

func (c *commit) Entries(s Section, fn func(data []byte) error) error {
	low, high := 0, len(c.spans)
	for low < high {
		if mid := int(uint(low+high) >> 1); c.spans[mid].section < s {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(c.spans) || c.spans[low].section != s {
		return nil
	}
	if err := c.unpack(); err != nil {
		return fmt.Errorf("read commit %d: %w", c.head.number, err)
	}
	row := c.spans[low]
	return eachEntry(c.raw[row.start:row.end], row.count, fn)
}

// unpack makes raw from packed, once for all readers.
func (c *commit) unpack() error {
	c.inflate.Lock()
	defer c.inflate.Unlock()
	if c.whole || c.broken != nil {
		return c.broken
	}
	size, err := s2.DecodedLen(c.packed)
	if err == nil && size != int(c.head.raw) {
		err = errMalformed
	}
	if err == nil {
		c.raw = grow(c.raw, size)
		c.raw, err = s2.Decode(c.raw, c.packed)
	}
	c.whole, c.broken = err == nil, err
	return err
}

func (c *commit) Retain() {
	if c.refs.Add(1) < 2 {
		panic("BUG: a commit was retained after its last release")
	}
}

func (c *commit) Release() {
	switch left := c.refs.Add(-1); {
	case left == 0:
		c.pool.Put(c)
	case left < 0:
		panic("BUG: a commit was released more often than retained")
	}
}

// encode appends the commit's bytes to dst; the header is sealed on the way.
func (c *commit) encode(dst []byte) []byte {
	c.head.entries, c.head.raw = 0, uint32(len(c.raw))
	for _, s := range c.spans {
		c.head.entries += s.count
	}
	c.head.sections = uint16(len(c.spans))
	var empty [commitHeaderSize]byte
	dst = append(dst[:0], empty[:]...)
	dst = appendTable(dst, c.spans)
	if len(c.raw) > 0 {
		room := len(dst) + s2.MaxEncodedLen(len(c.raw))
		if cap(dst) < room {
			dst = append(make([]byte, 0, room+room/4), dst...)
		}
		packed := s2.Encode(dst[len(dst):cap(dst)], c.raw)
		dst = dst[:len(dst)+len(packed)]
	}
	c.head.put(dst)
	return dst
}
