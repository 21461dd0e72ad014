package history

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// MaxChangeOutput is the largest part of an output that history keeps with a change. A problem keeps the whole output of
// its opening.
const MaxChangeOutput = 4 << 10

// SizeLimit limits the size of history in a SQLite file: the oldest rows are removed before a batch is written. Open
// problems stay, and messages that wait for their handler go last. Zero: no bound. PostgreSQL has none.
type SizeLimit struct {
	Budget   int64                 // bytes of rows
	KeepFree int64                 // bytes of free disk space below which the file does not grow
	Free     func() (int64, error) // free disk space in bytes
}

// Bounds of the file on a full disk.
const (
	leastSize = 16 << 20 // the file may grow to this size also on a full disk
	headroom  = 8 << 20  // free pages that the file keeps for the next batches
)

// limit returns how many bytes the rows may use in a file of a given size, and whether a full disk lowers that limit.
func (l *SizeLimit) limit(file int64) (limit int64, full bool) {
	if l.KeepFree > 0 {
		if free, err := l.Free(); err == nil && free < l.KeepFree {
			if least := max(file-headroom, leastSize); least < l.Budget {
				return least, true
			}
		}
	}
	return l.Budget, false
}

// Usage is the size of history in bytes, its limit, and how many rows were removed early.
type Usage struct {
	Bytes, Budget int64     // of rows; zero budget: no bound
	DiskFull      bool      // the bound is the file's present size
	Evicted       uint64    // rows that were removed before their retention ended, since the server started
	Oldest        time.Time // all rows before this time were removed to make room; zero: none were
}

// Use returns the size of history and its limit.
func (s *sqlStore) Use() Usage {
	if use := s.use.Load(); use != nil {
		return *use
	}
	return Usage{Budget: s.size.Budget}
}

// A step of makeRoom removes at most this share of all changes, and so many rows of a kind.
const (
	evictionShare = 64
	evictionStep  = 1000
)

// makeRoom removes the oldest rows in small steps until history is within its size limit. The caller holds recording.
func (s *sqlStore) makeRoom(ctx context.Context) error {
	if s.db.Dialect != sqldb.SQLite || s.size.Budget == 0 {
		return nil
	}
	for {
		file, used, err := s.db.FileSize(ctx)
		if err != nil {
			return err
		}
		use := s.Use()
		use.Bytes = used
		use.Budget, use.DiskFull = s.size.limit(file)
		s.use.Store(&use)
		if use.Bytes <= use.Budget {
			return nil
		}
		before, found, err := endOfOldest(ctx, s.db)
		removed := 0
		switch {
		case err != nil:
		case found:
			removed, err = s.Clean(ctx, before, evictionStep)
		default:
			removed, err = s.dropPayloads(ctx)
		}
		if err != nil {
			return fmt.Errorf("make room in history: %w", err)
		}
		if removed == 0 {
			return nil
		}
		after := use
		if after.Evicted += uint64(removed); found {
			after.Oldest = before
		}
		s.use.Store(&after)
	}
}

// endOfOldest returns the time before which rows must be deleted so that a fixed share of the oldest entries is
// removed.
func endOfOldest(ctx context.Context, db *sqldb.DB) (end time.Time, found bool, err error) {
	var at sql.NullInt64
	err = db.QueryRow(ctx, `SELECT at FROM history_entries WHERE id >= (SELECT MIN(id) + (MAX(id) - MIN(id)) / ? FROM history_entries) ORDER BY id LIMIT 1`, evictionShare).Scan(&at)
	if err == sql.ErrNoRows || err == nil && !at.Valid {
		return end, false, nil
	}
	if err != nil {
		return end, false, fmt.Errorf("find the oldest changes: %w", err)
	}
	return sqldb.FromNanos(at.Int64 + 1), true, nil // changes of one commit have the same time
}

// dropPayloads deletes the content of the oldest large messages that wait for their handler, and returns how many.
// The deliverer gives up a message without a payload. It is the last resort: a handler that is away for hours, while
// a node sends the longest outputs, would fill the disk.
func (s *sqlStore) dropPayloads(ctx context.Context) (dropped int, err error) {
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		result, err := tx.Exec(ctx, `UPDATE history_outbox SET payload = '' WHERE id IN
			(SELECT id FROM history_outbox WHERE state = 'pending' AND LENGTH(payload) > ? ORDER BY id LIMIT ?)`, MaxChangeOutput, evictionStep)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		dropped = int(n)
		return err
	})
	return dropped, err
}
