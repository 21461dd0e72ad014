package trigger

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// stateVersion is the first byte of an encoded trigger state.
const stateVersion = 1

var errState = errors.New("the state of a trigger's windows is damaged, or belongs to another expression")

// Append appends the encoded windows (stored values of function calls) to b. A window has the stored values of
// one function call. The layout: version, flags, since, now, number of windows; for each: front, inside, size,
// back, its weight, end, grain, lost, newest, and the entries with the differences of their times.
func (w *Windows) Append(b []byte) []byte {
	b = append(b, stateVersion)
	var flags byte
	if w.Problem {
		flags = 1
	}
	b = append(b, flags)
	b = binary.AppendVarint(b, w.since)
	b = binary.AppendVarint(b, w.now)
	b = binary.AppendUvarint(b, uint64(len(w.list)))
	for i := range w.list {
		b = w.list[i].append(b)
	}
	return b
}

// append appends the encoded window (stored values of one function call) to b.
func (w *window) append(b []byte) []byte {
	var flags byte
	if w.weights != nil {
		flags |= 1
	}
	if w.texts != nil {
		flags |= 2
	}
	b = append(b, flags)
	for _, n := range []int{w.front, w.frontLen, w.size} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, bits.ReverseBytes64(w.back))
	b = binary.AppendUvarint(b, uint64(w.backWeight))
	for _, n := range []int64{w.end, w.grain, w.lostUntil, w.newest} {
		b = binary.AppendVarint(b, n)
	}
	last := int64(0)
	for rank := range w.size {
		e := w.at(rank)
		b = binary.AppendVarint(b, e.at-last)
		b = binary.AppendUvarint(b, bits.ReverseBytes64(e.bits))
		if w.weights != nil {
			b = binary.AppendUvarint(b, uint64(w.weight(rank)))
		}
		if w.texts != nil {
			b = binary.AppendUvarint(b, uint64(len(w.text(rank))))
			b = append(b, w.text(rank)...)
		}
		last = e.at
	}
	return b
}

// Decode decodes the program's windows (stored values), and returns the bytes after the windows.
func (p *Program) Decode(b []byte) (w *Windows, rest []byte, err error) {
	d := &decoder{b: b}
	if d.byte() != stateVersion {
		return nil, nil, errState
	}
	w = &Windows{Problem: d.byte() == 1, since: d.signed(), now: d.signed()}
	if d.unsigned() != uint64(len(p.specs)) {
		return nil, nil, errState
	}
	w.list = make([]window, len(p.specs))
	for i := range w.list {
		d.window(&w.list[i], &p.specs[i])
	}
	if d.failed {
		return nil, nil, errState
	}
	return w, d.b, nil
}

// decoder decodes windows (stored values of function calls) from bytes. After an error it returns zeros.
type decoder struct {
	b      []byte
	failed bool
}

// takeBytes removes the next n bytes from the input and returns the bytes. If fewer are left it records an error and
// returns nil.
func (d *decoder) takeBytes(n int) []byte {
	if d.failed || n <= 0 || n > len(d.b) {
		d.failed = d.failed || n != 0
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// byte reads one byte of the encoded windows.
func (d *decoder) byte() byte {
	if b := d.takeBytes(1); b != nil {
		return b[0]
	}
	return 0
}

// unsigned reads an unsigned varint of the encoded windows.
func (d *decoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.b)
	if n == 0 {
		n = -1
	}
	d.takeBytes(n)
	return v
}

// signed reads a signed varint of the encoded windows.
func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.b)
	if n == 0 {
		n = -1
	}
	d.takeBytes(n)
	return v
}

// count reads an unsigned varint, and records an error above the bound.
func (d *decoder) count(bound int) int {
	n := d.unsigned()
	if n > uint64(bound) {
		d.failed = true
		return 0
	}
	return int(n)
}

// window decodes the stored values of one function call, and checks the values against the call's description.
func (d *decoder) window(w *window, s *windowSpec) {
	flags := d.byte()
	w.front, w.frontLen, w.size = d.count(len(d.b)), d.count(len(d.b)), d.count(len(d.b))
	w.back, w.backWeight = bits.ReverseBytes64(d.unsigned()), uint32(d.unsigned())
	w.end, w.grain, w.lostUntil, w.newest = d.signed(), d.signed(), d.signed(), d.signed()
	weighted, texts := flags&1 != 0, flags&2 != 0
	valid := w.front <= w.frontLen && w.frontLen <= w.size && 2*w.size <= len(d.b) && w.grain >= 0 && (w.front == 0 || s.shape == stacks)
	if d.failed || !valid || w.size > 0 && (texts != s.texts || weighted != (w.grain > 0)) {
		d.failed = true
		return
	}
	if w.size == 0 && !weighted && !texts {
		return
	}
	w.entries = make([]entry, w.size)
	if weighted {
		w.weights = make([]uint32, w.size)
	}
	if texts {
		w.texts = make([]string, w.size)
	}
	last := int64(0)
	for i := range w.entries {
		step := d.signed()
		last += step
		w.entries[i] = entry{last, bits.ReverseBytes64(d.unsigned())}
		d.failed = d.failed || i > 0 && step < 0
		if weighted {
			w.weights[i] = uint32(d.unsigned())
		}
		if texts {
			w.texts[i] = string(d.takeBytes(d.count(len(d.b))))
		}
	}
}
