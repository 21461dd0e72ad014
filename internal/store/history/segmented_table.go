package history

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// segments divides a table that only grows at its end into segments of consecutive rows. Each has its own small index
// by node and check. One index over all rows would cost a random page for each row, written twice. Instead the table
// closes a segment every size rows: history_index then holds the nodes and checks of the segment, sorted, and
// history_node_bytes the bytes of each node; both grow at their ends, too. See
// docs/decisions/0008-history-segments.md.
type segments struct {
	table   string // name in history_segments, history_index and history_node_bytes
	id, at  string // names of the columns with the row number and the time
	columns string // that lists read; empty: rows of a node are never listed, so they have no index
	size    int64  // rows of a segment
	holdings
	ends *sql.Stmt // prepared query of the last numbers, for every batch
}

// segmentedTable is a table with its rows divided into segments, and functions that read the rows. A query for a node
// looks into each segment whose time fits, the newest first, and scans the rows behind the last segment, at most one
// segment's worth.
type segmentedTable[T any] struct {
	segments
	scan    func(sqldb.Scan) (T, error)
	compare func(a, b *T) int // order of lists, newest first; the column at has the same order
	time    func(*T) int64
}

// prepare prepares the SQL query for the last row numbers, which every recorded batch needs.
func (f *segments) prepare(ctx context.Context, db *sqldb.DB) (err error) {
	f.ends, err = db.Prepare(ctx, f.expandNames(`SELECT (SELECT COALESCE(MAX(last), 0) FROM history_segments WHERE shelf = '{table}'), (SELECT COALESCE(MAX({id}), 0) FROM {table})`))
	return err
}

// segmentRows is the size of a segment. A hundred million rows make 3,000 segments. A query looks up one segment in
// 10 µs and scans the rows behind the last segment in 10 ms.
const segmentRows = 1 << 15

// numberedRow is a row to insert, with its row number.
type numberedRow[T any] struct {
	id   int64
	item *T
}

// numberRows assigns consecutive row numbers to the elements of a list, from the number `next` on.
func numberRows[T any](next int64, list []T) []numberedRow[T] {
	out := make([]numberedRow[T], len(list))
	for i := range list {
		out[i] = numberedRow[T]{next + int64(i), &list[i]}
	}
	return out
}

// expandNames replaces placeholders in a query, such as {table}, by the names of the table and columns. The others are {id},
// {at}, {columns}, {bytes} and {removable}.
func (f *segments) expandNames(query string) string {
	return strings.NewReplacer("{table}", f.table, "{id}", f.id, "{at}", f.at, "{columns}", f.columns, "{bytes}", f.bytes, "{removable}", f.removable).Replace(query)
}

// lastNumbers returns the number of the last row in complete segments, and the number for the next row. It also
// returns the number of the next row to write.
func (f *segments) lastNumbers(ctx context.Context, tx *sqldb.Tx) (filed, next int64, err error) {
	if err := tx.StmtContext(ctx, f.ends).QueryRowContext(ctx).Scan(&filed, &next); err != nil {
		return 0, 0, err
	}
	return filed, max(filed, next) + 1, nil
}

// nameDay is the resolution of the column of history_names with the time at which a name was last used.
const nameDay = 24 * time.Hour

