package react

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// The first change after a silence is recorded at once; those that follow wait for
// the rest of the pause, or for a full batch.
func TestGather(t *testing.T) {
	for _, tt := range []struct {
		name  string
		since time.Duration // from the last transaction
		waits int
		want  time.Duration
	}{
		{"after a silence", time.Second, 1, 0},
		{"one of many", 50 * time.Millisecond, 1, 200 * time.Millisecond},
		{"a full batch", 50 * time.Millisecond, 100, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Options{Gather: 250 * time.Millisecond, BatchSize: 100})
				last := time.Now()
				time.Sleep(tt.since)
				began := time.Now()
				r.Emit(slices.Repeat([]event.Transition{changed(1, 1, 0)}, tt.waits))
				if err := r.gather(t.Context(), last); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(began); got != tt.want {
					t.Errorf("waited %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestGatherEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Gather: time.Minute, BatchSize: 100})
		r.Emit([]event.Transition{changed(1, 1, 0)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.gather(ctx, time.Now()); err == nil {
			t.Error("goes on after its context ended")
		}
	})
}
