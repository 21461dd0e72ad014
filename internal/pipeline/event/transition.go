package event

import (
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// TransitionKind says what changed.
type TransitionKind uint8

const (
	// StatusChanged: a result (or a deadline) changed the status of an event.
	StatusChanged TransitionKind = 1
	// ProblemOpened and ProblemClosed follow the StatusChanged that caused them.
	ProblemOpened TransitionKind = 2
	ProblemClosed TransitionKind = 3
	// ResultsLost: an agent's spool gave up results of this check.
	ResultsLost TransitionKind = 4
	// LateResult: a result older than the present state: history only.
	LateResult TransitionKind = 5
	// Acknowledged and Unacknowledged: an operator looks after a problem, or no more.
	Acknowledged   TransitionKind = 6
	Unacknowledged TransitionKind = 7
	// FlappingStarted and FlappingEnded follow the StatusChanged that caused them, if there
	// was one.
	FlappingStarted TransitionKind = 8
	FlappingEnded   TransitionKind = 9
	// TextChanged: an open problem's output says something else, numbers aside; of the first few.
	TextChanged TransitionKind = 10
	// Beat: a synthetic result came. It is no change, and history keeps none of it.
	Beat TransitionKind = 11
	// Seen: a result, a deadline or an operator gave a status to an event whose check names
	// pipelines, or the status of a keepalive changed, whose node may. It follows all else that
	// this caused, and history keeps none of it.
	Seen TransitionKind = 12
	// Left: an ephemeral node was forgotten, and somebody is to hear of it.
	Left TransitionKind = 13
)

// Transition is one change that reactions must hear of, exactly once, in order per
// partition. It owns its memory.
type Transition struct {
	At        journal.Position // of the commit that caused it
	Index     uint32           // order within (commit, partition), from 0; a Seen may have that of what it follows
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
	Seen      *Sight             // for Seen, which has no Output
	Left      *wire.ForgetMark   // for Left
}

// Sight is an event at the moment when it was seen.
type Sight struct {
	State                // without Beside
	Raw           []byte // what lies beside the output, as it came: wire.DecodeExtra
	FlappingBegan bool
	FlappingEnded bool
}
