package event

import (
	"encoding/binary"

	"github.com/muster-fleet/muster/internal/wire"
)

// A result may carry extra fields (hooks, values). They are stored in one text with the output:
// the length of the output, the output, and the extra fields as encoded by the agent. The flag
// flagExtra marks such a text; without it the text is the output alone.

// storeOutput stores the output of a state, and its encoded extra fields.
func (p *partition) storeOutput(s *slot, output, extra []byte) {
	if len(extra) == 0 {
		s.flags &^= flagExtra
		s.output = p.outputs.set(s.output, output)
		return
	}
	s.flags |= flagExtra
	p.joined = binary.AppendUvarint(p.joined[:0], uint64(len(output)))
	p.joined = append(append(p.joined, output...), extra...)
	s.output = p.outputs.set(s.output, p.joined)
}

// rawOutput is the output of a state and its encoded extra fields. Both are valid until the
// next storeOutput.
func (p *partition) rawOutput(s *slot) (output, extra []byte) {
	all := p.outputs.bytes(s.output)
	if s.flags&flagExtra == 0 {
		return all, nil
	}
	size, n := binary.Uvarint(all)
	if n <= 0 || size > uint64(len(all)-n) {
		return nil, nil // see decodeState, which lets no such thing in
	}
	return all[n : n+int(size)], all[n+int(size):]
}

func (p *partition) output(s *slot) []byte {
	output, _ := p.rawOutput(s)
	return output
}

// validExtra says whether stored bytes are as storeOutput writes them.
func validExtra(all []byte) bool {
	size, n := binary.Uvarint(all)
	if n <= 0 || size > uint64(len(all)-n) {
		return false
	}
	_, err := wire.DecodeExtra(all[n+int(size):])
	return err == nil
}

// extra decodes the extra fields of a state.
func (p *partition) extra(s *slot) (x wire.Extra) {
	if _, encoded := p.rawOutput(s); len(encoded) > 0 {
		x, _ = wire.DecodeExtra(encoded) // the session validated it; malformed bytes count as none
	}
	return x
}
