package history

import (
	"cmp"
	"context"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

const entryColumns = `partition_no, log, number, idx, at, executed, kind, namespace, node, node_id, source_kind, source_id, source_instance, source_name, status, previous, output, count, expired`

func entryShelf(size int64) shelf[Entry] {
	return shelf[Entry]{
		table: "history_entries", id: "id", at: "at", columns: `id, ` + entryColumns, size: size, scan: scanEntry,
		time:    func(e *Entry) int64 { return nanos(e.At) },
		compare: func(a, b *Entry) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) },
	}
}

func scanEntry(scan scanner) (Entry, error) {
	var e Entry
	var log, number, at, executed, previous, count int64
	err := scan(&e.ID, &e.Partition, &log, &number, &e.Place.Index, &at, &executed, &e.Kind, &e.Namespace, &e.Node, &e.NodeID, &e.Source.Kind, &e.Source.ID, &e.Source.Instance, &e.SourceName,
		&e.Status, &previous, &e.Output, &count, &e.Expired)
	if e.First = previous == noStatus; !e.First {
		e.Previous = model.Status(previous)
	}
	e.Place.At, e.Count = journal.Position{Log: uint64(log), Number: uint64(number)}, uint64(count)
	e.At, e.Executed = fromNanos(at), fromNanos(executed)
	return e, err
}

func (s *sqlStore) Entries(ctx context.Context, q EntryQuery) ([]Entry, error) {
	w := newSelection(q.Namespace, q.Namespaces, q.Node, q.Check, q.NodeID)
	if q.Kind != "" {
		w.and(`e.kind = ?`, string(q.Kind))
	}
	w.bound(`{+}e.at`, q.Since, q.Before, q.BeforeID)
	return s.entries.list(ctx, s.db, w, limited(q.Limit))
}

// markKinds is the condition of the index history_entries_marks; SQLite uses that only for the same words.
const markKinds = `e.kind IN ('flapping', 'acknowledged')`

func (s *sqlStore) Marks(ctx context.Context, q EntryQuery) ([]Entry, error) {
	w := newSelection(q.Namespace, q.Namespaces, "", "", 0)
	w.and(markKinds)
	w.bound(`e.at`, q.Since, q.Before, q.BeforeID)
	return s.entries.list(ctx, s.db, w, limited(q.Limit))
}

// recordEntries writes entries, but none that was recorded before. An entry has no key of its own, so the
// place of its partition tells.
func (s *sqlStore) recordEntries(ctx context.Context, tx *sqldb.Tx, list []Entry) error {
	if len(list) == 0 {
		return nil
	}
	if s.recorded == nil {
		rows, err := tx.Query(ctx, selectPlaces+`history_places`)
		places, err := collect(rows, err, scanPlace)
		if err != nil {
			return err
		}
		s.recorded = placeMap(places)
	}
	filed, next, err := s.entries.end(ctx, tx)
	if err != nil {
		return err
	}
	rows := make([]numbered[Entry], 0, len(list))
	for i := range list {
		e := &list[i]
		if p, ok := s.recorded[e.Partition]; !ok || !p.Reached(e.Place.At, e.Place.Index) {
			rows = append(rows, numbered[Entry]{next, e})
			next++
		}
	}
	if err := s.entry.Insert(ctx, tx, rows); err != nil {
		return err
	}
	if next-1-filed < s.entries.size {
		return nil
	}
	return s.entries.closeSegment(ctx, tx)
}
