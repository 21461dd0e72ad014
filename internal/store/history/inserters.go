package history

import (
	"cmp"
	"context"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// inserters write the rows of a batch, each kind in statements that are kept.
type inserters struct {
	insert         *sqldb.Inserter[numbered[Entry]]
	opened         *sqldb.Inserter[numbered[Problem]]
	closed         *sqldb.Inserter[numbered[Problem]]
	deliver        *sqldb.Inserter[Delivery]
	places         *sqldb.Inserter[reached]
	pipelinePlaces *sqldb.Inserter[reached]

	escalations *sqldb.Inserter[encoded]
	also        *sqldb.Inserter[alsoNotified]
}

// reached is how far a partition was recorded.
type reached struct {
	partition model.Partition
	place     Place
}

func (in *inserters) prepare(ctx context.Context, db *sqldb.DB) (err error) {
	in.insert, err = sqldb.NewInserter(ctx, db, `history_entries (id, `+entryColumns+`)`, ``, entryRow)
	if err != nil {
		return err
	}
	const problems = `history_problems (no, ` + problemColumns + `)`
	in.opened, err = sqldb.NewInserter(ctx, db, problems, `ON CONFLICT (id) DO NOTHING`, openedRow)
	if err != nil {
		return err
	}
	in.closed, err = sqldb.NewInserter(ctx, db, problems, `ON CONFLICT (id) DO UPDATE SET closed = excluded.closed,
		status = excluded.status, severity = excluded.severity WHERE history_problems.closed = 0`, closedRow)
	if err != nil {
		return err
	}
	in.deliver, err = sqldb.NewInserter(ctx, db, `history_outbox (key, problem, handler_ns, handler, kind, payload, created,
		state, attempts, next_at, last_error, ended, route, tells, problems)`, `ON CONFLICT DO NOTHING`, deliveryRow)
	if err != nil {
		return err
	}
	in.escalations, err = sqldb.NewInserter(ctx, db, `history_escalations (problem, route, body)`,
		`ON CONFLICT (problem, route) DO UPDATE SET body = excluded.body`, escalationRow)
	if err != nil {
		return err
	}
	in.also, err = sqldb.NewInserter(ctx, db, `history_told (key, problem)`, `ON CONFLICT DO NOTHING`, alsoRow)
	if err != nil {
		return err
	}
	for table, to := range map[string]**sqldb.Inserter[reached]{"history_places": &in.places, "history_pipeline_places": &in.pipelinePlaces} {
		*to, err = sqldb.NewInserter(ctx, db, table+` (partition_no, log, number, idx)`,
			`ON CONFLICT (partition_no) DO UPDATE SET log = excluded.log, number = excluded.number, idx = excluded.idx`, placeRow)
		if err != nil {
			return err
		}
	}
	return nil
}

// noStatus is the column previous of an event's first status.
const noStatus = -1

func entryRow(args []any, row *numbered[Entry]) []any {
	e := row.of
	previous, expired := int64(e.Previous), int64(0)
	if e.First {
		previous = noStatus
	}
	if e.Expired {
		expired = 1
	}
	return append(args, row.id, int64(e.Partition), int64(e.Place.At.Log), int64(e.Place.At.Number), int64(e.Place.Index),
		nanos(e.At), nanos(e.Executed), string(e.Kind), e.Namespace, e.Node, int64(e.NodeID), int64(e.Source.Kind), int64(e.Source.ID), cleanText(e.Source.Instance), e.SourceName,
		int64(e.Status), previous, cleanText(e.Output), int64(e.Count), expired)
}

func openedRow(args []any, row *numbered[Problem]) []any { return problemRow(args, row, 0) }

func closedRow(args []any, row *numbered[Problem]) []any {
	return problemRow(args, row, nanos(row.of.Closed))
}

func problemRow(args []any, row *numbered[Problem], closed int64) []any {
	p := row.of
	return append(args, row.id, p.ID, p.Namespace, p.Node, int64(p.NodeID), int64(p.Source.Kind), int64(p.Source.ID), cleanText(p.Source.Instance), p.SourceName, int64(p.Chunk),
		int64(p.Status), int64(p.Severity), nanos(p.Opened), closed, cleanText(p.Output))
}

func deliveryRow(args []any, d *Delivery) []any {
	return append(args, d.Key, d.Problem, d.Handler.Namespace, d.Handler.Name, d.Kind, d.Payload, nanos(d.Created),
		string(cmp.Or(d.State, Pending)), int64(0), nanos(d.Created), cleanText(d.LastError), nanos(d.Ended),
		d.Route, d.Tells, int64(d.Count))
}

func placeRow(args []any, r *reached) []any {
	return append(args, int64(r.partition), int64(r.place.At.Log), int64(r.place.At.Number), int64(r.place.Index))
}

// cleanText is what both engines store: PostgreSQL knows no NUL and no broken UTF-8.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
