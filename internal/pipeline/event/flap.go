package event

import "github.com/muster-fleet/muster/internal/model"

// change returns the percentage of changes in a full status history. The youngest change counts 1.18, the oldest 0.80, as Nagios has it.
func (s *slot) change() uint32 {
	if s.historyLen < model.HistoryDepth {
		return 0
	}
	sum := uint32(0)
	differs := s.history ^ s.history>>2
	for i := range uint32(model.HistoryDepth - 1) { // from the youngest
		if differs>>(2*i)&3 != 0 {
			sum += 118 - 2*i
		}
	}
	return sum / (model.HistoryDepth - 1)
}

// flap starts and ends flapping. Between the two thresholds it changes nothing.
func (w *worker) flap(p *partition, s *slot, c *model.CheckChunk, output []byte) {
	was, is := s.flags&flagFlapping != 0, false
	if c != nil && c.FlapStart > 0 {
		if change := s.change(); was {
			is = change > c.FlapEnd
		} else {
			is = change >= c.FlapStart
		}
	}
	kind := FlappingStarted
	switch {
	case was == is:
		return
	case is:
		s.flags |= flagFlapping
	default:
		s.flags &^= flagFlapping
		kind = FlappingEnded
	}
	if t := w.emit(p, kind, s); t != nil {
		t.Output = string(output)
	}
}

// changeText emits a new output of an open problem, for history.
func (w *worker) changeText(p *partition, id uint32, s *slot, output []byte) {
	next := *p.problems[id]
	next.KeptOutputs++
	p.setProblem(id, s, &next)
	if t := w.emit(p, TextChanged, s); t != nil {
		t.Output, t.Problem = string(output), &next
	}
}

// sameWords reports whether two outputs differ only in numbers, as the outputs of a disk that
// fills up do.
func sameWords(a, b []byte) bool {
	number := func(c byte) bool { return c >= '0' && c <= '9' || c == '.' || c == ',' }
	for {
		for len(a) > 0 && number(a[0]) {
			a = a[1:]
		}
		for len(b) > 0 && number(b[0]) {
			b = b[1:]
		}
		if len(a) == 0 || len(b) == 0 {
			return len(a) == len(b)
		}
		if a[0] != b[0] {
			return false
		}
		a, b = a[1:], b[1:]
	}
}
