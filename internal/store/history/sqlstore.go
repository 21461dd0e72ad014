package history

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// storeIdentity holds the random id of a history store and the number of its transactions that changed messages.
type storeIdentity struct {
	identity     uint64
	transactions atomic.Uint64 // content of history_life.recorded
	count        *sql.Stmt     // increments it
}

// sqlStore implements Store on SQLite and PostgreSQL. Times are Unix nanoseconds; 0: none.
type sqlStore struct {
	db       *sqldb.DB
	entries  segmentedTable[Entry]
	problems segmentedTable[Problem]
	messages segments
	inserters

	room evictor

	storeIdentity

	recording sync.Mutex                         // serializes Record
	recorded  map[model.Partition]ChangePosition // content of history_places; nil: not read yet. Guarded by recording
}

// Open opens the history store at dsn (see sqldb.Open) and creates its schema.
func Open(ctx context.Context, dsn string, size SizeLimit) (Store, error) {
	return open(ctx, dsn, segmentRows, size)
}

// open opens the history store with a given number of rows per table segment.
func open(ctx context.Context, dsn string, segment int64, size SizeLimit) (Store, error) {
	db, err := sqldb.Open(ctx, dsn, "history")
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &sqlStore{db: db, entries: newEntryTable(segment), problems: newProblemTable(segment), messages: newMessageTable(segment)}
	s.room = evictor{db: db, size: size, tables: []*segments{&s.entries.segments, &s.problems.segments, &s.messages}, outbox: &s.messages, counted: -1}
	err = errors.Join(s.prepare(ctx, db), s.prepareCount(ctx, db), s.entries.prepare(ctx, db), s.problems.prepare(ctx, db), s.messages.prepare(ctx, db))
	if err == nil {
		s.identity, err = sqldb.Identity(ctx, db, "history_life", singleRow)
	}
	if err == nil {
		var recorded int64
		recorded, err = sqldb.QueryValue[int64](ctx, db, "the transactions of history", `SELECT recorded FROM history_life WHERE one = 1`)
		s.transactions.Store(uint64(recorded))
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// Repair makes a damaged history store usable (sqldb.Repair).
func Repair(ctx context.Context, dsn string) (losses []string, err error) {
	losses, err = sqldb.Repair(ctx, dsn, "history", schema, singleRow)
	if err != nil || len(losses) == 0 {
		return losses, err
	}
	s, err := Open(ctx, dsn, SizeLimit{})
	if err != nil {
		return losses, err
	}
	return losses, errors.Join(s.(*sqlStore).room.recountSegments(ctx), s.Close())
}

// ForgetChanges deletes, for each partition, the history entries after a given journal position. A replay of the
// journal from the positions records them again.
func (s *sqlStore) ForgetChanges(ctx context.Context, after [model.Partitions]journal.Position) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	s.recorded = nil
	places := make([]partitionPosition, 0, len(after))
	for p, at := range after {
		places = append(places, partitionPosition{model.Partition(p), ChangePosition{At: at}})
	}
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := s.places.Insert(ctx, tx, places); err != nil {
			return err
		}
		for _, query := range []string{
			`DELETE FROM history_entries WHERE number > (SELECT p.number FROM history_places p WHERE p.partition_no = history_entries.partition_no)`,
			`DELETE FROM history_places WHERE number = 0`,
			`DELETE FROM history_index WHERE shelf = 'history_entries' AND NOT EXISTS (SELECT 1 FROM history_entries e WHERE e.id = history_index.row_id)`,
			`DELETE FROM history_node_bytes WHERE shelf = 'history_entries' AND NOT EXISTS (SELECT 1 FROM history_segments s, history_entries e
				WHERE s.shelf = history_node_bytes.shelf AND s.last = history_node_bytes.segment AND e.id >= s.first AND e.id <= s.last)`,
			`DELETE FROM history_segments WHERE shelf = 'history_entries'
				AND NOT EXISTS (SELECT 1 FROM history_entries e WHERE e.id >= history_segments.first AND e.id <= history_segments.last)`,
		} {
			if _, err := tx.Exec(ctx, query); err != nil {
				return fmt.Errorf("remove change entries from history: %w", err)
			}
		}
		return nil
	})
}

// Close closes the database.
func (s *sqlStore) Close() error { return s.db.Close() }

// Trouble returns why the database's last request failed, or nil if the request succeeded.
func (s *sqlStore) Trouble() error { return s.db.Trouble() }

// CurrentUsage returns the size of history, its limit and the number of rows removed early.
func (s *sqlStore) CurrentUsage() Usage { return s.room.Use() }

