package model

import (
	"fmt"
	"strconv"
)

// ResultDigest is a digest of the streams and numbers of all applied results, in order: 32 bits, so two different
// lists collide once in four billion. Zero: no result. Snapshots hold it (docs/snapshot-format.md), so the
// function must not change.
type ResultDigest uint32

// orderStep is odd, so that nothing of an older result is ever shifted out, and 3 modulo 8, so
// that its powers differ as much as they can.
const orderStep ResultDigest = 0x9e3779b3

// Append returns the digest with one result more.
func (o ResultDigest) Append(stream, number uint64) ResultDigest {
	x := (stream ^ number) + 0x9e3779b97f4a7c15
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return o*orderStep + ResultDigest(x>>32)
}

// Prepend returns the digest of earlier results followed by the results of o, which are count: a list kept apart
// can be put behind the list before it.
func (o ResultDigest) Prepend(others ResultDigest, these uint64) ResultDigest {
	for step := orderStep; these > 0; these >>= 1 {
		if these&1 > 0 {
			others *= step
		}
		step *= step
	}
	return others + o
}

func (o ResultDigest) String() string { return fmt.Sprintf("%08x", uint32(o)) }

// MarshalText writes 8 hexadecimal digits.
func (o ResultDigest) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the 8 digits.
func (o *ResultDigest) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 32)
	if err != nil {
		return Errorf(Invalid, "order %q is not a hexadecimal number of 32 bits", text)
	}
	*o = ResultDigest(n)
	return nil
}
