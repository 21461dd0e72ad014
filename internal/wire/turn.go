package wire

import "github.com/muster-fleet/muster/internal/model"

// Turn tells an agent to run assigned round-robin checks now, each once.
type Turn struct{ Given []Given }

// Given is one run: of Chunk, and where that is a proxy check about Node.
type Given struct {
	Chunk model.ChunkID
	Node  model.NodeID
}

// MaxGiven is how many runs one Turn gives at most.
const MaxGiven = 1000

// AppendTurn writes a whole frame.
func AppendTurn(dst []byte, t *Turn) []byte {
	dst, start := begin(dst, uint32(KindTurn))
	for _, g := range t.Given {
		var in int
		dst, in = begin(dst, 1)
		dst = appendUint(dst, 1, uint64(g.Chunk))
		dst = appendUint(dst, 2, uint64(g.Node))
		dst = end(dst, in)
	}
	return end(dst, start)
}

// Decode fills t from the body of a frame.
func (t *Turn) Decode(body []byte) error {
	*t = Turn{Given: t.Given[:0]}
	f := fields{message: "Turn", rest: body}
	for f.next() {
		if f.num == 1 && f.room("given", len(t.Given), MaxGiven) {
			var g Given
			in := f.nested("given", "Given")
			for in.next() {
				switch in.num {
				case 1:
					g.Chunk = model.ChunkID(in.uint32("chunk"))
				case 2:
					g.Node = model.NodeID(in.uint32("node"))
				}
			}
			f.done(&in)
			t.Given = append(t.Given, g)
		}
	}
	return f.err
}