// Record writes a batch and its journal positions in one transaction.
func (s *sqlStore) Record(ctx context.Context, b Batch) error {
	s.recording.Lock()
	defer s.recording.Unlock()
	if err := s.room.enforceSizeLimit(ctx); err != nil {
		return err
	}
	var recorded int64
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, step := range []func() error{
			func() error { return s.countTransaction(ctx, tx, &recorded) },
			func() error { return s.recordEntries(ctx, tx, b.Entries) },
			func() error { return s.recordProblems(ctx, tx, b.Opened, b.Closed) },
			func() error { return s.recordDeliveries(ctx, tx, b.Deliveries) },
			func() error { return s.recordEscalations(ctx, tx, &b) },
			func() error { return s.rates.Insert(ctx, tx, b.Rates) },
			func() error { return s.places.Insert(ctx, tx, sortedPositions(b.Places)) },
			func() error { return s.pipelinePlaces.Insert(ctx, tx, sortedPositions(b.PipelinePlaces)) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.recorded = nil // the transaction may have been committed
		return fmt.Errorf("record a batch of changes in history: %w", err)
	}
	s.rememberTransaction(recorded)
	s.room.written += batchBytes(&b)
	if s.recorded != nil {
		maps.Copy(s.recorded, b.Places)
	}
	return nil
}

// partitionPosition says up to which journal position the changes of a partition are recorded. It is a row of the
// table history_places.
type partitionPosition struct {
	partition model.Partition
	place     ChangePosition
}

// sortedPositions converts a map of journal positions to rows, sorted by partition.
func sortedPositions(of map[model.Partition]ChangePosition) []partitionPosition {
	list := make([]partitionPosition, 0, len(of))
	for _, p := range slices.Sorted(maps.Keys(of)) {
		list = append(list, partitionPosition{p, of[p]})
	}
	return list
}

const selectPlaces = `SELECT partition_no, log, number, idx FROM `

// Positions returns, for each partition, up to which journal position history is complete.
func (s *sqlStore) Positions(ctx context.Context) (map[model.Partition]ChangePosition, error) {
	list, err := sqldb.List(ctx, s.db, "places", scanPosition, selectPlaces+`history_places`)
	return positionMap(list), err
}

// PipelinePositions returns, for each partition, up to which journal position pipelines have handled events.
func (s *sqlStore) PipelinePositions(ctx context.Context) (map[model.Partition]ChangePosition, error) {
	list, err := sqldb.List(ctx, s.db, "places of pipelines", scanPosition, selectPlaces+`history_pipeline_places`)
	return positionMap(list), err
}

// positionMap returns the journal positions in rows of the database, by partition.
func positionMap(list []partitionPosition) map[model.Partition]ChangePosition {
	out := make(map[model.Partition]ChangePosition, len(list))
	for _, p := range list {
		out[p.partition] = p.place
	}
	return out
}

// scanPosition reads the columns of a journal position.
func scanPosition(scan sqldb.Scan) (p partitionPosition, err error) {
	var log, number int64
	err = scan(&p.partition, &log, &number, &p.place.Index)
	p.place.At = journal.Position{Log: uint64(log), Number: uint64(number)}
	return p, err
}

// Identity returns the random number that identifies the store, made at its creation.
func (l *storeIdentity) Identity() uint64 { return l.identity }

// Recorded returns how many committed transactions have changed messages to handlers so far.
func (l *storeIdentity) Recorded() uint64 { return l.transactions.Load() }

// Incarnation returns the journal id that RecordIncarnation stored last, or zero without one.
func (s *sqlStore) Incarnation(ctx context.Context) (incarnation uint64, err error) {
	text, err := sqldb.QueryValue[string](ctx, s.db, "the incarnation", `SELECT incarnation FROM history_life WHERE one = 1`)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseUint(text, 16, 64)
}

// prepareCount prepares the statement of countTransaction.
func (l *storeIdentity) prepareCount(ctx context.Context, db *sqldb.DB) (err error) {
	l.count, err = db.Prepare(ctx, `UPDATE history_life SET recorded = recorded + 1 WHERE one = 1 RETURNING recorded`)
	return err
}

// countTransaction increments the stored number of transactions that changed messages to handlers.
func (l *storeIdentity) countTransaction(ctx context.Context, tx *sqldb.Tx, recorded *int64) error {
	return tx.StmtContext(ctx, l.count).QueryRowContext(ctx).Scan(recorded)
}

// rememberTransaction remembers the number of the newest committed transaction.
func (l *storeIdentity) rememberTransaction(recorded int64) {
	for last := l.transactions.Load(); last < uint64(recorded) && !l.transactions.CompareAndSwap(last, uint64(recorded)); {
		last = l.transactions.Load()
	}
}

// ReasonUnknown is the reason of withheld deliveries in a history that is older than its journal.
const ReasonUnknown = "history is older than the journal: the message may have been sent already"

// RecordIncarnation records the journal's id, and withholds waiting deliveries if history is older than the
// journal. It withholds waiting deliveries if history is older than the journal.
func (s *sqlStore) RecordIncarnation(ctx context.Context, incarnation uint64, lost time.Time) (unknownUntil time.Time, err error) {
	now, until := fmt.Sprintf("%016x", incarnation), int64(0)
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		var was string
		if err := tx.QueryRow(ctx, `SELECT incarnation, quiet_until FROM history_life WHERE one = 1`).Scan(&was, &until); err != nil || was == now {
			return err
		}
		if !lost.IsZero() {
			until = sqldb.Nanos(lost)
			if _, err := tx.Exec(ctx, `UPDATE history_outbox SET state = ?, ended = ?, last_error = ? WHERE state = ?`,
				string(Withheld), until, ReasonUnknown, string(Pending)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `UPDATE history_life SET incarnation = ?, quiet_until = ? WHERE one = 1`, now, until)
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("record the journal's new id (incarnation) in the history store: %w", err)
	}
	return sqldb.FromNanos(until), nil
}

// Rates returns how many messages each route has sent in the current time span of its rate limit.
func (s *sqlStore) Rates(ctx context.Context) ([]RouteRate, error) {
	return sqldb.List(ctx, s.db, "the rates of routes", func(scan sqldb.Scan) (r RouteRate, err error) {
		var ends int64
		err = scan(&r.Route, &r.Shadow, &ends, &r.Sent)
		r.Ends = time.Unix(0, ends).UTC()
		return r, err
	}, `SELECT route, shadow, ends, sent FROM history_rates ORDER BY route, shadow`)
}

// inserters holds the prepared INSERT statements of all tables that a batch fills.
type inserters struct {
	entry            *sqldb.Inserter[numberedRow[Entry]]
	opened           *sqldb.Inserter[numberedRow[Problem]]
	closed           *sqldb.Inserter[numberedRow[Problem]]
	outbox           *sqldb.Inserter[Delivery]
	deliveryProblems *sqldb.Inserter[deliveryProblem]
	escalations      *sqldb.Inserter[encodedEscalation]
	rates            *sqldb.Inserter[RouteRate]
	places           *sqldb.Inserter[partitionPosition]
	pipelinePlaces   *sqldb.Inserter[partitionPosition]
}

// prepare prepares the INSERT statements of all tables that a batch fills.
func (in *inserters) prepare(ctx context.Context, db *sqldb.DB) (err error) {
	const problems = `history_problems (no, ` + problemColumns + `)`
	const place = ` (partition_no, log, number, idx)`
	const onPlace = `ON CONFLICT (partition_no) DO UPDATE SET log = excluded.log, number = excluded.number, idx = excluded.idx`
	in.entry = prepareInsert(ctx, db, &err, `history_entries (id, `+entryColumns+`)`, ``, appendEntryRow)
	in.opened = prepareInsert(ctx, db, &err, problems, `ON CONFLICT (id) DO NOTHING`, appendOpenedRow)
	in.closed = prepareInsert(ctx, db, &err, problems, `ON CONFLICT (id) DO UPDATE SET closed = excluded.closed,
		status = excluded.status, severity = excluded.severity, texts = excluded.texts WHERE history_problems.closed = 0`, appendClosedRow)
	in.outbox = prepareInsert(ctx, db, &err, `history_outbox (key, problem, namespace, node, node_id, handler_ns, handler, kind, created,
		state, attempts, next_at, last_error, ended, route, tells, problems, payload)`, `ON CONFLICT DO NOTHING`, appendDeliveryRow)
	in.deliveryProblems = prepareInsert(ctx, db, &err, `history_delivery_problems (key, problem)`, `ON CONFLICT DO NOTHING`,
		func(args []any, r *deliveryProblem) []any { return append(args, r.key, r.problem) })
	in.escalations = prepareInsert(ctx, db, &err, `history_escalations (problem, route, body)`,
		`ON CONFLICT (problem, route) DO UPDATE SET body = excluded.body`,
		func(args []any, e *encodedEscalation) []any { return append(args, e.Problem, e.Route, e.body) })
	in.rates = prepareInsert(ctx, db, &err, `history_rates (route, shadow, ends, sent)`,
		`ON CONFLICT (route, shadow) DO UPDATE SET ends = excluded.ends, sent = excluded.sent`,
		func(args []any, r *RouteRate) []any {
			return append(args, r.Route, boolColumn(r.Shadow), sqldb.Nanos(r.Ends), r.Sent)
		})
	in.places = prepareInsert(ctx, db, &err, `history_places`+place, onPlace, appendPositionRow)
	in.pipelinePlaces = prepareInsert(ctx, db, &err, `history_pipeline_places`+place, onPlace, appendPositionRow)
	return err
}

// prepareInsert prepares the INSERT statement of one table, unless an earlier preparation failed.
func prepareInsert[T any](ctx context.Context, db *sqldb.DB, failed *error, into, onConflict string, row func(args []any, item *T) []any) *sqldb.Inserter[T] {
	if *failed != nil {
		return nil
	}
	in, err := sqldb.NewInserter(ctx, db, into, onConflict, row)
	*failed = err
	return in
}

// boolColumn converts a boolean to the number 1 or 0, because the columns hold numbers.
func boolColumn(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// noStatus is the value of the column previous for the first status of an event.
const noStatus = -1

// appendEntryRow appends the column values of a history entry to args.
func appendEntryRow(args []any, row *numberedRow[Entry]) []any {
	e := row.item
	previous := int64(e.Previous)
	if e.First {
		previous = noStatus
	}
	return append(args, row.id, int64(e.Partition), int64(e.Place.At.Log), int64(e.Place.At.Number), int64(e.Place.Index),
		sqldb.Nanos(e.At), sqldb.Nanos(e.Executed), string(e.Kind), e.Namespace, e.Node, int64(e.NodeID), int64(e.Source.Kind), int64(e.Source.ID), cleanText(e.Source.Instance), e.SourceName,
		int64(e.Status), previous, sqldb.Nanos(e.Since), cleanText(e.Output), int64(e.Count), boolColumn(e.Expired))
}

// appendOpenedRow appends the column values of a newly opened problem to args.
func appendOpenedRow(args []any, row *numberedRow[Problem]) []any {
	return appendProblemRow(args, row, 0)
}

// appendClosedRow appends the column values of a problem that has closed to args.
func appendClosedRow(args []any, row *numberedRow[Problem]) []any {
	return appendProblemRow(args, row, sqldb.Nanos(row.item.Closed))
}

// appendProblemRow appends the column values of a problem to args. The argument closed is the closing time, 0 for an
// open problem.
func appendProblemRow(args []any, row *numberedRow[Problem], closed int64) []any {
	p := row.item
	return append(args, row.id, p.ID, p.Namespace, p.Node, int64(p.NodeID), int64(p.Source.Kind), int64(p.Source.ID), cleanText(p.Source.Instance), p.SourceName, int64(p.Definition),
		int64(p.Status), int64(p.Severity), sqldb.Nanos(p.Opened), closed, textsColumn(p), cleanText(p.Output))
}

// appendDeliveryRow appends the column values of a delivery to args.
func appendDeliveryRow(args []any, d *Delivery) []any {
	return append(args, d.Key, d.Problem, d.Namespace, d.Node, int64(d.NodeID), d.Handler.Namespace, d.Handler.Name, d.Kind, sqldb.Nanos(d.Created),
		string(cmp.Or(d.State, Pending)), int64(0), sqldb.Nanos(d.Created), cleanText(d.LastError), sqldb.Nanos(d.Ended),
		d.Route, d.Event, int64(d.Count), d.Payload)
}

// appendPositionRow appends the column values of a journal position to args.
func appendPositionRow(args []any, r *partitionPosition) []any {
	return append(args, int64(r.partition), int64(r.place.At.Log), int64(r.place.At.Number), int64(r.place.Index))
}

// Clean removes rows older than a time, at most n of each kind, and returns their number. Deliveries of open problems stay:
// they tell which handlers must be notified of the closing.
func (s *sqlStore) Clean(ctx context.Context, before time.Time, n int) (int, error) {
	removed := 0
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		removed = 0
		for _, old := range []struct {
			*segments
			ended string
		}{
			{&s.entries.segments, `e.at < ? ORDER BY e.at`},
			{&s.messages, `e.ended < ? ORDER BY e.id`},
			{&s.problems.segments, `e.closed < ?`},
		} {
			found, err := tx.Query(ctx, old.expandNames(selectRemovable+`{removable} AND `+old.ended+` LIMIT ?`), sqldb.Nanos(before), n)
			rows, err := sqldb.Collect(found, err, scanRemovable)
			if err != nil {
				return err
			}
			removed += len(rows)
			if err := old.deleteRows(ctx, tx, rows); err != nil {
				return err
			}
			if err := old.deleteEmptySegment(ctx, tx, before); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `DELETE FROM history_names WHERE last < ?`, sqldb.Nanos(before.Add(-nameDay)))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("remove old rows from history: %w", err)
	}
	return removed, nil
}

// deliveryProblem is an additional problem of a delivery that reports several problems. It is a row of the
// table history_delivery_problems.
type deliveryProblem struct{ key, problem string }

// encodedEscalation is an escalation as JSON, for a row of the table history_escalations.
type encodedEscalation struct {
	EscalationKey
	body []byte
}

// encodeEscalations encodes escalations as rows of history_escalations.
func encodeEscalations(list []Escalation) ([]encodedEscalation, error) {
	out := make([]encodedEscalation, len(list))
	for i := range list {
		body, err := json.Marshal(&list[i])
		if err != nil {
			return nil, fmt.Errorf("encode escalation of problem %s: %w", list[i].Problem, err)
		}
		out[i] = encodedEscalation{list[i].EscalationKey, body}
	}
	return out, nil
}

// decodeEscalation decodes the JSON of an escalation.
func decodeEscalation(key EscalationKey, body []byte) (Escalation, error) {
	e := Escalation{EscalationKey: key}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fmt.Errorf("decode escalation of problem %s on route %q: %w", key.Problem, key.Route, err)
	}
	e.EscalationKey = key
	return e, nil
}

