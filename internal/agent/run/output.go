package run

import (
	"errors"
	"io"
	"sync"

	"github.com/muster-fleet/muster/internal/hide"
)

// output keeps the first bytes of a command's output and counts the others, so that a flood costs no
// memory.
type output struct {
	keep    int
	kept    []byte
	total   uint64
	flooded bool
	stream  func([]byte) // receives the kept bytes; may be nil
	hider   *hide.Hider  // redacts secrets first; nil: there are none
}

var errFlood = errors.New("too much output")

// scratch has read buffers.
var scratch = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// ReadFrom reads the pipe until its end, or until drainLimit.
func (o *output) ReadFrom(r io.Reader) (n int64, err error) {
	buf := scratch.Get().(*[32 << 10]byte)
	defer scratch.Put(buf)
	for {
		m, err := r.Read(buf[:])
		n += int64(m)
		o.add(buf[:m])
		if o.total > drainLimit {
			o.flooded = true
			return n, errFlood // the pipe is closed: the command gets SIGPIPE
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (o *output) Write(p []byte) (int, error) {
	o.add(p)
	return len(p), nil
}

func (o *output) add(p []byte) {
	o.total += uint64(len(p))
	if o.hider != nil && o.keep > len(o.kept) {
		p = o.redact(p, false)
	}
	o.keepOf(p)
}

// redact returns the bytes that may be kept now. A redacted secret counts with its replacement's length.
func (o *output) redact(p []byte, last bool) []byte {
	before := len(p) + o.hider.Buffered()
	p = o.hider.Next(p, last)
	o.total = uint64(max(0, int64(o.total)+int64(len(p)+o.hider.Buffered()-before)))
	return p
}

// end keeps the bytes that the hider held back.
func (o *output) end() {
	if o.hider != nil && o.keep > len(o.kept) {
		o.keepOf(o.redact(nil, true))
	}
}

func (o *output) keepOf(p []byte) {
	if room := o.keep - len(o.kept); room > 0 {
		p = p[:min(room, len(p))]
		o.kept = append(o.kept, p...)
		if o.stream != nil && len(p) > 0 {
			o.stream(p)
		}
	}
}
