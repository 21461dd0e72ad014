package event

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// State is a copy of one event state, in ids. It owns its memory.
type State struct {
	Node        model.NodeID
	Check       model.CheckID
	Chunk       model.ChunkID // that judged it last
	Namespace   model.NamespaceID
	Status      model.Status
	Severity    model.Severity
	Expired     bool   // the status comes from a deadline
	Failing     uint32 // not-OK results in a row, for failAfter
	Passing     uint32
	Occurrences uint32
	Watermark   uint32
	StatusHistory
	Counters
	Received int64 // Unix ns
	Executed int64
	LastOK   int64
	Changed  int64
	Duration time.Duration
	RanBy    model.NodeID // the node that ran it, where that is another one
	Output   string
	Problem  *model.Problem
	Beside   wire.Extra // further fields of the last result; only Get fills it
}

// StatusHistory is the record of an event's last statuses.
type StatusHistory struct {
	History      uint64 // two bits each, newest in the lowest
	HistoryLen   uint8
	Change       uint32 // percent of change in the history
	Flapping     bool
	StateChanges uint32
}

// Counters has the numbers of results of an event, and the stream of the last one.
type Counters struct {
	Results uint64
	Lost    uint64
	Stream  uint64
	Number  uint64
	Order   model.ResultDigest // of all results
}

// Query selects states. Zero fields select everything; the rest are intersected.
type Query struct {
	Namespaces []model.NamespaceID
	Nodes      []model.NodeID // nil: all; empty, not nil: none
	Checks     []model.CheckID
	Statuses   []model.Status
	Problems   bool // only those with an open problem
	// Match is asked last, because no index answers it (CEL). It must not keep the state.
	Match func(*State) (bool, error)
	// MatchWithin ends the search after this long with a partial page and a token.
	MatchWithin time.Duration
	Limit       int
	After       string // token of the page before
}

// Page is a part of the answer, worst first: severity descending, then partition,
// node and check.
type Page struct {
	States  []State
	Next    string // token, empty at the end
	Partial bool   // ended by MatchWithin, not by Limit
}

// Counts is how many states there are by status, for `muster status`.
type Counts struct {
	States   uint64
	ByStatus [4]uint64
	Problems uint64
}

// Wrong is how many states are not OK.
func (c *Counts) Wrong() uint64 { return c.States - c.ByStatus[model.OK] }

// Add adds up.
func (c *Counts) Add(more Counts) { c.add(&more) }

func (c *Counts) add(more *Counts) {
	c.States += more.States
	c.Problems += more.Problems
	for i, n := range more.ByStatus {
		c.ByStatus[i] += n
	}
}

func (c *Counts) subtract(less *Counts) {
	c.States -= less.States
	c.Problems -= less.Problems
	for i, n := range less.ByStatus {
		c.ByStatus[i] -= n
	}
}

// Reader is the part of the view that the API reads.
type Reader interface {
	Get(node model.NodeID, check model.CheckID) (State, bool)
	List(ctx context.Context, q Query) (Page, error)
	Counts(namespace model.NamespaceID) Counts // zero: all namespaces
	CountsByNamespace() map[model.NamespaceID]Counts
	CountsOf(check model.CheckID) Counts
	// Wrong lists the checks of a namespace (zero: all) with states that are not OK, worst first.
	Wrong(namespace model.NamespaceID) []Wrong
	// Summaries sums up the states of each of these nodes, in their order.
	Summaries(nodes []model.NodeID) []Summary
	// Watch streams states as they change (status, problem or output), from now
	// on. A slow reader gets the newest state of each event, not every one.
	Watch(ctx context.Context, q Query) (<-chan State, error)
}

// Chunks returns the chunks that judged the present states and open problems: those that a
// snapshot names.
func (v *View) Chunks() map[model.ChunkID]bool {
	named := map[model.ChunkID]bool{}
	for _, p := range v.partitions {
		p.Lock()
		for _, n := range p.Order() {
			for _, e := range p.nodes[n].states {
				named[p.slots.at(e.slot).chunk] = true
			}
		}
		for _, problem := range p.problems {
			named[problem.Chunk] = true
		}
		p.Unlock()
	}
	return named
}

// OpenProblems calls fn with each problem that is open, in no order. It holds no lock meanwhile:
// problems are replaced, never changed.
func (v *View) OpenProblems(fn func(*model.Problem)) {
	var some []*model.Problem
	for _, p := range v.partitions {
		some = some[:0]
		p.Lock()
		for _, problem := range p.problems {
			some = append(some, problem)
		}
		p.Unlock()
		for _, problem := range some {
			fn(problem)
		}
	}
}