// recordEscalations writes the escalations of a batch, and the further problems that its deliveries
// report.
func (s *sqlStore) recordEscalations(ctx context.Context, tx *sqldb.Tx, b *Batch) error {
	rows, err := encodeEscalations(b.Escalations)
	if err != nil {
		return err
	}
	if err := s.escalations.Insert(ctx, tx, rows); err != nil {
		return err
	}
	for _, key := range b.Finished {
		if _, err := tx.Exec(ctx, `DELETE FROM history_escalations WHERE problem = ? AND route = ?`, key.Problem, key.Route); err != nil {
			return err
		}
	}
	var also []deliveryProblem
	for i := range b.Deliveries {
		for _, problem := range b.Deliveries[i].FurtherProblems {
			also = append(also, deliveryProblem{b.Deliveries[i].Key, problem})
		}
	}
	return s.deliveryProblems.Insert(ctx, tx, also)
}

// LinkedProblems returns the ids of the additional problems that one delivery reports.
func (s *sqlStore) LinkedProblems(ctx context.Context, key string) ([]string, error) {
	return sqldb.List(ctx, s.db, "the problems of a delivery", sqldb.ScanColumn[string], `SELECT problem FROM history_delivery_problems WHERE key = ? ORDER BY problem`, key)
}

// Escalations returns all escalations.
func (s *sqlStore) Escalations(ctx context.Context) ([]Escalation, error) {
	return sqldb.List(ctx, s.db, "escalations", scanEscalation, `SELECT problem, route, body FROM history_escalations ORDER BY problem, route`)
}

// EscalationsOf returns the escalations of a problem.
func (s *sqlStore) EscalationsOf(ctx context.Context, problem string) ([]Escalation, error) {
	return sqldb.List(ctx, s.db, "escalations", scanEscalation, `SELECT problem, route, body FROM history_escalations WHERE problem = ? ORDER BY route`, problem)
}

// scanEscalation reads the columns of an escalation.
func scanEscalation(scan sqldb.Scan) (Escalation, error) {
	var key EscalationKey
	var body []byte
	if err := scan(&key.Problem, &key.Route, &body); err != nil {
		return Escalation{}, err
	}
	return decodeEscalation(key, body)
}

// Compare orders notified handlers by handler, then by incident id.
func (t NotifiedHandler) Compare(other NotifiedHandler) int {
	return cmp.Or(cmp.Compare(t.Namespace, other.Namespace), cmp.Compare(t.Name, other.Name), cmp.Compare(t.Incident, other.Incident))
}

// Compare orders escalation keys by problem and route.
func (k EscalationKey) Compare(other EscalationKey) int {
	return cmp.Or(cmp.Compare(k.Problem, other.Problem), cmp.Compare(k.Route, other.Route))
}
