package event

import "github.com/muster-fleet/muster/internal/model"

// ProblemNow is the open problem with the status that the event shows now; the problem's own is
// the worst so far. Nil: none is open.
func (s *State) ProblemNow() *model.Problem {
	if s.Problem == nil {
		return nil
	}
	p := *s.Problem
	p.Status = s.Status
	return &p
}
