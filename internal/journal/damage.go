package journal

import (
	"fmt"
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// DamageError says that bytes which were on disk are not there any more: more than
// a crash can do.
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

// ToEnd is the last commit of a loss where nobody knows how many there were.
const ToEnd = math.MaxUint64

// commits names a run of them.
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

// forPeople adds what to type.
func (e *DamageError) forPeople(o *Options) error {
	return model.Errorf(model.Internal, "%w", error(e)).WithHint(
		"restore the folder from a backup, or go on without what is lost: %s", o.RepairCommand)
}

func instant(unixNanos int64) time.Time {
	if unixNanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, unixNanos)
}