// closeSegment ends the current segment after enough rows, and makes its index by node and check.
func (f *segments) closeSegment(ctx context.Context, tx *sqldb.Tx) error {
	filed, next, err := f.lastNumbers(ctx, tx)
	if err != nil || next-1-filed < f.size {
		return err
	}
	last := filed + f.size
	steps := []segmentStatement{
		{`INSERT INTO history_segments (shelf, first, last, begun, ended)
			SELECT '{table}', CAST(? AS BIGINT), CAST(? AS BIGINT), COALESCE(MIN({at}), 0), COALESCE(MAX({at}), 0) FROM {table} WHERE {id} > ? AND {id} <= ?`,
			[]any{filed + 1, last, filed, last}},
		{sumSegment, []any{last, filed, last}},
	}
	if f.columns != "" {
		steps = append(steps, segmentStatement{`INSERT INTO history_index (shelf, segment, node_id, source_name, row_id)
			SELECT '{table}', CAST(? AS BIGINT), node_id, source_name, {id} FROM {table} WHERE {id} > ? AND {id} <= ? ORDER BY node_id, source_name, {id}`,
			[]any{last, filed, last}},
			segmentStatement{`INSERT INTO history_names (namespace, node, node_id, last)
			SELECT namespace, node, node_id, MAX({at}) FROM {table} WHERE {id} > ? AND {id} <= ? GROUP BY namespace, node, node_id
			ON CONFLICT (namespace, node, node_id) DO UPDATE SET last = excluded.last WHERE excluded.last > history_names.last + ?`,
				[]any{filed, last, int64(nameDay)}})
	}
	return f.runStatements(ctx, tx, "complete", steps)
}

// segmentStatement is an SQL statement about one segment, with its arguments.
type segmentStatement struct {
	query string
	args  []any
}

// runStatements executes SQL statements about one segment, such as its completion or deletion. The argument verb names the work
// in errors.
func (f *segments) runStatements(ctx context.Context, tx *sqldb.Tx, verb string, steps []segmentStatement) error {
	for _, step := range steps {
		if _, err := tx.Exec(ctx, f.expandNames(step.query), step.args...); err != nil {
			return fmt.Errorf("cannot %s a row segment of table %s: %w", verb, f.table, err)
		}
	}
	return nil
}

// deleteEmptySegment removes the oldest segment if all its rows were deleted.
func (f *segments) deleteEmptySegment(ctx context.Context, tx *sqldb.Tx, before time.Time) error {
	var segment int64
	err := tx.QueryRow(ctx, f.expandNames(`SELECT COALESCE(MIN(s.last), 0) FROM history_segments s WHERE s.shelf = '{table}' AND s.ended < ?
		AND NOT EXISTS (SELECT 1 FROM {table} e WHERE e.{id} >= s.first AND e.{id} <= s.last)`), sqldb.Nanos(before)).Scan(&segment)
	if err != nil || segment == 0 {
		return err
	}
	return f.deleteSegment(ctx, tx, segment)
}

// deleteSegment removes a segment that has no rows.
func (f *segments) deleteSegment(ctx context.Context, tx *sqldb.Tx, segment int64) error {
	return f.runStatements(ctx, tx, "remove", []segmentStatement{
		{`DELETE FROM history_index WHERE shelf = '{table}' AND segment = ?`, []any{segment}},
		{`DELETE FROM history_node_bytes WHERE shelf = '{table}' AND segment = ?`, []any{segment}},
		{`DELETE FROM history_segments WHERE shelf = '{table}' AND last = ?`, []any{segment}},
	})
}

// selection is the WHERE clause of a query that reads a table with segments. Its node, check and times select the
// segments.
type selection struct {
	sqldb.Where
	namespace, node, check string
	nodeID                 model.NodeID
	since, until           int64 // Unix ns; until 0: any
}

// newSelection returns the SQL conditions that select rows by namespace, node and check. A trigger or directive is
// UNIT:INSTANCE. Empty texts select all.
func newSelection(namespace string, namespaces []string, node, check string, id model.NodeID) *selection {
	w := &selection{namespace: namespace, node: node, check: check, nodeID: id}
	w.AndEqual(`e.namespace`, namespace)
	w.AndEqual(`e.node`, node)
	if unit, instance, ok := strings.Cut(check, ":"); ok {
		w.check = unit
		w.And(`e.source_kind = ? AND e.source_name = ? AND e.source_instance = ?`, int(model.InstanceSource(0, instance).Kind), unit, instance)
	} else if check != "" {
		w.And(`e.source_kind = 0 AND e.source_name = ?`, check)
	}
	if id != 0 {
		w.And(`e.node_id = ?`, int64(id))
	}
	sqldb.AndIn(&w.Where, `e.namespace`, namespaces)
	return w
}

