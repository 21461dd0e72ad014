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

// shelf is a table that only grows at its end, and how the rows of a node and check are
// found in it. An index over all of it would cost a random page for each row, written twice.
// Instead, so many rows at a time are a segment, and history_index holds their nodes and
// checks sorted: it grows at its end too. Who asks for a node looks into each segment whose
// time fits, the newest first, and reads the rows after the last segment, at most one
// segment's worth, as they are.
type shelf[T any] struct {
	table   string // as history_segments and history_index call it
	id, at  string // columns: what grows with each row, and its time
	columns string
	size    int64 // rows of a segment
	scan    func(scan func(dest ...any) error) (T, error)
	// compare orders the newest first; at is in its order.
	compare func(a, b *T) int
	time    func(*T) int64
	ends    *sql.Stmt // see end; kept, because it is asked with every batch
}

// prepare readies what is asked with every batch.
func (f *shelf[T]) prepare(ctx context.Context, db *sqldb.DB) (err error) {
	f.ends, err = db.Prepare(ctx, f.sql(`SELECT (SELECT COALESCE(MAX(last), 0) FROM history_segments WHERE shelf = '{table}'), (SELECT COALESCE(MAX({id}), 0) FROM {table})`))
	return err
}

// segmentRows: of a hundred million rows there are 3,000 segments, 10 µs each to look into;
// the rows after the last are read in some 10 ms.
const segmentRows = 1 << 15

// numbered is a row with its id.
type numbered[T any] struct {
	id int64
	of *T
}

// number gives rows their ids.
func number[T any](next int64, list []T) []numbered[T] {
	out := make([]numbered[T], len(list))
	for i := range list {
		out[i] = numbered[T]{next + int64(i), &list[i]}
	}
	return out
}

func (f *shelf[T]) sql(query string) string {
	return strings.NewReplacer("{table}", f.table, "{id}", f.id, "{at}", f.at, "{columns}", f.columns).Replace(query)
}

// end is the last row that is in a segment, and the id of the next row that is written.
func (f *shelf[T]) end(ctx context.Context, tx *sqldb.Tx) (filed, next int64, err error) {
	if err := tx.StmtContext(ctx, f.ends).QueryRowContext(ctx).Scan(&filed, &next); err != nil {
		return 0, 0, err
	}
	return filed, max(filed, next) + 1, nil
}

// nameDay is how exactly history_names knows when a name was last seen.
const nameDay = 24 * time.Hour

