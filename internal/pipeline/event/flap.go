package event

import "github.com/muster-fleet/muster/internal/model"

// change is how much of a full history differs in status from what was before it, in
// percent. The youngest change counts 1.18, the oldest 0.80, as Nagios has it.
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

// flap notices that a status has begun to keep changing, or has ceased to: between the two
// thresholds it stays what it is.
func (w *worker) flap(p *partition, s *slot, c *model.Chunk, output []byte) {
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

// saysElse tells history of another output of an open problem, of the first few.
func (w *worker) saysElse(p *partition, id uint32, s *slot, output []byte) {
	next := *p.problems[id]
	next.Texts++
	p.setProblem(id, s, &next)
	if t := w.emit(p, TextChanged, s); t != nil {
		t.Output, t.Problem = string(output), &next
	}
}
