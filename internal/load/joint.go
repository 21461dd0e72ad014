package load

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
)

// Joint connects the loaders that play one run together; internal/load/join implements both sides. A follower plays its
// part as if alone and sends the lines of its log to the lead; the lead adds them to its own log, and judges all lines
// together. Lists have one entry for each follower, in order. A lost loader ends the context of the run.
type Joint interface {
	// Connect waits until all loaders are prepared to play this plan.
	Connect(ctx context.Context, plan string) error
	// Ready reports that all own agents hold their checks. The lead waits for the followers, and gets them.
	Ready(ctx context.Context, own Arrived) ([]Joined, error)
	// Begin returns when the timetable begins. The lead sets that time.
	Begin(ctx context.Context) (time.Time, error)
	// Hear sets the functions that carry out the orders of the lead.
	Hear(timetable func(from time.Duration, parts []plan.Part) error, renamed func(member int, name string))
	// Follow orders the followers to play another timetable from an instant on, since the start of the timetable.
	Follow(from time.Duration, parts []plan.Part)
	// Renamed tells the loader of an agent the new name of its node.
	Renamed(member int, name string)
	// Line hands a line of a follower's log over. It does not wait for the lead.
	Line(l observe.Line)
	// Lines returns the lines of the followers' logs since the last call.
	Lines() []observe.Line
	// Finish waits until the logs of all followers are complete. A follower waits until the run is judged: its agents keep
	// their sessions until then.
	Finish(ctx context.Context) error
}

// Joined describes a follower of the run.
type Joined struct {
	Number int           // from 1
	Name   string        // of its machine
	Here   bool          // its machine is this one
	Clock  time.Duration // uncertainty of its clock: half of the shortest round trip
	Arrived
}

// Arrived holds the time and memory that a loader's sessions took until all its agents hold their checks.
type Arrived struct {
	Connect    float64 `json:"connect"` // seconds until all had sessions …
	Ready      float64 `json:"ready"`   // … and checks
	Bytes      float64 `json:"bytes"`   // resident per agent
	Goroutines float64 `json:"goroutines"`
}

// Alone implements Joint for a run with a single loader. Both sides of a joined run embed it.
type Alone struct{}

// Connect returns at once, because there are no other loaders.
func (Alone) Connect(context.Context, string) error { return nil }

// Ready returns no followers.
func (Alone) Ready(context.Context, Arrived) ([]Joined, error) { return nil, nil }

// Begin returns a start 100 ms from now.
func (Alone) Begin(context.Context) (time.Time, error) {
	return time.Now().Add(100 * time.Millisecond), nil
}

// Hear does nothing, because no lead sends orders.
func (Alone) Hear(func(time.Duration, []plan.Part) error, func(int, string)) {}

// Follow does nothing, because there are no followers.
func (Alone) Follow(time.Duration, []plan.Part) {}

// Renamed does nothing, because there are no followers.
func (Alone) Renamed(int, string) {}

// Line does nothing, because no lead needs the line.
func (Alone) Line(observe.Line) {}

// Lines returns no lines of followers.
func (Alone) Lines() []observe.Line { return nil }

// Finish returns at once, because there are no other loaders.
func (Alone) Finish(context.Context) error { return nil }

// beginning returns the start of the timetable, in ns since the run was made.
func (r *run) beginning(ctx context.Context) (int64, error) {
	at, err := r.cfg.Joint.Begin(ctx)
	if err != nil {
		return 0, err
	}
	begin := int64(at.Sub(r.Epoch))
	if late := r.Now() - begin; r.cfg.Follows() && late > 0 {
		return 0, tooLate(late, "the run begins")
	}
	return begin, nil
}

// handOver sends the lead the rest of a follower's log.
func (r *run) handOver(ctx context.Context, w *watch) error {
	w.finish()
	ledgers := r.fleet.Ledgers()
	for _, line := range ledgers.Lines(0) {
		r.log.Append(line)
	}
	return r.cfg.Joint.Finish(ctx)
}

// awaitMeasured waits for the rest of the followers' logs, and checks their ledgers.
func (r *run) awaitMeasured(ctx context.Context) error {
	if err := r.cfg.Joint.Finish(ctx); err != nil {
		return err
	}
	r.collect()
	for i, l := range r.othersLedgers() {
		if err := r.fleet.Fits(r.joined[i].Number, &l); err != nil {
			return fmt.Errorf("loader %d (%s): %w", r.joined[i].Number+1, r.joined[i].Name, err)
		}
	}
	return nil
}

// collect writes the followers' new lines to the log.
func (r *run) collect() {
	for _, line := range r.cfg.Joint.Lines() {
		r.log.Append(line)
	}
}

// othersLedgers returns the ledgers of the followers, in order.
func (r *run) othersLedgers() (list []observe.Ledgers) {
	r.log.Look(func(c *observe.Checks) {
		for i := range r.joined {
			l := observe.Ledgers{}
			if n := r.joined[i].Number; n < len(c.Ledgers) {
				l = c.Ledgers[n]
			}
			list = append(list, l)
		}
	})
	return list
}

// tooLate returns the error of a follower that received an order too late to carry it out with the others.
func tooLate(late int64, what string) error {
	busy := ""
	if load := usage.Machine().Load; load != "" {
		busy = " (load " + load + ")"
	}
	return model.Errorf(model.Unavailable, "heard %s too late that %s: the connection to the loader that leads is too slow, or this machine is too busy%s", time.Duration(late).Round(time.Millisecond), what, busy)
}

// another replaces the timetable from a time on, as the lead orders. A timetable that only ends sooner is played
// however late the order arrives: results sent meanwhile are in the ledger, and are not measured.
func (r *run) another(from time.Duration, spans []plan.Part) error {
	begin := r.Begin()
	if err := plan.Timetable(spans).Check(len(r.cfg.Scenario.Phases)); err != nil {
		return err
	}
	t := plan.Timetable(spans).Since(-begin)
	if late := r.Now() - begin - int64(from); begin == 0 || late > 0 && !t.EndsSooner(r.Present()) {
		return tooLate(late, "a phase ends")
	} else if late > 0 {
		r.late.Store(late)
	}
	r.Follow(t)
	return nil
}
