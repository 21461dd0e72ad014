package history

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/store/shares"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// Bytes of a row without its text, with its part of the indexes, in PostgreSQL.
const (
	entryBytes    = 300
	problemBytes  = 450
	deliveryBytes = 600
)

// rowBytes returns an SQL expression that computes how many bytes a row uses. It is a fixed size plus the length of
// the text columns.
func rowBytes(bytes int, texts ...string) string {
	return fmt.Sprintf("(%d + OCTET_LENGTH(e.%s))", bytes, strings.Join(texts, ") + OCTET_LENGTH(e."))
}

// batchBytes returns the size in bytes of all rows of a batch.
func batchBytes(b *Batch) (n int64) {
	for i := range b.Entries {
		n += entryBytes + int64(len(b.Entries[i].Output))
	}
	for i := range b.Opened {
		n += problemBytes + int64(len(b.Opened[i].Output)+len(textsColumn(&b.Opened[i])))
	}
	for i := range b.Deliveries {
		n += deliveryBytes + int64(len(b.Deliveries[i].Payload))
	}
	return n
}

// holdings has the SQL expressions that compute how many bytes of a table each node uses. It also has the condition
// for rows that may be removed.
type holdings struct {
	bytes     string // bytes of a row
	removable string // condition of the rows that may be removed early
	kept      string // query of all other rows, which are few: node_id, namespace, bytes
}

// sumSegment is the statement that records how many bytes each node holds in a segment.
const sumSegment = `INSERT INTO history_node_bytes (shelf, segment, node_id, namespace, bytes)
	SELECT '{table}', CAST(? AS BIGINT), e.node_id, e.namespace, SUM({bytes}) FROM {table} e WHERE e.{id} > ? AND e.{id} <= ? GROUP BY e.node_id, e.namespace`

// nodeBytes returns how many bytes of the table each node uses, from an SQL query. The query returns node_id,
// namespace and bytes. A holder is a node in a namespace.
func (f *segments) nodeBytes(ctx context.Context, db *sqldb.DB, query string) (map[shares.Holder]int64, error) {
	held := map[shares.Holder]int64{}
	_, err := sqldb.List(ctx, db, "the bytes of nodes in "+f.table, func(scan sqldb.Scan) (h shares.Holder, err error) {
		var bytes int64
		err = scan(&h.Node, &h.Namespace, &bytes)
		held[h] = bytes
		return h, err
	}, f.expandNames(`SELECT node_id, namespace, CAST(SUM(bytes) AS BIGINT) FROM (`+query+`) AS held GROUP BY node_id, namespace`))
	return held, err
}

// allRows is the SQL query for the bytes of all rows, in complete segments and after the last.
const allRows = `SELECT node_id, namespace, bytes FROM history_node_bytes WHERE shelf = '{table}'
	UNION ALL SELECT e.node_id, e.namespace, {bytes} FROM {table} e WHERE e.{id} > (SELECT COALESCE(MAX(last), 0) FROM history_segments WHERE shelf = '{table}')`

// countBytes returns the size in bytes of all rows in all tables.
func (s *evictor) countBytes(ctx context.Context) (total int64, err error) {
	for _, table := range s.tables {
		held, err := table.nodeBytes(ctx, s.db, allRows)
		if err != nil {
			return 0, err
		}
		for _, bytes := range held {
			total += bytes
		}
	}
	return total, nil
}

