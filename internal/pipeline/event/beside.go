package event

import (
	"encoding/binary"

	"github.com/muster-fleet/muster/internal/wire"
)

// What a result carries beside its output (hooks, values) lies with it: the length of the
// output, the output, and the rest as it came. flagBeside says that it is so; without it
// there is the output alone.

// keep stores what a state says.
func (p *partition) keep(s *slot, output, beside []byte) {
	if len(beside) == 0 {
		s.flags &^= flagBeside
		s.output = p.outputs.set(s.output, output)
		return
	}
	s.flags |= flagBeside
	p.joined = binary.AppendUvarint(p.joined[:0], uint64(len(output)))
	p.joined = append(append(p.joined, output...), beside...)
	s.output = p.outputs.set(s.output, p.joined)
}

// said is the output of a state, and what lies beside it. Both are valid until the next
// keep.
func (p *partition) said(s *slot) (output, beside []byte) {
	all := p.outputs.bytes(s.output)
	if s.flags&flagBeside == 0 {
		return all, nil
	}
	size, n := binary.Uvarint(all)
	if n <= 0 || size > uint64(len(all)-n) {
		return nil, nil // see decodeState, which lets no such thing in
	}
	return all[n : n+int(size)], all[n+int(size):]
}

func (p *partition) output(s *slot) []byte {
	output, _ := p.said(s)
	return output
}

// wholeBeside says whether stored bytes are as keep writes them.
func wholeBeside(all []byte) bool {
	size, n := binary.Uvarint(all)
	if n <= 0 || size > uint64(len(all)-n) {
		return false
	}
	_, err := wire.DecodeExtra(all[n+int(size):])
	return err == nil
}

// extra reads what lies beside the output of a state.
func (p *partition) extra(s *slot) (x wire.Extra) {
	if _, beside := p.said(s); len(beside) > 0 {
		x, _ = wire.DecodeExtra(beside) // the session looked at it; what cannot be read is nothing
	}
	return x
}
