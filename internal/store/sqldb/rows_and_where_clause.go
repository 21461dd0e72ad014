package sqldb

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Scan is a function that copies the columns of the current row into variables.
type Scan func(dest ...any) error

// Cursor iterates over the rows of a query. *sql.Rows implements it.
type Cursor interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Collect reads all rows of a query result by the function scan. err is the error of the query.
func Collect[T any](rows Cursor, err error, scan func(Scan) (T, error)) (list []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// List runs a query and returns all rows, converted by the function scan. The argument subject names the rows in
// errors.
func List[T any](ctx context.Context, db *DB, subject string, scan func(Scan) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, query, args...)
	list, err := Collect(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("read %s from the database: %w", subject, err)
	}
	return list, nil
}

// QueryValue runs a query for a single value, and returns the value.
func QueryValue[T any](ctx context.Context, db *DB, subject, query string, args ...any) (value T, err error) {
	if err = db.QueryRow(ctx, query, args...).Scan(&value); err != nil {
		return value, fmt.Errorf("read %s from the database: %w", subject, err)
	}
	return value, nil
}

// ScanColumn reads the value of a one-column row.
func ScanColumn[T any](scan Scan) (value T, err error) {
	err = scan(&value)
	return value, err
}

// Where collects SQL conditions and their arguments for a WHERE clause. {+} in a term becomes a +, which keeps SQLite
// from using the index of the following column.
type Where struct {
	Terms []string
	Args  []any
}

// And adds a condition to the WHERE clause, with its arguments. A term without arguments has no placeholder.
func (w *Where) And(term string, args ...any) {
	w.Terms, w.Args = append(w.Terms, term), append(w.Args, args...)
}

// AndEqual adds the condition that a column equals a text. It adds nothing for an empty text.
func (w *Where) AndEqual(column, text string) {
	if text != "" {
		w.And(column+` = ?`, text)
	}
}

// AndIn adds the SQL condition that a column has one of the given values. A nil list allows any value, an empty list
// none.
func AndIn[T any](w *Where, column string, values []T) {
	if values == nil {
		return
	}
	w.Terms = append(w.Terms, column+` IN (`+placeholders(len(values))+`)`)
	for _, v := range values {
		w.Args = append(w.Args, v)
	}
}

// SQL returns all conditions joined by AND, without the word WHERE. plus ("+" or "") replaces {+}.
func (w *Where) SQL(plus string) string {
	if len(w.Terms) == 0 {
		return `1 = 1`
	}
	return strings.ReplaceAll(strings.Join(w.Terms, ` AND `), "{+}", plus)
}

// placeholders returns n question marks for an SQL list, or NULL for an empty list.
func placeholders(n int) string {
	if n == 0 {
		return "NULL"
	}
	return "?" + strings.Repeat(", ?", n-1)
}

// Nanos converts a time to Unix nanoseconds for a column. The zero time becomes 0.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// FromNanos converts Unix nanoseconds of a column to a time.
func FromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
