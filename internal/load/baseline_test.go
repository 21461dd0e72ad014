package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// TestAServerThatHangsBeforeTheRun reads the baseline from servers that hang or answer slowly, and expects an error
// with a hint after a minute of silence only; it also cancels the run.
func TestAServerThatHangsBeforeTheRun(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		view  play.View
		stop  time.Duration // zero: nobody stops it
		after time.Duration
		want  func(error) bool
	}{
		"hangs": {(&ideal{first: hang}).Each, 0, firstWord, func(err error) bool {
			var e *model.Error
			return errors.As(err, &e) && model.ClassOf(err) == model.Unavailable && e.Hint == "muster status says whether it is well"
		}},
		"hangs in the middle": {slowly(3, hang), 0, 3*50*time.Second + firstWord, func(err error) bool { return model.ClassOf(err) == model.Unavailable }},
		"is slow":             {slowly(3, func(context.Context) error { return nil }), 0, 3 * 50 * time.Second, func(err error) bool { return err == nil }},
		"refuses":             {(&ideal{first: func(context.Context) error { return errors.New("connection refused") }}).Each, 0, 0, func(err error) bool { return err.Error() == "read the view: connection refused" }},
		"is stopped":          {(&ideal{first: hang}).Each, 5 * time.Second, 5 * time.Second, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := t.Context(), func() {}
				if c.stop > 0 {
					ctx, end = context.WithTimeout(ctx, c.stop)
				}
				defer end()
				began := time.Now()
				_, err := (&run{cfg: Config{Subject: Subject{Before: c.view}}}).readBaseline(ctx)
				if took := time.Since(began); !c.want(err) || took != c.after {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

// slowly returns a view that sends one state every 50 seconds, then calls then.
func slowly(states int, then func(context.Context) error) play.View {
	return func(ctx context.Context, fn func(observe.EventState) error) error {
		for i := range states {
			pause.For(ctx, 50*time.Second)
			if err := fn(observe.EventState{Node: model.NodeID(i + 1), Check: model.FirstCheck}); err != nil {
				return err
			}
		}
		return then(ctx)
	}
}