// boundToTime limits a selection to a time span and to one page of rows.
func (w *selection) boundToTime(at string, since, before time.Time, beforeID any) {
	w.since, w.until = sqldb.Nanos(since), sqldb.Nanos(before)
	boundToPage(&w.Where, at, `e.id`, since, before, beforeID)
}

// nodeIDs returns the ids of all nodes that ever had the selected name.
func (w *selection) nodeIDs(ctx context.Context, db *sqldb.DB) ([]int64, error) {
	if w.nodeID != 0 {
		return []int64{int64(w.nodeID)}, nil
	}
	query, args := `SELECT DISTINCT node_id FROM history_names WHERE node = ?`, []any{w.node}
	if w.namespace != "" {
		query, args = query+` AND namespace = ?`, append(args, w.namespace)
	}
	return sqldb.List(ctx, db, "names of nodes", sqldb.ScanColumn[int64], query, args...)
}

// rowRange is a range of rows that one query reads, usually a complete segment. Otherwise it has the rows after the
// last complete segment.
type rowRange struct {
	after, segment int64 // segment 0: the rows behind after
	ended          int64
}

// selectRanges returns the row ranges of segments that may contain selected rows, newest first.
func (f *segmentedTable[T]) selectRanges(ctx context.Context, db *sqldb.DB, w *selection) ([]rowRange, error) {
	out := []rowRange{{}}
	type segment struct {
		rowRange
		begun int64
	}
	all, err := sqldb.List(ctx, db, "segments", func(scan sqldb.Scan) (s segment, err error) {
		err = scan(&s.segment, &s.begun, &s.ended)
		return s, err
	}, `SELECT last, begun, ended FROM history_segments WHERE shelf = ? ORDER BY ended DESC`, f.table)
	for _, s := range all {
		out[0].after = max(out[0].after, s.segment)
		if s.ended >= w.since && (w.until == 0 || s.begun <= w.until) {
			out = append(out, s.rowRange)
		}
	}
	return out, err
}

// list returns the newest selected rows of the table.
func (f *segmentedTable[T]) list(ctx context.Context, db *sqldb.DB, w *selection, most int) ([]T, error) {
	if w.node == "" && w.nodeID == 0 {
		return f.read(ctx, db, `FROM {table} e WHERE `+w.SQL(""), w.Args, most, "")
	}
	nodes, err := w.nodeIDs(ctx, db)
	if err != nil {
		return nil, err
	}
	parts, err := f.selectRanges(ctx, db, w)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, p := range parts {
		if p.segment > 0 && len(out) == most && f.time(&out[most-1]) > p.ended {
			break
		}
		from, args := `FROM {table} e WHERE e.{id} > ? AND `+w.SQL("+"), []any{p.after}
		if p.segment > 0 {
			if len(nodes) == 0 {
				break
			}
			inner := &sqldb.Where{}
			inner.And(`shelf = '{table}' AND segment = ?`, p.segment)
			if sqldb.AndIn(inner, `node_id`, nodes); w.check != "" {
				inner.And(`source_name = ?`, w.check)
			}
			from, args = `FROM {table} e WHERE e.{id} IN (SELECT row_id FROM history_index WHERE `+inner.SQL("")+`) AND `+w.SQL("+"), inner.Args
		}
		rows, err := f.read(ctx, db, from, append(args, w.Args...), most, "+")
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
		slices.SortStableFunc(out, func(a, b T) int { return f.compare(&a, &b) })
		out = out[:min(len(out), most)]
	}
	return out, nil
}

// read returns the selected rows of one range of row numbers. plus is "+" where SQLite must not use the index of the
// time column.
func (f *segmentedTable[T]) read(ctx context.Context, db *sqldb.DB, from string, args []any, most int, plus string) ([]T, error) {
	return sqldb.List(ctx, db, f.table, f.scan, f.expandNames(`SELECT {columns} `+from+` ORDER BY `+plus+`e.{at} DESC, e.id DESC`+limitClause(most)), args...)
}
