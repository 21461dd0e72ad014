package load

import (
	"context"

	"github.com/muster-fleet/muster/internal/load/observe"
)

// edge is the use of loader and server so far, at the start or end of a part of the timetable.
type edge struct {
	observe.Edge
	asks bool // for the server's metrics
}

// logEdges writes the edges, in order, with the server's metrics. A server that hangs answers after seconds: only later
// edges wait for it.
func (w *watch) logEdges(ctx context.Context) {
	for e := range w.edges {
		if e.asks && ctx.Err() == nil {
			e.Metrics = w.run.metrics()
		}
		w.run.log.Append(observe.Line{At: w.run.sinceStart(), Edge: &e.Edge})
	}
}
