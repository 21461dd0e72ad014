package outputs

import (
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Generator returns the statuses and outputs of checks. a is the agent, c the check, and seq the sequence number of the
// result, unique in the run and the same for the same seed.
type Generator interface {
	// Status is the next one of a state that had the one before. first: it had none.
	Status(a, c int, definition *model.CheckDefinition, seq uint64, before model.Status, first bool) model.Status
	// Output appends what the check says with that status to dst.
	Output(dst []byte, a, c int, definition *model.CheckDefinition, seq uint64, status model.Status) []byte
}

// Of returns the generator of a check of a class, the same for every target.
func Of(sc *scenario.Scenario, class int, check *scenario.Check) Generator {
	return New(sc.Seed^uint64(class)<<48, check)
}
