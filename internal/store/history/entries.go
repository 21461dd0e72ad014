package history

import (
	"cmp"
	"context"
	"fmt"

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

func scanEntry(scan func(...any) error) (Entry, error) {
	var e Entry
	var partition, log, number, index, at, executed, previous, count, expired int64
	err := scan(&e.ID, &partition, &log, &number, &index, &at, &executed, &e.Kind, &e.Namespace, &e.Node, &e.NodeID, &e.Source.Kind, &e.Source.ID, &e.Source.Instance, &e.SourceName,
		&e.Status, &previous, &e.Output, &count, &expired)
	if err != nil {
		return e, err
	}
	e.Partition, e.Count, e.Expired = model.Partition(partition), uint64(count), expired != 0
	if e.First = previous == noStatus; !e.First {
		e.Previous = model.Status(previous)
	}
	e.Place = Place{At: journal.Position{Log: uint64(log), Number: uint64(number)}, Index: uint32(index)}
	e.At, e.Executed = fromNanos(at), fromNanos(executed)
	return e, nil
}

func (s *sqlStore) Entries(ctx context.Context, q EntryQuery) ([]Entry, error) {
	w := newWhere(q.Namespace, q.Node, q.Check, q.NodeID).of(q.Namespaces)
	if q.Kind != "" {
		w.and(`e.kind = ?`, string(q.Kind))
	}
	if !q.Since.IsZero() {
		w.since = nanos(q.Since)
		w.and(`{+}e.at >= ?`, w.since)
	}
	if !q.Before.IsZero() {
		w.until = nanos(q.Before)
		w.and(`{+}e.at <= ? AND ({+}e.at < ? OR e.id < ?)`, w.until, w.until, q.BeforeID)
	}
	out, err := s.entries.list(ctx, s.db, w, most(q.Limit))
	if err != nil {
		return nil, fmt.Errorf("list history: %w", err)
	}
	return out, nil
}

// recordEntries writes entries that were not recorded before: an entry has no key of its
// own, but how far its partition was recorded tells whether a batch comes again.
func (s *sqlStore) recordEntries(ctx context.Context, tx *sqldb.Tx, list []Entry) error {
	if len(list) == 0 {
		return nil
	}
	if s.recorded == nil {
		rows, err := tx.Query(ctx, selectPlaces)
		if err != nil {
			return err
		}
		if s.recorded, err = scanPlaces(rows); err != nil {
			return err
		}
	}
	filed, next, err := s.entries.end(ctx, tx)
	if err != nil {
		return err
	}
	out := make([]numbered[Entry], 0, len(list))
	for i := range list {
		e := &list[i]
		if p, ok := s.recorded[e.Partition]; !ok || !p.Reached(e.Place.At, e.Place.Index) {
			out = append(out, numbered[Entry]{next, e})
			next++
		}
	}
	if err := s.insert.Insert(ctx, tx, out); err != nil {
		return err
	}
	if next-1-filed < s.entries.size {
		return nil
	}
	_, err = s.entries.file(ctx, tx)
	return err
}
