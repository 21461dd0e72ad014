package history

import (
	"cmp"
	"context"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// inserters write the rows of a batch: one prepared statement per table and purpose.
type inserters struct {
	entry          *sqldb.Inserter[numbered[Entry]]
	opened         *sqldb.Inserter[numbered[Problem]]
	closed         *sqldb.Inserter[numbered[Problem]]
	outbox         *sqldb.Inserter[Delivery]
	also           *sqldb.Inserter[deliveryProblem]
	escalations    *sqldb.Inserter[encodedEscalation]
	rates          *sqldb.Inserter[Rate]
	places         *sqldb.Inserter[partitionPlace]
	pipelinePlaces *sqldb.Inserter[partitionPlace]
}

func (in *inserters) prepare(ctx context.Context, db *sqldb.DB) (err error) {
	const problems = `history_problems (no, ` + problemColumns + `)`
	const place = ` (partition_no, log, number, idx)`
	const onPlace = `ON CONFLICT (partition_no) DO UPDATE SET log = excluded.log, number = excluded.number, idx = excluded.idx`
	in.entry = prepareInsert(ctx, db, &err, `history_entries (id, `+entryColumns+`)`, ``, entryRow)
	in.opened = prepareInsert(ctx, db, &err, problems, `ON CONFLICT (id) DO NOTHING`, openedRow)
	in.closed = prepareInsert(ctx, db, &err, problems, `ON CONFLICT (id) DO UPDATE SET closed = excluded.closed,
		status = excluded.status, severity = excluded.severity WHERE history_problems.closed = 0`, closedRow)
	in.outbox = prepareInsert(ctx, db, &err, `history_outbox (key, problem, handler_ns, handler, kind, payload, created,
		state, attempts, next_at, last_error, ended, route, tells, problems)`, `ON CONFLICT DO NOTHING`, deliveryRow)
	in.also = prepareInsert(ctx, db, &err, `history_delivery_problems (key, problem)`, `ON CONFLICT DO NOTHING`,
		func(args []any, r *deliveryProblem) []any { return append(args, r.key, r.problem) })
	in.escalations = prepareInsert(ctx, db, &err, `history_escalations (problem, route, body)`,
		`ON CONFLICT (problem, route) DO UPDATE SET body = excluded.body`,
		func(args []any, e *encodedEscalation) []any { return append(args, e.Problem, e.Route, e.body) })
	in.rates = prepareInsert(ctx, db, &err, `history_rates (route, shadow, ends, sent)`,
		`ON CONFLICT (route, shadow) DO UPDATE SET ends = excluded.ends, sent = excluded.sent`,
		func(args []any, r *Rate) []any { return append(args, r.Route, number(r.Shadow), nanos(r.Ends), r.Sent) })
	in.places = prepareInsert(ctx, db, &err, `history_places`+place, onPlace, placeRow)
	in.pipelinePlaces = prepareInsert(ctx, db, &err, `history_pipeline_places`+place, onPlace, placeRow)
	return err
}

// prepareInsert prepares one inserter, unless one before it failed.
func prepareInsert[T any](ctx context.Context, db *sqldb.DB, failed *error, into, onConflict string, row func(args []any, item *T) []any) *sqldb.Inserter[T] {
	if *failed != nil {
		return nil
	}
	in, err := sqldb.NewInserter(ctx, db, into, onConflict, row)
	*failed = err
	return in
}

// number is a boolean as columns hold it.
func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// noStatus is the column previous of an event's first status.
const noStatus = -1

func entryRow(args []any, row *numbered[Entry]) []any {
	e := row.item
	previous := int64(e.Previous)
	if e.First {
		previous = noStatus
	}
	return append(args, row.id, int64(e.Partition), int64(e.Place.At.Log), int64(e.Place.At.Number), int64(e.Place.Index),
		nanos(e.At), nanos(e.Executed), string(e.Kind), e.Namespace, e.Node, int64(e.NodeID), int64(e.Source.Kind), int64(e.Source.ID), cleanText(e.Source.Instance), e.SourceName,
		int64(e.Status), previous, cleanText(e.Output), int64(e.Count), number(e.Expired))
}

func openedRow(args []any, row *numbered[Problem]) []any { return problemRow(args, row, 0) }

func closedRow(args []any, row *numbered[Problem]) []any {
	return problemRow(args, row, nanos(row.item.Closed))
}

func problemRow(args []any, row *numbered[Problem], closed int64) []any {
	p := row.item
	return append(args, row.id, p.ID, p.Namespace, p.Node, int64(p.NodeID), int64(p.Source.Kind), int64(p.Source.ID), cleanText(p.Source.Instance), p.SourceName, int64(p.Chunk),
		int64(p.Status), int64(p.Severity), nanos(p.Opened), closed, cleanText(p.Output))
}

func deliveryRow(args []any, d *Delivery) []any {
	return append(args, d.Key, d.Problem, d.Handler.Namespace, d.Handler.Name, d.Kind, d.Payload, nanos(d.Created),
		string(cmp.Or(d.State, Pending)), int64(0), nanos(d.Created), cleanText(d.LastError), nanos(d.Ended),
		d.Route, d.Tells, int64(d.Count))
}

func placeRow(args []any, r *partitionPlace) []any {
	return append(args, int64(r.partition), int64(r.place.At.Log), int64(r.place.At.Number), int64(r.place.Index))
}
