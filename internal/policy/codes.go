package policy

import "fmt"

// Codes are the statuses of a directive's components in their order, of four bits each, the first in the low half of the
// first byte. The codes of an odd number of components end with a zero half.
type Codes []byte

// NewCodes returns codes of n components, all missing.
func NewCodes(n int) Codes { return make(Codes, (n+1)/2) }

// At returns the status of a component.
func (c Codes) At(i int) Status { return Status(c[i/2] >> (i % 2 * 4) & 15) }

// Set sets the status of a component.
func (c Codes) Set(i int, s Status) {
	shift := i % 2 * 4
	c[i/2] = c[i/2]&^(15<<shift) | byte(s)<<shift
}

// Check returns an error unless the codes are those of n components with statuses that agents report.
func (c Codes) Check(n int) error {
	if len(c) != (n+1)/2 {
		return fmt.Errorf("%d bytes of codes for %d components", len(c), n)
	}
	for i := range len(c) * 2 {
		if s := c.At(i); !s.Reported() || i >= n && s != 0 {
			return fmt.Errorf("code %d of component %d", s, i)
		}
	}
	return nil
}

// Counts returns how many of n components have each status, and the worst of them.
func (c Codes) Counts(n int) (counts Counts, worst Status) {
	worst = NotApplicable
	for i := range n {
		s := c.At(i)
		counts[s]++
		worst = Worst(worst, s)
	}
	return counts, worst
}
