package load

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestForever plays a scenario without an end, and expects that the agents send until it is canceled.
func TestForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &ideal{nodes: map[wire.StreamID]*idealNode{}, checks: 6, commit: time.Millisecond}
		cfg, err := Config{Server: "127.0.0.1:1", Scenario: scenario.Uniform{Agents: 10, Checks: 6, Interval: 15 * time.Second}.Scenario()}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRun(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r.connect = srv.connect
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		if err := r.forever(ctx); err != nil {
			t.Fatal(err)
		}
		results := uint64(0)
		_ = srv.Each(ctx, func(k observe.EventState) error { results += k.Results; return nil })
		if want := uint64(10 * 6 * 4); results < want || results > want+uint64(10*6) {
			t.Errorf("%d results in a minute, want about %d", results, want)
		}
	})
}
