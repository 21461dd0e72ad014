package load

import (
	"context"

	"github.com/muster-fleet/muster/internal/load/usage"
)

// edge is what both processes had used where a part begins or ends.
type edge struct {
	usage.SoFar
	asked *reading // of the server's metrics; nil: it was not asked, or has answered
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

// answered takes over what the server has answered, and says whether all of it is there up to an
// edge; wait: once it is.
func (w *watch) answered(until int, wait bool) bool {
	for n := range w.edges[:until+1] {
		e := &w.edges[n]
		if e.asked == nil {
			continue
		}
		if !wait {
			select {
			case <-e.asked.over:
			default:
				return false
			}
		}
		<-e.asked.over
		e.Metrics, e.asked = e.asked.sums, nil
	}
	return true
}
