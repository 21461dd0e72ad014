package filter

import (
	"errors"
	"sync"
	"time"

	"github.com/dop251/goja"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	maxSlow = 3           // evaluations in a row that may come to TimeLimit
	resting = time.Minute // how long nothing is evaluated after that
)

// rest leaves a program alone that runs into its time limit again and again: it would take
// all the time that there is for those of others, and decide nothing. Its events fare as those
// of any expression that fails.
type rest struct {
	mu    sync.Mutex
	slow  int       // in a row
	until time.Time // nothing is evaluated before
}

func (r *rest) refuses(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.until) || now.Before(r.until.Add(-resting)) { // the clock was set back
		return nil
	}
	return model.Errorf(model.Limited, "the expression was not evaluated: %w %d times in a row, and is tried again after %s",
		ErrSlow, maxSlow, r.until.UTC().Format(time.TimeOnly))
}

// took hears how an evaluation ended.
func (r *rest) took(err error, now time.Time) {
	var stopped *goja.InterruptedError
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.As(err, &stopped) || stopped.Value() != ErrSlow {
		r.slow = 0
		return
	}
	if r.slow++; r.slow >= maxSlow {
		r.slow, r.until = maxSlow-1, now.Add(resting) // one try, then it rests again
	}
}
