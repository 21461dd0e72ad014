package sqldb

import (
	"context"
	"database/sql"
	"strings"
)

// rowsPerInsert are the numbers of rows in the prepared INSERT statements. The rows of a statement share its cost
// (over a network: a round trip). Preparation costs more with more rows, so the statements are prepared once and kept.
var rowsPerInsert = [...]int{64, 16, 4, 1}

// Inserter inserts values of type T as rows of one table, several rows per statement. Create it after Migrate; it
// lives as long as its DB.
type Inserter[T any] struct {
	columns int
	row     func(args []any, item *T) []any
	stmts   [len(rowsPerInsert)]*sql.Stmt
}

// NewInserter prepares statements that insert items into a table, singly and several at once. row appends the values
// of one item, in the order of the columns.
func NewInserter[T any](ctx context.Context, db *DB, into, onConflict string, row func(args []any, item *T) []any) (*Inserter[T], error) {
	in := &Inserter[T]{columns: strings.Count(into, ",") + 1, row: row}
	values := "(" + strings.Repeat("?, ", in.columns-1) + "?)"
	for i, n := range rowsPerInsert {
		var err error
		if in.stmts[i], err = db.Prepare(ctx, "INSERT INTO "+into+" VALUES "+strings.Repeat(values+", ", n-1)+values+" "+onConflict); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// Insert inserts items in their order.
func (in *Inserter[T]) Insert(ctx context.Context, tx *Tx, items []T) error {
	args := make([]any, 0, min(len(items), rowsPerInsert[0])*in.columns)
	for i, n := range rowsPerInsert {
		if len(items) < n {
			continue
		}
		stmt := tx.StmtContext(ctx, in.stmts[i]) // ends with the transaction
		for ; len(items) >= n; items = items[n:] {
			args = args[:0]
			for k := range items[:n] {
				args = in.row(args, &items[k])
			}
			if _, err := stmt.ExecContext(ctx, args...); err != nil {
				return err
			}
		}
	}
	return nil
}
