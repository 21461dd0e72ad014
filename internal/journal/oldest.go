package journal

import (
	"context"
	"errors"
	"time"
)

// OldestReceived returns the time at which the oldest commit in a journal was received; zero: the journal is empty.
func OldestReceived(ctx context.Context, l *Log) (at time.Time, err error) {
	first := l.Tail()
	first.Number--
	found := errors.New("found")
	err = l.Read(ctx, first, func(c Commit) error {
		at = time.Unix(0, c.Received())
		return found
	})
	if errors.Is(err, found) {
		err = nil
	}
	return at, err
}
