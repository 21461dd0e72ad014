package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// MaxChangeOutput is the largest part of an output in a history entry about a change. A problem keeps the whole output
// of its opening.
const MaxChangeOutput = 4 << 10

// SizeLimit limits how many bytes the history of changes, problems and messages uses. Before a batch is written, rows
// of the nodes that hold more than their share are removed, the oldest first. Open problems stay, and messages that
// wait for their handler go last. Zero: no bound.
type SizeLimit struct {
	Budget   int64                 // bytes of rows
	KeepFree int64                 // bytes of free disk space below which a SQLite file does not grow
	Free     func() (int64, error) // free disk space in bytes
}

// Bounds of the file on a full disk.
const (
	leastSize = 16 << 20 // the file may grow to this size also on a full disk
	headroom  = 8 << 20  // free pages that the file keeps for the next batches
)

// limit returns how many bytes history may use, and whether a nearly full disk lowers that limit. The file has
// a given size.
func (l *SizeLimit) limit(file int64) (limit int64, full bool) {
	if l.diskFull() {
		if least := max(file-headroom, leastSize); least < l.Budget {
			return least, true
		}
	}
	return l.Budget, false
}

// diskFull reports whether the disk has less free space than history leaves to others.
func (l *SizeLimit) diskFull() bool {
	if l.KeepFree == 0 {
		return false
	}
	free, err := l.Free()
	return err == nil && free < l.KeepFree
}

// Usage is the size of history in bytes, its limit, and how many rows were removed early.
type Usage struct {
	Store         string    // the file, or PostgreSQL
	Bytes, Budget int64     // of rows; zero budget: no bound
	DiskFull      bool      // the bound is the file's present size
	Evicted       uint64    // rows that were removed before their retention ended, since the server started
	Latest        time.Time // of the newest row that was removed; zero: none was
	Node          string    // NAMESPACE/NODE of most of the rows that were removed last
}

// evictor deletes old rows so that history keeps within its size limit. The caller of its methods holds
// sqlStore.recording, except for Use.
type evictor struct {
	db      *sqldb.DB
	size    SizeLimit
	tables  []*segments           // whose rows may be removed early
	outbox  *segments             // one of them
	use     atomic.Pointer[Usage] // nil: not measured yet
	counted int64                 // bytes of rows at the last count; -1: count anew
	written int64                 // bytes of the rows recorded since that count or look
	checked bool                  // SQLite: the file was within its limit at the last look
}

// Use returns the size of history, its limit and the number of rows removed early.
func (s *evictor) Use() Usage {
	if use := s.use.Load(); use != nil {
		return *use
	}
	use := Usage{Store: "history (PostgreSQL)", Budget: s.size.Budget}
	if s.db.Dialect == sqldb.SQLite {
		use.Store = filepath.Base(s.db.Name())
	}
	return use
}

const (
	slackShare    = 32   // rows are removed until this part of the limit is free, so that one count of bytes serves many batches
	removedAtOnce = 4096 // rows in one transaction
	lookShare     = 1024 // the size of a SQLite file is read each time that rows of this part of the limit were recorded
)

// isWithin reports without a query whether a SQLite file is certainly within its size limit. Few rows were recorded
// since the last look at its size, and the disk is not full.
func (s *evictor) isWithin() bool {
	return s.checked && s.written <= s.size.Budget/lookShare && !s.size.diskFull()
}

// usedBytes returns the size of the database file, and how many bytes rows use. For PostgreSQL it returns zero and the
// bytes of all rows. PostgreSQL reuses the pages of deleted rows but keeps them, so bytes of rows are counted there:
// anew when the rows written since the last count may exceed the budget.
func (s *evictor) usedBytes(ctx context.Context) (file, used int64, err error) {
	if s.db.Dialect == sqldb.SQLite {
		return s.db.FileSize(ctx)
	}
	if s.counted < 0 || s.counted+s.written > s.size.Budget {
		if s.counted, err = s.countBytes(ctx); err != nil {
			s.counted = -1
			return 0, 0, err
		}
		s.written = 0
	}
	return 0, s.counted + s.written, nil
}

// enforceSizeLimit deletes rows in small steps until history is within its size limit.
func (s *evictor) enforceSizeLimit(ctx context.Context) error {
	if s.size.Budget == 0 || s.isWithin() {
		return nil
	}
	for {
		file, used, err := s.usedBytes(ctx)
		s.checked = false
		if err != nil {
			return err
		}
		use := s.Use()
		use.Bytes = used
		if use.Budget = s.size.Budget; s.db.Dialect == sqldb.SQLite {
			use.Budget, use.DiskFull = s.size.limit(file)
		}
		s.use.Store(&use)
		if use.Bytes <= use.Budget {
			if s.db.Dialect == sqldb.SQLite {
				s.checked, s.written = true, 0
			}
			return nil
		}
		removed, err := s.removeAboveFairShare(ctx, use.Bytes-use.Budget+use.Budget/slackShare)
		if err == nil && removed.rows == 0 {
			removed.rows, err = s.deleteWaitingTexts(ctx)
		}
		if err != nil {
			return fmt.Errorf("remove rows above the size limit of history: %w", err)
		}
		if removed.rows == 0 {
			return nil
		}
		s.counted = -1
		after := use
		after.Evicted += uint64(removed.rows)
		if len(removed.nodes) > 0 {
			after.Node = slices.MaxFunc(slices.Collect(maps.Keys(removed.nodes)), func(a, b string) int {
				return cmp.Or(cmp.Compare(removed.nodes[a], removed.nodes[b]), cmp.Compare(a, b))
			})
		}
		if removed.latest.After(after.Latest) {
			after.Latest = removed.latest
		}
		s.use.Store(&after)
	}
}

// deleteWaitingTexts deletes the texts of the oldest unsent messages, as a last resort to free space. The
// deliverer gives up a message without a payload. It is the last resort: a handler that is away for hours,
// while a node sends the longest outputs, would fill the disk.
func (s *evictor) deleteWaitingTexts(ctx context.Context) (dropped int, err error) {
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		found, err := tx.Query(ctx, `SELECT id, 0, node_id, namespace, node, OCTET_LENGTH(payload) FROM history_outbox
			WHERE state = 'pending' AND LENGTH(payload) > ? ORDER BY id LIMIT ?`, MaxChangeOutput, idsPerQuery)
		rows, err := sqldb.Collect(found, err, scanRemovable)
		if err != nil || len(rows) == 0 {
			return err
		}
		w := &sqldb.Where{}
		ids := make([]int64, len(rows))
		for i := range rows {
			ids[i] = rows[i].id
		}
		sqldb.AndIn(w, `id`, ids)
		if _, err := tx.Exec(ctx, `UPDATE history_outbox SET payload = '' WHERE `+w.SQL(""), w.Args...); err != nil {
			return err
		}
		dropped = len(rows)
		return s.outbox.subtractBytes(ctx, tx, rows)
	})
	return dropped, err
}
