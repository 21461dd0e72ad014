package event

import (
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// TransitionKind is the kind of a change.
type TransitionKind uint8

const (
	// StatusChanged means that a result or a deadline changed the status of an event.
	StatusChanged TransitionKind = 1
	// ProblemOpened follows the StatusChanged that caused it.
	ProblemOpened TransitionKind = 2
	// ProblemClosed follows the StatusChanged that caused it.
	ProblemClosed TransitionKind = 3
	// ResultsLost means that an agent's spool dropped results of this check.
	ResultsLost TransitionKind = 4
	// LateResult is a result older than the present state, for history only.
	LateResult TransitionKind = 5
	// Acknowledged means that a person takes care of the problem.
	Acknowledged TransitionKind = 6
	// Unacknowledged means that a person took the acknowledgement back.
	Unacknowledged TransitionKind = 7
	// FlappingStarted follows the StatusChanged that caused it, if there was one.
	FlappingStarted TransitionKind = 8
	// FlappingEnded follows the StatusChanged that caused it, if there was one.
	FlappingEnded TransitionKind = 9
	// TextChanged means that the output of an open problem changed in more than its numbers. Each
	// problem has model.MaxTexts of them at most.
	TextChanged TransitionKind = 10
	// Beat is a synthetic result of the watchdog. History does not keep it.
	Beat TransitionKind = 11
	// Observed carries an Observation for the readers of every event. It follows all other
	// transitions of the same verdict; history does not keep it.
	Observed TransitionKind = 12
	// Deregistered means that an ephemeral node was forgotten, and handlers are notified.
	Deregistered TransitionKind = 13
)

// Transition is one change that reactions handle, exactly once, in order per
// partition. It owns its memory.
type Transition struct {
	At journal.Position // of the commit that caused it
	// Index is the order within (commit, partition), from 0. Observed transitions are numbered
	// apart, so that pipelines change the number, and the problem id, of nothing else.
	Index     uint32
	Partition model.Partition
	Kind      TransitionKind
	Node      model.NodeID
	Namespace model.NamespaceID
	Source    model.Source
	Chunk     model.ChunkID
	Status    model.Status
	Previous  model.Status
	First     bool // for StatusChanged: there was no status before, Previous means nothing
	Severity  model.Severity
	Received  int64 // Unix ns, journal time
	Executed  int64 // Unix ns
	Output    string
	Problem   *model.Problem     // for ProblemOpened, ProblemClosed, Acknowledged, Unacknowledged and TextChanged
	Hooks     []model.HookResult // for ProblemOpened and ProblemClosed
	Count     uint64             // for ResultsLost
	Expired   bool               // caused by a deadline

	Observation  *Observation     // for Observed, which has no Output
	Deregistered *wire.ForgetMark // for Deregistered
}
