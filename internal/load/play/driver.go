package play

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// Driver plays the agents of a run against one system. It writes what it sees into its books and counts, and judges nothing. A
// run calls Open, Play and Rest in this order, and the other methods at any time.
type Driver interface {
	// Open begins to open the sessions of all agents, over a duration, and keeps them open until leave.
	Open(ctx context.Context, over time.Duration) (leave func())
	// Ready returns the number of agents that have had a session, and of those that hold their checks.
	Ready() (connected, ready int)
	// Stuck returns why agents are not ready that made no progress for some time; nil: they may still become so. over is that
	// of Open.
	Stuck(idle, over time.Duration) error
	// Sessions returns the number of sessions, and of connections that could not be opened so far.
	Sessions() (open int, failed uint64)
	// Away returns how many agents have no session although they should.
	Away() int
	// Traffic returns the bytes that the agents sent and received; zero: they are not counted.
	Traffic() (sent, received int64)
	// Deal makes the timetables of the senders, and Books returns what they count.
	Deal()
	Books() []*Book
	// Counts returns the totals so far.
	Counts() *observe.Counts
	// Linger returns the longest time in ns for which agents hold a result back so that others join its frame.
	Linger() int64
	// Play plays the timetable to its end.
	Play(ctx context.Context)
	// KeepHouse sends signs of life until ctx ends.
	KeepHouse(ctx context.Context)
	// Rest waits until nothing is on its way any more, at most for a duration.
	Rest(ctx context.Context, most time.Duration)
}

var (
	_ Driver = (*Fleet)(nil)
	_ Driver = (*Targeted)(nil)
)
