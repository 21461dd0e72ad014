package history

import (
	"context"
	"database/sql"
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

// sqlStore implements Store on SQLite and on PostgreSQL. Times are Unix nanoseconds; 0: none.
type sqlStore struct {
	db       *sqldb.DB
	entries  shelf[Entry]
	problems shelf[Problem]
	inserters

	recording sync.Mutex                // serializes Record
	recorded  map[model.Partition]Place // content of history_places; nil: not read yet. Guarded by recording
}

// Open opens the history store at dsn (see sqldb.Open) and creates its schema.
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

func (s *sqlStore) Record(ctx context.Context, b Batch) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, step := range []func() error{
			func() error { return s.recordEntries(ctx, tx, b.Entries) },
			func() error { return s.recordProblems(ctx, tx, b.Opened, b.Closed) },
			func() error { return s.outbox.Insert(ctx, tx, b.Deliveries) },
			func() error { return s.recordEscalations(ctx, tx, &b) },
			func() error { return s.rates.Insert(ctx, tx, b.Rates) },
			func() error { return s.places.Insert(ctx, tx, sortedPlaces(b.Places)) },
			func() error { return s.pipelinePlaces.Insert(ctx, tx, sortedPlaces(b.PipelinePlaces)) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.recorded = nil // the transaction may have been committed
		return fmt.Errorf("record history: %w", err)
	}
	if s.recorded != nil {
		maps.Copy(s.recorded, b.Places)
	}
	return nil
}

// partitionPlace is a row of history_places.
type partitionPlace struct {
	partition model.Partition
	place     Place
}

func sortedPlaces(of map[model.Partition]Place) []partitionPlace {
	list := make([]partitionPlace, 0, len(of))
	for _, p := range slices.Sorted(maps.Keys(of)) {
		list = append(list, partitionPlace{p, of[p]})
	}
	return list
}

const selectPlaces = `SELECT partition_no, log, number, idx FROM `

func (s *sqlStore) Places(ctx context.Context) (map[model.Partition]Place, error) {
	list, err := list(ctx, s.db, "places", scanPlace, selectPlaces+`history_places`)
	return placeMap(list), err
}

func (s *sqlStore) PipelinePlaces(ctx context.Context) (map[model.Partition]Place, error) {
	list, err := list(ctx, s.db, "places of pipelines", scanPlace, selectPlaces+`history_pipeline_places`)
	return placeMap(list), err
}

func placeMap(list []partitionPlace) map[model.Partition]Place {
	out := make(map[model.Partition]Place, len(list))
	for _, p := range list {
		out[p.partition] = p.place
	}
	return out
}

func scanPlace(scan scanner) (p partitionPlace, err error) {
	var log, number int64
	err = scan(&p.partition, &log, &number, &p.place.Index)
	p.place.At = journal.Position{Log: uint64(log), Number: uint64(number)}
	return p, err
}

func (s *sqlStore) RecordAlive(ctx context.Context, until time.Time) error {
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO history_alive (one, until) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET until = excluded.until`, nanos(until))
		if err != nil {
			return fmt.Errorf("record the time up to which history is complete: %w", err)
		}
		return nil
	})
}

func (s *sqlStore) AliveUntil(ctx context.Context) (time.Time, error) {
	until, err := single[int64](ctx, s.db, "the time up to which history is complete", `SELECT until FROM history_alive WHERE one = 1`)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return fromNanos(until), err
}

func (s *sqlStore) Rates(ctx context.Context) ([]Rate, error) {
	return list(ctx, s.db, "the rates of routes", func(scan scanner) (r Rate, err error) {
		var ends int64
		err = scan(&r.Route, &r.Shadow, &ends, &r.Sent)
		r.Ends = time.Unix(0, ends).UTC()
		return r, err
	}, `SELECT route, shadow, ends, sent FROM history_rates ORDER BY route, shadow`)
}
