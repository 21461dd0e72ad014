package load

import (
	"context"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// edge is what both processes had used where a part begins or ends.
type edge struct {
	usage.SoFar
	asked *reading // of the server's metrics; nil: it was not asked
}

// reading is the server's metrics on their way. A server that hangs answers nobody for a while:
// nobody waits for it but the next reading, so that they are taken in the order of the edges.
type reading struct {
	over chan struct{}
	sums map[string]float64 // nil: it did not answer
}

// ask has the metrics read beside the watch, which looks at the run meanwhile.
func (w *watch) ask(ctx context.Context) *reading {
	x, before := &reading{over: make(chan struct{})}, w.lastAsked
	w.lastAsked = x
	w.beside.Go(func() {
		defer close(x.over)
		if before != nil {
			<-before.over
		}
		if ctx.Err() == nil {
			x.sums = w.run.metrics()
		}
	})
	return x
}

// logEdges writes the edges whose metrics are here, in order. wait: it waits for them.
func (w *watch) logEdges(wait bool) {
	for ; len(w.edges) > 0; w.edges = w.edges[1:] {
		e := &w.edges[0]
		if e.asked != nil {
			if !wait {
				select {
				case <-e.asked.over:
				default:
					return
				}
			}
			<-e.asked.over
			e.Metrics = e.asked.sums
		}
		w.run.log.Append(observe.Line{At: w.run.sinceStart(), Edge: &observe.Edge{Part: w.passed - len(w.edges), SoFar: e.SoFar}})
	}
}
