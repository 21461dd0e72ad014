package policy

import (
	"iter"

	"github.com/muster-fleet/muster/internal/model"
)

// CountStatuses counts a directive's components (checked parts) by status, according to the reporting modes of
// their blocks. It also returns the worst status. status returns the status of the component at a position, of
// n.
func CountStatuses(status func(int) Status, n int, blocks []model.Block) (counts Counts, worst Status) {
	if len(blocks) == 0 {
		for i := range n {
			counts[status(i)]++
		}
		return counts, counts.worst()
	}
	s := blockCounter{status: status, blocks: blocks}
	for _, child := range s.children(0, n) {
		counts.Add(&child)
	}
	return counts, counts.worst()
}

// CountBlocks counts a directive's components by status for each block, as the block's reporting mode counts.
func CountBlocks(status func(int) Status, blocks []model.Block) []Counts {
	out := make([]Counts, len(blocks))
	for i := range blocks {
		s := blockCounter{status: status, blocks: blocks[i:]}
		out[i] = s.nextBlock()
	}
	return out
}

// CountStatuses counts n components (checked parts) by status, according to the reporting modes of their
// blocks. It also returns the worst status.
func (c Codes) CountStatuses(n int, blocks []model.Block) (counts Counts, worst Status) {
	if len(blocks) == 0 {
		return c.Counts(n)
	}
	return CountStatuses(c.At, n, blocks)
}

// NeverCounts reports whether reporting modes always exclude a component (checked part) from the compliance of
// its directive. The reporting modes of its blocks leave it out of each run.
func NeverCounts(position int, blocks []model.Block) bool {
	at, withinWorst := uint32(position), false
	for i := range blocks {
		b := &blocks[i]
		if at < b.First || at >= b.First+b.Count {
			continue
		}
		if b.Reporting == model.ReportDisabled || !withinWorst && b.Reporting == model.ReportFocus && (at < b.FocusFirst || at >= b.FocusFirst+b.FocusCount) {
			return true
		}
		withinWorst = withinWorst || isWorst(b.Reporting)
	}
	return false
}

// blockCounter counts a directive's components by status, according to the reporting modes of all enclosing
// blocks.
type blockCounter struct {
	status func(int) Status
	blocks []model.Block // they begin at the next component or after it
}

// children iterates over the direct children (components and inner blocks) of a block, with their counts by
// status. The range goes from first to end. Inner components and blocks do not appear.
func (s *blockCounter) children(first, end int) iter.Seq2[int, Counts] {
	return func(yield func(int, Counts) bool) {
		for at := first; at < end; {
			begin, counts := at, Counts{}
			if len(s.blocks) > 0 && int(s.blocks[0].First) == at {
				at += int(s.blocks[0].Count)
				counts = s.nextBlock()
			} else {
				counts[s.status(at)]++
				at++
			}
			if !yield(begin, counts) {
				return
			}
		}
	}
}

// isWorst reports whether a block's reporting mode takes the status of the worst component.
func isWorst(r model.Reporting) bool { return r == model.ReportWorstSum || r == model.ReportWorstOne }

// reportingComponents counts by status all components in a range, except components of disabled blocks, which
// never report. The reporting modes of inner blocks do not matter, except that components of a disabled block
// never report.
func (s *blockCounter) reportingComponents(first, end int) (counts Counts) {
	for at := first; at < end; {
		if len(s.blocks) == 0 || int(s.blocks[0].First) > at {
			counts[s.status(at)]++
			at++
			continue
		}
		if b := s.blocks[0]; b.Reporting == model.ReportDisabled && int(b.First) == at {
			at += int(b.Count)
		}
		s.blocks = s.blocks[1:]
	}
	for len(s.blocks) > 0 && int(s.blocks[0].First) < end { // in a disabled block at the end
		s.blocks = s.blocks[1:]
	}
	return counts
}

// nextBlock returns the status counts of the next block, according to its reporting mode, and skips the block.
// A block that counts by its worst component looks at all components within, as in Rudder.
func (s *blockCounter) nextBlock() (counts Counts) {
	b := s.blocks[0]
	s.blocks = s.blocks[1:]
	first, end := int(b.First), int(b.First+b.Count)
	if isWorst(b.Reporting) {
		counts = s.reportingComponents(first, end)
		waived := counts[Waived]
		counts[Waived] = 0
		if n, worst := counts.Total(), counts.worst(); n > 0 {
			counts = Counts{}
			if counts[worst] = n; b.Reporting == model.ReportWorstOne {
				counts[worst] = 1
			}
		}
		counts[Waived] = waived
		return counts
	}
	least := 2.0
	for at, child := range s.children(first, end) {
		switch b.Reporting {
		case model.ReportFocus:
			if at >= int(b.FocusFirst) && at < int(b.FocusFirst+b.FocusCount) {
				counts.Add(&child)
			}
		case model.ReportFocusWorst:
			if share, ok := child.share(); ok && share < least {
				least, counts = share, child
			}
		default:
			counts.Add(&child)
		}
	}
	if b.Reporting == model.ReportDisabled {
		return Counts{}
	}
	return counts
}

// worst returns the worst status among the counted components. If all counts are zero, it returns
// NotApplicable.
func (c *Counts) worst() Status {
	worst := NotApplicable
	for s, n := range c {
		if n > 0 {
			worst = Worst(worst, Status(s))
		}
	}
	return worst
}

// share returns the fraction of components that are compliant, and ignores waived components. ok is false if
// there are no others.
func (c *Counts) share() (share float64, ok bool) {
	fulfilled, total := 0, c.Total()-c[Waived]
	for s, n := range c {
		if Status(s).Fulfilled() {
			fulfilled += n
		}
	}
	return float64(fulfilled) / float64(max(total, 1)), total > 0
}

// Unfulfilled counts the components that are neither compliant nor waived.
func (c *Counts) Unfulfilled() (n int) {
	for s, k := range c {
		if !Status(s).Fulfilled() && Status(s) != Waived {
			n += k
		}
	}
	return n
}

// Failed reports whether any counted component is not compliant or could not be repaired.
func (c *Counts) Failed() bool { return c[NonCompliant]+c[Error] > 0 }
