package play

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Source makes the signals of some classes. Nodes are members of the fleet. The caller calls the methods about one node one at a
// time.
type Source interface {
	Unit() report.Unit
	// Timetable returns the interval of a node, and the times of its signals within it, ascending.
	Timetable(member int) (interval time.Duration, offsets []time.Duration)
	// Weight returns the values, or components, of a signal. A tick is its number among the node's.
	Weight(member int, tick uint64) int
	// Assigned takes the assignment of a node. It reports whether it is that of the plan.
	Assigned(member int, held *link.Assignment) bool
	// AppendSignal encodes the next signal of a node, at a time of its boot clock.
	AppendSignal(dst []byte, member int, tick uint64, at time.Duration) []byte
	// Wrong returns invalid signals of a node; the server must refuse each.
	Wrong(member int) []wire.Signal
}

// used returns the error of a server that has signals of an earlier run.
func used(what string, args ...any) error {
	return model.Errorf(model.Conflict, "%s of an earlier load run: nothing could be compared", fmt.Sprintf(what, args...)).
		WithHint("leave --server out, or name a server that has none")
}

// Reader reads what the server has of a Source's signals.
type Reader interface {
	// Unused returns an error if the server has signals of an earlier run that make a comparison impossible.
	Unused(ctx context.Context) error
	// Read returns the line of the observation log.
	Read(ctx context.Context) (observe.Line, error)
	// Query asks for a part, as a person does.
	Query(ctx context.Context) error
}
