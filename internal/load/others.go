package load

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// Others are the other loaders of a joined run, for the one that leads it. Lists have one
// entry for each, always in the same order. A loader that is lost ends the context that the
// run was given. internal/load/join has them, over connections.
type Others interface {
	// Loaders says who they are.
	Loaders() []Joined
	// Connect waits until all are prepared to play this plan, and has their agents connect.
	Connect(ctx context.Context, plan string) error
	// Ready waits until all agents of all hold their checks.
	Ready(ctx context.Context) ([]Arrived, error)
	// Begin tells them when the timetable begins, and returns it.
	Begin() time.Time
	// Follow has them play another score from an instant on, so long after the beginning.
	Follow(from time.Duration, score []observe.Part)
	// Renamed tells whose agent it is that a node has another name.
	Renamed(member int, name string)
	// Lines are those of their logs that came since it was asked last.
	Lines() []observe.Line
	// Finish waits until all have played to the end and their agents are at rest.
	Finish(ctx context.Context) error
}

// Lead is the loader that leads a run, for those that follow it. Times are since the
// timetable's beginning.
type Lead interface {
	// Prepared says which plan would be played, and waits until agents are to connect.
	Prepared(ctx context.Context, plan string) error
	// Ready says that all agents hold their checks, and waits for the beginning.
	Ready(ctx context.Context, a Arrived) (begin time.Time, err error)
	// Hear has what the lead says meanwhile handed to these.
	Hear(score func(from time.Duration, score []observe.Part) error, renamed func(member int, name string))
	// Line hands over a line of the log.
	Line(l observe.Line)
	// Finish says that the log is whole, and waits until the lead has compared it: agents
	// keep their sessions until then.
	Finish(ctx context.Context) error
}

// Joined is one of the other loaders.
type Joined struct {
	Number int           // from 1
	Name   string        // of its machine
	Here   bool          // that is this machine
	Clock  time.Duration // how far its clock may be off ours: half of the shortest round trip
}

// Arrived is what a loader says once its agents hold their checks.
type Arrived struct {
	Connect    float64 `json:"connect"` // seconds until all had sessions …
	Ready      float64 `json:"ready"`   // … and checks
	Bytes      float64 `json:"bytes"`   // resident per agent
	Goroutines float64 `json:"goroutines"`
}
