package outputs

import (
	"math"
	"strconv"

	"github.com/muster-fleet/muster/internal/model"
)

// MinLength of an output is the head that makes every output different.
const MinLength = 48

// Digits generates outputs of one size, all different, that look like a plug-in's: a sentence with the number of the
// result, then perfdata-like digits. The digits are random, so that they compress no better than real ones.
type Digits struct {
	Size    int     // of each, in bytes
	Changes float64 // share of results that change the status
	Seed    uint64
}

// Status changes the status with the given probability.
func (d *Digits) Status(a, c int, _ *model.CheckDefinition, seq uint64, before model.Status, _ bool) model.Status {
	r := d.draw(a, c, seq)
	if Share(r) >= d.Changes {
		return before
	}
	return another(before, r)
}

// another returns one of the next two statuses after before.
func another(before model.Status, r uint64) model.Status {
	return (before + 1 + model.Status(r&1)) % 4
}

// Output appends an output of the size.
func (d *Digits) Output(dst []byte, a, c int, _ *model.CheckDefinition, seq uint64, status model.Status) []byte {
	from := len(dst)
	dst = append(dst, status.String()...)
	dst = append(dst, " - result "...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, " | value="...)
	return fillUp(dst, from+d.Size, d.draw(a, c, seq))
}

// draw returns the random number of a result.
func (d *Digits) draw(a, c int, seq uint64) uint64 {
	return Mix(d.Seed ^ uint64(a)<<40 ^ uint64(c)<<20 ^ seq)
}

// fillUp extends dst to a length with random digits, or cuts it.
func fillUp(dst []byte, length int, r uint64) []byte {
	for len(dst) < length {
		r = Mix(r)
		dst = appendDigits(dst, r)
	}
	return dst[:length]
}

// appendDigits writes eighteen digits of a random number as two values.
func appendDigits(dst []byte, r uint64) []byte {
	var text [20]byte
	for i := 0; i < len(text); i += 10 {
		v := uint32(r >> (i * 3)) // bits 0 to 31, then 30 to 61
		for j := range 9 {
			text[i+j] = '0' + byte(uint64(v)*10>>32) // the digits of v as a fraction of 2^32
			v *= 10
		}
		text[i+9] = ';'
	}
	return append(dst, text[:]...)
}

// Mix returns a well-spread number for each input (splitmix64).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Share maps a number to [0,1).
func Share(x uint64) float64 { return float64(x>>11) / math.Exp2(53) }
