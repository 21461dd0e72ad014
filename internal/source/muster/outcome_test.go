package muster

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// One message for every way out of the handler: it raises one counter, and what was
// received is the sum of the outcomes.
func TestEveryMessageHasOneOutcome(t *testing.T) {
	const unackedBytes = 1000
	ways := map[outcome]func(w *world, a *agent, node uuid.UUID){
		kept: func(_ *world, a *agent, _ uuid.UUID) { a.send(results(1, 1, 1)) },
		repeated: func(_ *world, a *agent, _ uuid.UUID) {
			a.send(results(1, 1, 1))
			a.send(results(1, 1, 1))
		},
		hole:      func(_ *world, a *agent, _ uuid.UUID) { a.send(results(3, 1, 1)) },
		malformed: func(_ *world, a *agent, _ uuid.UUID) { raw(a, []byte{0xff, 0xff, 0xff}) },
		oversized: func(_ *world, a *agent, _ uuid.UUID) { a.send(results(1, 11, 1)) },
		streams: func(_ *world, a *agent, _ uuid.UUID) {
			for i := range maxStreams {
				b := results(1, 1, 1)
				b.Stream = wire.StreamID(100 + i)
				a.send(b)
				a.wait("kept, or the end", func() bool { return a.acks[b.StreamKey] == 1 || a.over })
			}
		},
		unkept: func(w *world, a *agent, _ uuid.UUID) {
			w.journal.set(func() { w.journal.refuses = true })
			a.send(results(1, 1, 1))
		},
		displaced: func(w *world, a *agent, node uuid.UUID) {
			w.journal.pauseCommits(true)
			testenv.Until(w.t, "its assignment is confirmed", func() bool { return testutil.ToFloat64(w.server.metrics.frames[holding]) == 1 })
			// The server counts in steps of 64 bytes, the agent does not: so the agent may
			// send one more than the server takes before something is acknowledged.
			for i := range unackedBytes/128 + 1 {
				a.send(results(uint64(i*3+1), 3, 1))
			}
			testenv.Until(w.t, "the reader waits", func() bool {
				return w.server.registry.Len() == 1 && testutil.ToFloat64(w.server.metrics.Received) == 1+unackedBytes/128+1
			})
			opened := make(chan error, 1)
			go func() {
				_, err := w.open(node, nil)
				opened <- err
			}()
			testenv.Until(w.t, "the older session is over", func() bool { return testutil.ToFloat64(w.server.metrics.frames[displaced]) == 1 })
			w.journal.pauseCommits(false)
			if err := <-opened; err != nil {
				t.Error(err)
			}
		},
		holding: func(*world, *agent, uuid.UUID) {}, // the answer to its first assignment
		bye:     func(_ *world, a *agent, _ uuid.UUID) { raw(a, wire.AppendBye(nil, &wire.Bye{})) },
		stats:   func(_ *world, a *agent, _ uuid.UUID) { raw(a, wire.AppendStats(nil, &wire.Stats{Runs: 1})) },
		tooSoon: func(_ *world, a *agent, _ uuid.UUID) {
			raw(a, wire.AppendStats(nil, &wire.Stats{Runs: 1}))
			raw(a, wire.AppendStats(nil, &wire.Stats{Runs: 2}))
		},
		runAnswer: func(w *world, a *agent, _ uuid.UUID) {
			if err := w.ask(1001, 1); err != nil {
				w.t.Fatal(err)
			}
			a.wait("the run", func() bool { return len(a.runs) == 1 })
			raw(a, wire.AppendRunOutput(nil, &wire.RunOutput{ID: a.runs[0].ID, Done: true}))
		},
		unrequested: func(_ *world, a *agent, _ uuid.UUID) {
			raw(a, wire.AppendRunOutput(nil, &wire.RunOutput{ID: 1, Done: true}))
		},
		facts: func(_ *world, a *agent, _ uuid.UUID) {
			raw(a, wire.AppendFacts(nil, &wire.Facts{Facts: map[string]string{"kernel": "6.12"}}))
		},
		secrets: func(w *world, a *agent, _ uuid.UUID) {
			w.server.registry.Get(1001).proven.Store(true)
			raw(a, wire.AppendExchange(nil, &wire.Exchange{ID: 1, SecretsRequest: &wire.SecretsRequest{Names: []string{"default/x"}}}))
		},
		unknownKind: func(_ *world, a *agent, _ uuid.UUID) { raw(a, []byte{15<<3 | 2, 0}) },
	}
	for out := range outcomes {
		way, ok := ways[out]
		if !ok {
			t.Errorf("no message ends as %s here", outcomeNames[out])
			continue
		}
		t.Run(outcomeNames[out], func(t *testing.T) {
			w := newWorld(t, func(c *Config) {
				c.Limits = Limits{BatchSignals: 10, UnackedBytes: unackedBytes}
				c.Secret = func(context.Context, string, string) (core.SecretValue, error) {
					return core.SecretValue{}, errors.New("none")
				}
			})
			node := w.node(1, 1)
			way(w, w.agent(node), node)
			testenv.Until(w.t, "its outcome is counted", func() bool { return testutil.ToFloat64(w.server.metrics.frames[out]) == 1 })
			w.balance()
		})
	}
}
