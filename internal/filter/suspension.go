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
	resting = time.Minute // duration of a suspension
)

// suspension refuses a program that exceeds its time limit several times in a row: it would take the time of other programs
// and decide nothing. Its events are treated as events of an expression that fails.
type suspension struct {
	mu    sync.Mutex
	slow  int       // in a row
	until time.Time // end of the suspension
}

func (r *suspension) refuses(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.until) || now.Before(r.until.Add(-resting)) { // the clock was set back
		return nil
	}
	return model.Errorf(model.Limited, "the expression is suspended: %w %d times in a row. Next evaluation: %s",
		ErrSlow, maxSlow, r.until.UTC().Format(time.TimeOnly))
}

// record counts evaluations that exceeded the time limit. err is the result of the last one.
func (r *suspension) record(err error, now time.Time) {
	var stopped *goja.InterruptedError
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.As(err, &stopped) || stopped.Value() != ErrSlow {
		r.slow = 0
		return
	}
	if r.slow++; r.slow >= maxSlow {
		r.slow, r.until = maxSlow-1, now.Add(resting) // one more excess suspends it again
	}
}
