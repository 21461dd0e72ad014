package policy

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Codes has the statuses of a directive's components (checked parts), packed in four bits each. The first is in
// the low half of the first byte. The codes of an odd number of components end with a zero half.
type Codes []byte

// NewCodes returns packed statuses for n components, each with the status missing.
func NewCodes(n int) Codes { return make(Codes, (n+1)/2) }

// At returns the status of the component (checked part of a directive) at index i.
func (c Codes) At(i int) Status { return Status(c[i/2] >> (i % 2 * 4) & 15) }

// Set sets the status of the component (checked part of a directive) at index i.
func (c Codes) Set(i int, s Status) {
	shift := i % 2 * 4
	c[i/2] = c[i/2]&^(15<<shift) | byte(s)<<shift
}

// Check returns an error if the packed statuses do not fit n components, or contain an unknown status.
func (c Codes) Check(n int) error {
	if len(c) != (n+1)/2 {
		return fmt.Errorf("%d bytes of packed status codes do not fit %d components", len(c), n)
	}
	unknown, whole := uint64(0), c[:n/wordCodes*8]
	for ; len(whole) >= 8; whole = whole[8:] {
		unknown |= aboveWaived(binary.LittleEndian.Uint64(whole))
	}
	if unknown |= aboveWaived(c.word(n&^(wordCodes-1), n)); unknown == 0 && (n%2 == 0 || c.At(n) == 0) {
		return nil
	}
	for i := range len(c) * 2 {
		if s := c.At(i); !s.Reported() || i >= n && s != 0 {
			return fmt.Errorf("the status code %d of component %d is unknown", s, i)
		}
	}
	return nil
}

// wordCodes is the number of status codes in a 64-bit word. A code has 4 bits. The functions below test all codes of a
// word at once. Agents report statuses up to 8, so that adding up to 7 to each code carries into no other code. Only
// Waived has the highest bit.
const (
	wordCodes = 16
	everyCode = 0x1111111111111111
	highBits  = 8 * everyCode
)

// word returns 16 packed statuses, from the component at index i on, as one 64-bit word. Components behind the
// last are not applicable. i is a multiple of 16.
func (c Codes) word(i, n int) uint64 {
	if i+wordCodes <= n {
		return binary.LittleEndian.Uint64(c[i/2:])
	}
	var rest [8]byte
	copy(rest[:], c[i/2:(n+1)/2])
	behind := ^uint64(0) << ((n - i) * 4)
	return binary.LittleEndian.Uint64(rest[:])&^behind | uint64(NotApplicable)*everyCode&behind
}

// aboveWaived sets the high bit of each packed status code that is greater than the code Waived.
func aboveWaived(w uint64) uint64 { return w & (w >> 3 & everyCode * 7) }

// unfulfilled sets the high bit of each packed status code that is neither compliant nor waived. Unfulfilled
// are Missing, and NonCompliant up to CouldNotCheck.
func unfulfilled(w uint64) uint64 {
	return (w + 3*everyCode | ^(w + 7*everyCode)) & ^w & highBits
}

// countMarked counts the components whose packed status code gets a high bit from the function mark.
func (c Codes) countMarked(n int, mark func(uint64) uint64) int {
	found, whole := 0, c[:n/wordCodes*8]
	for ; len(whole) >= 8; whole = whole[8:] {
		found += bits.OnesCount64(mark(binary.LittleEndian.Uint64(whole)) & highBits)
	}
	return found + bits.OnesCount64(mark(c.word(n&^(wordCodes-1), n))&highBits)
}

// Unfulfilled returns how many of n components are neither compliant nor waived.
func (c Codes) Unfulfilled(n int) int { return c.countMarked(n, unfulfilled) }

// Waived returns how many of n components are waived.
func (c Codes) Waived(n int) int { return c.countMarked(n, func(w uint64) uint64 { return w }) }

// NextUnfulfilled returns the index of the next component that is neither compliant nor waived. It looks at n
// components, from i on. The result is n if there is none.
func (c Codes) NextUnfulfilled(i, n int) int {
	for at := i &^ (wordCodes - 1); at < n; at += wordCodes {
		found := unfulfilled(c.word(at, n))
		if at < i {
			found &= ^uint64(0) << ((i - at) * 4)
		}
		if found != 0 {
			return at + bits.TrailingZeros64(found)/4
		}
	}
	return n
}

// NextDifference returns the index of the next component whose status differs between two runs. It looks at n
// components, from i on. The result is n if there is none.
func (c Codes) NextDifference(other Codes, i, n int) int {
	for at := i &^ (wordCodes - 1); at < n; at += wordCodes {
		differs := c.word(at, n) ^ other.word(at, n)
		if at < i {
			differs &= ^uint64(0) << ((i - at) * 4)
		}
		if differs != 0 {
			return at + bits.TrailingZeros64(differs)/4
		}
	}
	return n
}

// Failed reports whether any of n components is not compliant or could not be repaired.
func (c Codes) Failed(n int) bool {
	for i := 0; i < n; i += wordCodes {
		w := c.word(i, n)
		if (w+3*everyCode)&^(w+everyCode)&highBits != 0 {
			return true
		}
	}
	return false
}

// Counts returns for each status how many of n components have the status. It also returns the worst status.
// Check has accepted the codes.
func (c Codes) Counts(n int) (counts Counts, worst Status) {
	var pairs [256]int
	for _, pair := range c[:n/2] {
		pairs[pair]++
	}
	for pair, k := range pairs {
		if k > 0 {
			counts[pair&15] += k
			counts[pair>>4] += k
		}
	}
	if n%2 == 1 {
		counts[c.At(n-1)]++
	}
	return counts, counts.worst()
}
