package observe

import (
	"encoding/binary"
	"errors"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A packed histogram has its buckets, so that nothing is rounded: for each that counted, how many empty ones are before it,
// and its count, both as varints. Either end knows the values of the buckets.

// mostCount bounds one bucket: 2^40, so that no sum overflows.
const mostCount = 1 << 40

var errHistogram = errors.New("no histogram of a load run")

// pack returns the buckets of a histogram.
func pack(h *hdrhistogram.Histogram) []byte {
	out, empty := []byte{}, uint64(0)
	for _, n := range h.Export().Counts {
		if n == 0 {
			empty++
			continue
		}
		out = binary.AppendUvarint(out, empty)
		out = binary.AppendUvarint(out, uint64(n))
		empty = 0
	}
	return out
}

// unpack returns a histogram with the buckets of like and packed counts.
func unpack(like *hdrhistogram.Histogram, data []byte) (*hdrhistogram.Histogram, error) {
	s := like.Export()
	clear(s.Counts)
	for at := uint64(0); len(data) > 0; at++ {
		empty, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, errHistogram
		}
		count, m := binary.Uvarint(data[n:])
		if m <= 0 || count == 0 || count > mostCount || empty >= uint64(len(s.Counts)) {
			return nil, errHistogram
		}
		if at += empty; at >= uint64(len(s.Counts)) {
			return nil, errHistogram
		}
		s.Counts[at] = int64(count)
		data = data[n+m:]
	}
	return hdrhistogram.Import(s), nil
}
