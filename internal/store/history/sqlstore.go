package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// sqlStore is Store on SQLite and on PostgreSQL. Times are Unix nanoseconds; 0: none.
type sqlStore struct {
	db       *sqldb.DB
	entries  shelf[Entry]
	problems shelf[Problem]
	inserters

	recording sync.Mutex
	recorded  map[model.Partition]Place // what history_places holds; nil: that is to be read. Under recording
}

// Open opens the history store at dsn (see sqldb.Open) and makes its schema.
func Open(ctx context.Context, dsn string) (Store, error) { return open(ctx, dsn, segmentRows) }

func open(ctx context.Context, dsn string, segment int64) (Store, error) {
	db, err := sqldb.Open(ctx, dsn, "history")
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &sqlStore{db: db, entries: entryShelf(segment), problems: problemShelf(segment)}
	if err := errors.Join(s.prepare(ctx, db), s.entries.prepare(ctx, db), s.problems.prepare(ctx, db)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *sqlStore) Close() error   { return s.db.Close() }
func (s *sqlStore) Trouble() error { return s.db.Trouble() }

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func (s *sqlStore) Record(ctx context.Context, b Batch) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := s.recordEntries(ctx, tx, b.Entries); err != nil {
			return err
		}
		if err := s.recordProblems(ctx, tx, b.Opened, b.Closed); err != nil {
			return err
		}
		if err := s.deliver.Insert(ctx, tx, b.Deliveries); err != nil {
			return err
		}
		if err := s.escalate(ctx, tx, &b); err != nil {
			return err
		}
		if err := s.pace(ctx, tx, b.Paces); err != nil {
			return err
		}
		if err := s.places.Insert(ctx, tx, inOrder(b.Places)); err != nil {
			return err
		}
		return s.pipelinePlaces.Insert(ctx, tx, inOrder(b.PipelinePlaces))
	})
	if err != nil {
		s.recorded = nil // nobody knows whether it is there
		return fmt.Errorf("record history: %w", err)
	}
	if s.recorded != nil {
		maps.Copy(s.recorded, b.Places)
	}
	return nil
}

func inOrder(of map[model.Partition]Place) []reached {
	places := make([]reached, 0, len(of))
	for _, p := range slices.Sorted(maps.Keys(of)) {
		places = append(places, reached{p, of[p]})
	}
	return places
}

func (s *sqlStore) PipelinePlaces(ctx context.Context) (map[model.Partition]Place, error) {
	return s.readPlaces(ctx, `SELECT partition_no, log, number, idx FROM history_pipeline_places`)
}

const selectPlaces = `SELECT partition_no, log, number, idx FROM history_places`

func (s *sqlStore) Places(ctx context.Context) (map[model.Partition]Place, error) {
	return s.readPlaces(ctx, selectPlaces)
}

func (s *sqlStore) readPlaces(ctx context.Context, query string) (map[model.Partition]Place, error) {
	rows, err := s.db.Query(ctx, query)
	if err == nil {
		var places map[model.Partition]Place
		if places, err = scanPlaces(rows); err == nil {
			return places, nil
		}
	}
	return nil, fmt.Errorf("read places: %w", err)
}

// rowsOf are those of a transaction or of a reader.
type rowsOf interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

func scanPlaces(rows rowsOf) (map[model.Partition]Place, error) {
	defer rows.Close()
	out := make(map[model.Partition]Place, model.Partitions)
	for rows.Next() {
		var p, log, number, index int64
		if err := rows.Scan(&p, &log, &number, &index); err != nil {
			return nil, err
		}
		out[model.Partition(p)] = Place{At: journal.Position{Log: uint64(log), Number: uint64(number)}, Index: uint32(index)}
	}
	return out, rows.Err()
}
