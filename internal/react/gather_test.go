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
		kinds []event.TransitionKind
		want  time.Duration
	}{
		{"after a silence", time.Second, []event.TransitionKind{event.StatusChanged}, 0},
		{"one of many", 10 * time.Millisecond, []event.TransitionKind{event.StatusChanged}, 240 * time.Millisecond},
		{"a full batch", 10 * time.Millisecond, slices.Repeat([]event.TransitionKind{event.StatusChanged}, 100), 0},
		{"a problem", 10 * time.Millisecond, []event.TransitionKind{event.ProblemOpened}, 40 * time.Millisecond},
		{"a problem after others", 60 * time.Millisecond, []event.TransitionKind{event.StatusChanged, event.ProblemOpened}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(Options{Batches: BatchOptions{Gather: 250 * time.Millisecond, GatherOpened: 50 * time.Millisecond, Size: 100}})
				last := time.Now()
				time.Sleep(tt.since)
				began := time.Now()
				for _, kind := range tt.kinds {
					t := changed(1, 1, 0)
					t.Kind = kind
					r.Emit([]event.Transition{t})
				}
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

// A problem that opens while others are gathered ends that; once it is taken, nothing hurries.
func TestAProblemHurries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Batches: BatchOptions{Gather: 250 * time.Millisecond, GatherOpened: 50 * time.Millisecond, Size: 100}})
		last := time.Now()
		emit := func(after time.Duration, kind event.TransitionKind) {
			time.AfterFunc(after, func() {
				t := changed(1, 1, 0)
				t.Kind = kind
				r.Emit([]event.Transition{t})
			})
		}
		waited := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if err := r.gather(t.Context(), last); err != nil || time.Since(began) != want {
				t.Errorf("waited %v, want %v, %v", time.Since(began), want, err)
			}
			last = time.Now()
			r.backlog.release(r.backlog.takeBatch(100))
		}
		emit(10*time.Millisecond, event.StatusChanged)
		emit(120*time.Millisecond, event.ProblemOpened)
		waited(120 * time.Millisecond)
		emit(10*time.Millisecond, event.StatusChanged)
		waited(250 * time.Millisecond)
	})
}

func TestGatherEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Batches: BatchOptions{Gather: time.Minute, Size: 100}})
		r.Emit([]event.Transition{changed(1, 1, 0)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.gather(ctx, time.Now()); err == nil {
			t.Error("goes on after its context ended")
		}
	})
}
