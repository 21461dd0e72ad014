package observe

import (
	"encoding/binary"
	"errors"

	"github.com/muster-fleet/muster/internal/model"
)

// EventState is an event state as the server reports it.
type EventState struct {
	Node    model.NodeID
	Check   model.CheckID
	Results uint64             // applied ever
	Stream  uint64             // of the last one …
	Number  uint64             // … and its number there
	Digest  uint32             // of the last one's status and output; zero: not told
	Expired bool               // the deadline judged since, and the last one may not have
	Order   model.ResultDigest // of all results; zero: not told, or the view does not know
}

// States holds encoded event states, in chunks that fit a line of the log. An event state takes about 20 bytes.
type States [][]byte

// chunkSize is the number of bytes from which on a chunk takes no further state.
const chunkSize = 64 << 10

// Add appends an event state.
func (list *States) Add(s EventState) {
	if n := len(*list); n == 0 || len((*list)[n-1]) >= chunkSize {
		*list = append(*list, make([]byte, 0, chunkSize+64))
	}
	b := &(*list)[len(*list)-1]
	*b = binary.AppendUvarint(*b, uint64(s.Node))
	*b = binary.AppendUvarint(*b, uint64(s.Check))
	*b = binary.AppendUvarint(*b, s.Results)
	*b = binary.BigEndian.AppendUint64(*b, s.Stream)
	last := s.Number << 1
	if s.Expired {
		last++
	}
	*b = binary.AppendUvarint(*b, last)
	*b = binary.BigEndian.AppendUint32(*b, s.Digest)
	*b = binary.BigEndian.AppendUint32(*b, uint32(s.Order))
}

var errStates = errors.New("event states are cut short")

// Each calls fn with each event state. It returns the error of a chunk that is cut short.
func (list States) Each(fn func(EventState)) error {
	for _, b := range list {
		for len(b) > 0 {
			s, rest, ok := decodeState(b)
			if !ok {
				return errStates
			}
			fn(s)
			b = rest
		}
	}
	return nil
}

// decodeState decodes one event state and returns the rest.
func decodeState(b []byte) (s EventState, rest []byte, ok bool) {
	ok = true
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	fixed := func(n int) []byte {
		if len(b) < n {
			ok = false
			return make([]byte, n)
		}
		v := b[:n]
		b = b[n:]
		return v
	}
	s.Node, s.Check, s.Results = model.NodeID(number()), model.CheckID(number()), number()
	s.Stream = binary.BigEndian.Uint64(fixed(8))
	last := number()
	s.Number, s.Expired = last>>1, last&1 == 1
	s.Digest, s.Order = binary.BigEndian.Uint32(fixed(4)), model.ResultDigest(binary.BigEndian.Uint32(fixed(4)))
	return s, b, ok
}