// file makes a segment of the rows after the last one, if they are enough.
func (f *shelf[T]) file(ctx context.Context, tx *sqldb.Tx) (done bool, err error) {
	filed, next, err := f.end(ctx, tx)
	if err != nil || next-1-filed < f.size {
		return false, err
	}
	last := filed + f.size
	for _, step := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO history_index (shelf, segment, node_id, source_name, row_id)
			SELECT '{table}', CAST(? AS BIGINT), node_id, source_name, {id} FROM {table} WHERE {id} > ? AND {id} <= ? ORDER BY node_id, source_name, {id}`,
			[]any{last, filed, last}},
		{`INSERT INTO history_segments (shelf, first, last, begun, ended)
			SELECT '{table}', CAST(? AS BIGINT), CAST(? AS BIGINT), COALESCE(MIN({at}), 0), COALESCE(MAX({at}), 0) FROM {table} WHERE {id} > ? AND {id} <= ?`,
			[]any{filed + 1, last, filed, last}},
		{`INSERT INTO history_names (namespace, node, node_id, last)
			SELECT namespace, node, node_id, MAX({at}) FROM {table} WHERE {id} > ? AND {id} <= ? GROUP BY namespace, node, node_id
			ON CONFLICT (namespace, node, node_id) DO UPDATE SET last = excluded.last WHERE excluded.last > history_names.last + ?`,
			[]any{filed, last, int64(nameDay)}},
	} {
		if _, err := tx.Exec(ctx, f.sql(step.query), step.args...); err != nil {
			return false, fmt.Errorf("file rows of %s: %w", f.table, err)
		}
	}
	return true, nil
}

// part is what is looked through at once: a segment, or what comes after the last one.
type part struct {
	after, segment int64 // segment 0: the rows after
	ended          int64
}

// parts are those that hold rows of a time, the newest first.
func (f *shelf[T]) parts(ctx context.Context, db *sqldb.DB, w *where) ([]part, error) {
	rows, err := db.Query(ctx, `SELECT last, begun, ended FROM history_segments WHERE shelf = ? ORDER BY ended DESC`, f.table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []part{{}}
	for rows.Next() {
		var p part
		var begun int64
		if err := rows.Scan(&p.segment, &begun, &p.ended); err != nil {
			return nil, err
		}
		out[0].after = max(out[0].after, p.segment)
		if p.ended >= w.since && (w.until == 0 || begun <= w.until) {
			out = append(out, p)
		}
	}
	return out, rows.Err()
}

// list reads the newest rows of what is asked.
func (f *shelf[T]) list(ctx context.Context, db *sqldb.DB, w *where, most int) ([]T, error) {
	if w.node == "" && w.nodeID == 0 {
		return f.read(ctx, db, `FROM {table} e WHERE `+w.sql(""), w.args, most, "")
	}
	nodes, err := w.nodes(ctx, db)
	if err != nil {
		return nil, err
	}
	parts, err := f.parts(ctx, db, w)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, p := range parts {
		if p.segment > 0 && len(out) == most && f.time(&out[most-1]) > p.ended {
			break
		}
		from, args := `FROM {table} e WHERE e.{id} > ? AND `+w.sql("+"), []any{p.after}
		if p.segment > 0 {
			if len(nodes) == 0 {
				break
			}
			from = `FROM {table} e WHERE e.{id} IN (SELECT row_id FROM history_index WHERE shelf = '{table}' AND segment = ? AND node_id IN (` + places(len(nodes)) + `)`
			args = append([]any{p.segment}, nodes...)
			if w.check != "" {
				from, args = from+` AND source_name = ?`, append(args, w.check)
			}
			from += `) AND ` + w.sql("+")
		}
		rows, err := f.read(ctx, db, from, append(args, w.args...), most, "+")
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
		slices.SortStableFunc(out, func(a, b T) int { return f.compare(&a, &b) })
		out = out[:min(len(out), most)]
	}
	return out, nil
}

// read runs one query. A + before a column keeps SQLite from using its index.
func (f *shelf[T]) read(ctx context.Context, db *sqldb.DB, from string, args []any, most int, plus string) ([]T, error) {
	rows, err := db.Query(ctx, f.sql(`SELECT {columns} `+from+` ORDER BY `+plus+`e.{at} DESC, e.id DESC`+limit(most)), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		item, err := f.scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, rows.Err()
}

// where says which rows are asked for.
type where struct {
	namespace, node, check string
	nodeID                 model.NodeID
	since, until           int64 // their time, Unix ns; until 0: any
	terms                  []string
	args                   []any // of namespace, node, check and terms
}

func newWhere(namespace, node, check string, id model.NodeID) *where {
	w := &where{namespace: namespace, node: node, check: check, nodeID: id}
	for _, f := range []struct{ column, value string }{{"namespace", namespace}, {"node", node}} {
		if f.value != "" {
			w.and(`e.`+f.column+` = ?`, f.value)
		}
	}
	if check != "" {
		w.and(`e.source_kind = 0 AND e.source_name = ?`, check)
	}
	if id != 0 {
		w.and(`e.node_id = ?`, int64(id))
	}
	return w
}

// of bounds the rows to namespaces; nil: to none.
func (w *where) of(namespaces []string) *where {
	if namespaces != nil {
		w.and(`e.namespace IN (`+sqldb.Marks(len(namespaces))+`)`, sqldb.AppendTexts(nil, namespaces)...)
	}
	return w
}

// and adds a term; {+} in it keeps an index from being used where another one is.
func (w *where) and(term string, args ...any) {
	w.terms, w.args = append(w.terms, term), append(w.args, args...)
}

func (w *where) sql(plus string) string {
	if len(w.terms) == 0 {
		return `1 = 1`
	}
	return strings.ReplaceAll(strings.Join(w.terms, ` AND `), "{+}", plus)
}

// nodes are the ids that the node had whose name is asked for.
func (w *where) nodes(ctx context.Context, db *sqldb.DB) (ids []any, err error) {
	if w.nodeID != 0 {
		return []any{int64(w.nodeID)}, nil
	}
	query, args := `SELECT DISTINCT node_id FROM history_names WHERE node = ?`, []any{w.node}
	if w.namespace != "" {
		query, args = query+` AND namespace = ?`, append(args, w.namespace)
	}
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// most is a limit, where none is said.
func most(n int) int {
	if n <= 0 {
		return 1000
	}
	return n
}

func limit(n int) string { return fmt.Sprintf(` LIMIT %d`, most(n)) }
