package journal

import (
	"fmt"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// DamageError reports the loss of bytes that were durable: more than a crash can cause.
type DamageError struct {
	File   string
	Offset int64
	First  uint64 // first commit that cannot be read; zero: none, the file is FORMAT
	Last   uint64 // last one; ToEnd: not known how many there were
	After  time.Time
	Before time.Time // receive times around the loss; zero: unknown
	Reason error
}

func (e *DamageError) Error() string {
	if e.First == 0 {
		return fmt.Sprintf("journal is damaged: %s: %v; lost: nothing but this file", e.File, e.Reason)
	}
	lost := commits(e.First, e.Last)
	between := ""
	if !e.After.IsZero() && !e.Before.IsZero() {
		between = fmt.Sprintf(", received between %s and %s",
			e.After.UTC().Format(time.RFC3339), e.Before.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("journal is damaged: %s at offset %d: %v; lost: %s%s",
		e.File, e.Offset, e.Reason, lost, between)
}

// ToEnd is DamageError.Last and Loss.Last where the number of lost commits is unknown.
const ToEnd = math.MaxUint64

// commits names a range of commits.
func commits(first, last uint64) string {
	switch {
	case last == ToEnd:
		return fmt.Sprintf("commit %d and all after it", first)
	case last > first:
		return fmt.Sprintf("commits %d to %d", first, last)
	}
	return fmt.Sprintf("commit %d", first)
}

func (e *DamageError) Unwrap() error { return e.Reason }

// withHint adds the command that repairs the log.
func (e *DamageError) withHint(o *Options) error {
	return model.Errorf(model.Internal, "%w", error(e)).WithHint(
		"restore the folder from a backup, or go on without the lost commits: %s", o.RepairCommand)
}

func instant(unixNanos int64) time.Time {
	if unixNanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, unixNanos)
}
