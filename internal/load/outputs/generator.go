package outputs

import (
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Generator says what agent a's check c returns. seq is the number of the result: unique
// in the run, and the same for the same seed.
type Generator interface {
	// Status is the next one of a state that had the one before. first: it had none.
	Status(a, c int, definition *model.CheckDefinition, seq uint64, before model.Status, first bool) model.Status
	// Output appends what the check says with that status to dst.
	Output(dst []byte, a, c int, definition *model.CheckDefinition, seq uint64, status model.Status) []byte
}

// Of makes what a check says that a class of a scenario holds: the same of every system.
func Of(sc *scenario.Scenario, class int, check *scenario.Check) Generator {
	return New(sc.Seed^uint64(class)<<48, check)
}
