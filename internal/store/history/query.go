package history

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// rows are the rows of a transaction or of a reader.
type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// scanner reads one row into variables.
type scanner func(dest ...any) error

// collect reads all rows, each by scan, and closes them. err is that of the query.
func collect[T any](of rows, err error, scan func(scanner) (T, error)) (list []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer of.Close()
	for of.Next() {
		one, err := scan(of.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, of.Err()
}

// list runs a query outside of transactions; subject names its rows in errors.
func list[T any](ctx context.Context, db *sqldb.DB, subject string, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	of, err := db.Query(ctx, query, args...)
	out, err := collect(of, err, scan)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", subject, err)
	}
	return out, nil
}

// single runs a query with one row of one column.
func single[T any](ctx context.Context, db *sqldb.DB, subject, query string, args ...any) (value T, err error) {
	if err = db.QueryRow(ctx, query, args...).Scan(&value); err != nil {
		return value, fmt.Errorf("read %s: %w", subject, err)
	}
	return value, nil
}

// column reads a row of one column.
func column[T any](scan scanner) (value T, err error) {
	err = scan(&value)
	return value, err
}

// where is a WHERE clause: terms that all hold, with their arguments. {+} in a term becomes a +, which keeps
// SQLite from using the index of the column behind it.
type where struct {
	terms []string
	args  []any
}

func (w *where) and(term string, args ...any) {
	w.terms, w.args = append(w.terms, term), append(w.args, args...)
}

// in bounds a column to values; nil: any value, empty: none.
func in[T any](w *where, column string, values []T) {
	if values == nil {
		return
	}
	w.terms = append(w.terms, column+` IN (`+sqldb.Marks(len(values))+`)`)
	for _, v := range values {
		w.args = append(w.args, v)
	}
}

// page bounds rows to a time, and to those behind the last row of a page: before a time, or at it with a
// smaller id.
func (w *where) page(at, id string, since, before time.Time, beforeID any) {
	if !since.IsZero() {
		w.and(at+` >= ?`, nanos(since))
	}
	if !before.IsZero() {
		until := nanos(before)
		w.and(at+` <= ? AND (`+at+` < ? OR `+id+` < ?)`, until, until, beforeID)
	}
}

func (w *where) sql(plus string) string {
	if len(w.terms) == 0 {
		return `1 = 1`
	}
	return strings.ReplaceAll(strings.Join(w.terms, ` AND `), "{+}", plus)
}

// defaultLimit bounds lists whose query names no limit.
const defaultLimit = 1000

func limited(n int) int {
	if n <= 0 {
		return defaultLimit
	}
	return n
}

func limit(n int) string { return fmt.Sprintf(` LIMIT %d`, limited(n)) }

// nanos is a time as columns hold it: Unix nanoseconds; 0 for none.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// cleanText replaces bytes that PostgreSQL refuses: NUL and broken UTF-8. Both engines store the same.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