// recountSegments counts again how many bytes each node uses, after a repair has lost rows.
func (s *evictor) recountSegments(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM history_node_bytes`); err != nil {
			return fmt.Errorf("delete the byte counts of nodes: %w", err)
		}
		for _, table := range s.tables {
			if err := table.runStatements(ctx, tx, "recount", []segmentStatement{{`INSERT INTO history_node_bytes (shelf, segment, node_id, namespace, bytes)
				SELECT '{table}', s.last, e.node_id, e.namespace, SUM({bytes}) FROM history_segments s JOIN {table} e ON e.{id} >= s.first AND e.{id} <= s.last
				WHERE s.shelf = '{table}' GROUP BY s.last, e.node_id, e.namespace`, nil}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// removalCounts counts the rows and bytes that the size limit has removed.
type removalCounts struct {
	rows   int
	latest time.Time        // of the newest row
	nodes  map[string]int64 // bytes by NAMESPACE/NODE
}

// removeAboveFairShare removes the oldest rows of nodes that use more than a fair share of the limit. It removes about
// excess bytes in total.
func (s *evictor) removeAboveFairShare(ctx context.Context, excess int64) (out removalCounts, err error) {
	out.nodes = map[string]int64{}
	var byTable []map[shares.Holder]int64
	sums, keep := map[shares.Holder]int64{}, -excess
	for _, table := range s.tables {
		held, err := table.nodeBytes(ctx, s.db, allRows)
		if err != nil {
			return out, err
		}
		if table.kept != "" {
			kept, err := table.nodeBytes(ctx, s.db, table.kept)
			if err != nil {
				return out, err
			}
			for h, bytes := range kept {
				held[h] -= bytes
			}
		}
		for h, bytes := range held {
			sums[h] += bytes
			keep += bytes
		}
		byTable = append(byTable, held)
	}
	quotas := shares.Quotas(sums, keep)
	for i, table := range s.tables {
		part := map[shares.Holder]int64{} // of each table the same share, so that what remains begins at about the same time
		for h, quota := range quotas {
			if held := byTable[i][h]; held > 0 {
				part[h] = int64(float64(quota) / float64(sums[h]) * float64(held))
			}
		}
		if err := table.remove(ctx, s.db, part, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// removableRow is a row that the size limit may remove before its retention ends.
type removableRow struct {
	id, at, bytes int64
	shares.Holder
	name string // of the node
}

// remove deletes the oldest rows of each node above its fair share, until enough bytes are free. A holder is a
// node in a namespace.
func (f *segments) remove(ctx context.Context, db *sqldb.DB, quotas map[shares.Holder]int64, out *removalCounts) error {
	spans, err := sqldb.List(ctx, db, "segments", func(scan sqldb.Scan) (s rowSpan, err error) {
		err = scan(&s.after, &s.last)
		return s, err
	}, `SELECT first - 1, last FROM history_segments WHERE shelf = ? ORDER BY last`, f.table)
	if err != nil {
		return err
	}
	behind := rowSpan{last: math.MaxInt64, open: true}
	for _, span := range append(spans, behind) {
		if span.open {
			span.after = behind.after
		}
		behind.after = span.last
		if len(quotas) == 0 {
			return nil
		}
		if err := f.removeFromSpan(ctx, db, span, quotas, out); err != nil {
			return err
		}
	}
	return nil
}

// rowSpan is a range of row numbers from which old rows can be removed, usually a segment. An open span has the rows
// after the last complete segment.
type rowSpan struct {
	after, last int64
	open        bool // behind the last segment
}

// removeFromSpan deletes the oldest rows of nodes above their fair share, in one range of rows.
func (f *segments) removeFromSpan(ctx context.Context, db *sqldb.DB, span rowSpan, quotas map[shares.Holder]int64, out *removalCounts) error {
	rows, err := f.rowsToRemove(ctx, db, span, quotas)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(rows, removedAtOnce) {
		err := db.Write(ctx, func(tx *sqldb.Tx) error {
			if err := f.deleteRows(ctx, tx, some); err != nil || span.open {
				return err
			}
			return f.shrinkSegment(ctx, tx, span)
		})
		if err != nil {
			return fmt.Errorf("remove rows of table %s: %w", f.table, err)
		}
		for i := range some {
			row := &some[i]
			out.rows++
			if at := sqldb.FromNanos(row.at); at.After(out.latest) {
				out.latest = at
			}
			out.nodes[row.Namespace+"/"+row.name] += row.bytes
		}
	}
	return nil
}

// rowsToRemove returns the oldest rows of nodes above their fair share, in one range of rows. It subtracts the
// rows' bytes from the quotas.
func (f *segments) rowsToRemove(ctx context.Context, db *sqldb.DB, span rowSpan, quotas map[shares.Holder]int64) ([]removableRow, error) {
	if !span.open {
		inSegment, err := sqldb.List(ctx, db, "nodes of a segment", func(scan sqldb.Scan) (h shares.Holder, err error) {
			err = scan(&h.Node, &h.Namespace)
			return h, err
		}, `SELECT node_id, namespace FROM history_node_bytes WHERE shelf = ? AND segment = ?`, f.table, span.last)
		if err != nil || !slices.ContainsFunc(inSegment, func(h shares.Holder) bool { return quotas[h] > 0 }) {
			return nil, err
		}
	}
	w := &sqldb.Where{}
	w.And(`e.{id} > ? AND e.{id} <= ? AND {removable}`, span.after, span.last)
	if len(quotas) <= idsPerQuery {
		var nodes []int64
		for h := range quotas {
			nodes = append(nodes, int64(h.Node))
		}
		sqldb.AndIn(w, `e.node_id`, nodes)
	}
	all, err := sqldb.List(ctx, db, "rows of "+f.table, scanRemovable, f.expandNames(selectRemovable+w.SQL("")+` ORDER BY e.{id}`), w.Args...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r removableRow) bool {
		left, over := quotas[r.Holder]
		switch {
		case !over:
			return true
		case left <= r.bytes:
			delete(quotas, r.Holder)
		default:
			quotas[r.Holder] = left - r.bytes
		}
		return false
	}), nil
}

// selectRemovable selects the columns of scanRemovable.
const selectRemovable = `SELECT e.{id}, e.{at}, e.node_id, e.namespace, e.node, {bytes} FROM {table} e WHERE `

// scanRemovable reads the columns of a row that the size limit may remove, such as node and size.
func scanRemovable(scan sqldb.Scan) (r removableRow, err error) {
	err = scan(&r.id, &r.at, &r.Node, &r.Namespace, &r.name, &r.bytes)
	return r, err
}

// deleteRows deletes the rows with the given numbers, and the problem lists of deleted deliveries. With a
// delivery it also deletes the list of further problems that the delivery reports.
func (f *segments) deleteRows(ctx context.Context, tx *sqldb.Tx, rows []removableRow) error {
	for some := range slices.Chunk(rows, idsPerQuery) {
		w := &sqldb.Where{}
		ids := make([]int64, len(some))
		for i := range some {
			ids[i] = some[i].id
		}
		sqldb.AndIn(w, f.id, ids)
		if f.table == "history_outbox" {
			if _, err := tx.Exec(ctx, `DELETE FROM history_delivery_problems WHERE key IN (SELECT key FROM history_outbox WHERE `+w.SQL("")+`)`, w.Args...); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, f.expandNames(`DELETE FROM {table} WHERE `+w.SQL("")), w.Args...); err != nil {
			return err
		}
	}
	return f.subtractBytes(ctx, tx, rows)
}

// subtractBytes subtracts the bytes of deleted rows from the recorded bytes of nodes and segments.
func (f *segments) subtractBytes(ctx context.Context, tx *sqldb.Tx, rows []removableRow) error {
	if len(rows) == 0 {
		return nil
	}
	found, err := tx.Query(ctx, `SELECT last FROM history_segments WHERE shelf = ? ORDER BY last`, f.table)
	ends, err := sqldb.Collect(found, err, sqldb.ScanColumn[int64])
	if err != nil {
		return err
	}
	type part struct {
		segment int64
		shares.Holder
	}
	sums := map[part]int64{}
	for i := range rows {
		if at, _ := slices.BinarySearch(ends, rows[i].id); at < len(ends) { // else the row is behind the last segment
			sums[part{ends[at], rows[i].Holder}] += rows[i].bytes
		}
	}
	for p, bytes := range sums {
		if err := f.runStatements(ctx, tx, "update", []segmentStatement{{`UPDATE history_node_bytes SET bytes = bytes - ? WHERE shelf = '{table}' AND segment = ? AND node_id = ? AND namespace = ?`,
			[]any{bytes, p.segment, int64(p.Node), p.Namespace}}}); err != nil {
			return err
		}
	}
	return nil
}

// shrinkSegment removes the index entries of deleted rows from a segment, or deletes a segment left empty. It
// removes the whole segment if no rows are left.
func (f *segments) shrinkSegment(ctx context.Context, tx *sqldb.Tx, span rowSpan) error {
	some := false
	if err := tx.QueryRow(ctx, f.expandNames(`SELECT EXISTS (SELECT 1 FROM {table} WHERE {id} > ? AND {id} <= ?)`), span.after, span.last).Scan(&some); err != nil {
		return err
	}
	if !some {
		return f.deleteSegment(ctx, tx, span.last)
	}
	return f.runStatements(ctx, tx, "update", []segmentStatement{
		{`DELETE FROM history_index WHERE shelf = '{table}' AND segment = ? AND NOT EXISTS (SELECT 1 FROM {table} e WHERE e.{id} = history_index.row_id)`, []any{span.last}},
		{`DELETE FROM history_node_bytes WHERE shelf = '{table}' AND segment = ? AND bytes <= 0`, []any{span.last}},
	})
}
