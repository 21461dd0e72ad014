package muster

import (
	"context"
	"fmt"
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/wire"
)

// nullJournal commits at once and keeps nothing.
type nullJournal struct {
	*memJournal
	at uint64
}

func (j *nullJournal) Append(_ context.Context, entries ...journal.Entry) error {
	for i := range entries {
		j.at++
		if w := entries[i].Waiter; w != nil {
			w.Committed(entries[i].Token, journal.Position{Log: 1, Number: j.at}, nil)
		}
	}
	return nil
}

// BenchmarkBatch is the session layer's part of a frame, from the message to the
// mark that an acknowledgement is due. It allocates nothing.
func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 8, 40} {
		b.Run(fmt.Sprint(n, "results"), func(b *testing.B) {
			w := newWorld(b, func(c *Config) {
				c.Journal = &nullJournal{memJournal: new(memJournal)}
				c.Limits.NodeResultsPerSec = 1e12
			})
			uid := w.node(1, 1, 2, 3)
			x, refusal := w.server.admit(nil, &wire.Hello{Protocol: wire.Protocol, Node: uid}, Proof{})
			if refusal != nil {
				b.Fatal(refusal)
			}
			x.assignment.sent = w.plan.For(1001)
			x.HoldBack() // no writer takes it
			frame := wire.AppendBatch(nil, results(1, n, 2))
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if len(x.streams) > 0 {
					x.streams[0].last = 0 // the same numbers again, as if they were new
				}
				if out := x.frame(frame); out != kept {
					b.Fatal(outcomeNames[out])
				}
			}
		})
	}
}
