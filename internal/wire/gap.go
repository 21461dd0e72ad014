package wire

import "github.com/muster-fleet/muster/internal/model"

func appendGap(dst []byte, g *Gap) []byte {
	dst, start := begin(dst, fieldGap)
	dst = appendUint(dst, 1, g.Last)
	dst = appendString(dst, 2, g.Reason)
	for _, c := range g.Counts {
		var in int
		dst, in = begin(dst, 3)
		dst = appendUint(dst, 1, uint64(c.Kind))
		dst = appendUint(dst, 2, uint64(c.Chunk))
		dst = appendUint(dst, 3, c.Count)
		dst = end(dst, in)
	}
	return end(dst, start)
}

func (f *fields) gap(g *Gap) {
	*g = Gap{Counts: g.Counts[:0]}
	in := f.nested("gap", "Gap")
	for in.next() {
		switch in.num {
		case 1:
			g.Last = in.uint("last", maxNumber)
		case 2:
			g.Reason = in.string("reason", maxText)
		case 3:
			if in.room("counts", len(g.Counts), maxChunks) {
				g.Counts = append(g.Counts, in.gapCount())
			}
		}
	}
	f.done(&in)
}

func (f *fields) gapCount() (c GapCount) {
	in := f.nested("counts", "GapCount")
	for in.next() {
		switch in.num {
		case 1:
			c.Kind = SignalKind(in.uint("kind", uint64(lastSignalKind)))
		case 2:
			c.Chunk = model.ChunkID(in.uint32("chunk"))
		case 3:
			c.Count = in.uint64("count")
		}
	}
	f.done(&in)
	return c
}
