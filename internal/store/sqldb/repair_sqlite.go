package sqldb

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrDamaged reports a SQLite file whose pages are damaged.
var ErrDamaged = errors.New("SQLite finds damaged pages")

// isDamage reports whether an SQLite error means that pages of the file are damaged.
func isDamage(err error) bool {
	var lite *sqlite.Error
	if !errors.As(err, &lite) {
		return errors.Is(err, ErrDamaged)
	}
	code := lite.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// quickCheck runs SQLite's quick_check, and returns ErrDamaged with the first fault in the file.
func quickCheck(ctx context.Context, db *sql.DB) error {
	var fault string
	err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&fault)
	switch {
	case isDamage(err):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return err
	case fault != "ok":
		return fmt.Errorf("%w: %s", ErrDamaged, strings.Join(strings.Fields(fault), " "))
	}
	return nil
}

// Check verifies the pages and row checksums of a SQLite file, without changes to the file. A database on a server, or
// a missing file, has no fault.
func Check(ctx context.Context, dsn string) error {
	if _, err := os.Stat(dsn); strings.Contains(dsn, "://") || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// SQLite verifies CHECK on writable connections alone. The last one to close copies the write-ahead log into the file, unless it is
	// read-only.
	last, err := openFile(dsn, "mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer last.Close()
	_ = last.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_schema`).Scan(new(int)) // opens the log; quickCheck returns faults
	db, err := openFile(dsn, "mode=rw&_pragma=busy_timeout(10000)&_pragma=query_only(1)")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := errors.Join(checkHeader(dsn), quickCheck(ctx, db)); err != nil {
		return fmt.Errorf("check the pages of the database file %s: %w", dsn, err)
	}
	return nil
}

// checkHeader returns ErrDamaged if the header of a SQLite file has impossible values, such as unknown formats.
// It names a format that does not exist, or more pages than the file has. SQLite would refuse to write to such
// a file, or to read it, and give no reason; it notices lost pages only when it reads them.
func checkHeader(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	header := [100]byte{}
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return nil // SQLite says why a shorter file is none
	}
	if formats := header[18:20]; max(formats[0], formats[1]) > 2 { // for writing and for reading: 1 with a rollback journal, 2 with a write-ahead log
		return fmt.Errorf("%w: the header states the unknown format numbers %d (write) and %d (read)", ErrDamaged, formats[0], formats[1])
	}
	if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 {
		return nil // the last pages may be there
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	page, pages := int64(binary.BigEndian.Uint16(header[16:])), int64(binary.BigEndian.Uint32(header[28:]))
	if page == 1 {
		page = 64 << 10
	}
	if current := [4]byte(header[24:]) == [4]byte(header[92:]); current && info.Size() < page*pages {
		return fmt.Errorf("%w: the file has only %d bytes, but its header states %d pages of %d bytes", ErrDamaged, info.Size(), pages, page)
	}
	return nil
}

// Repair copies the readable rows of a damaged SQLite file into a new file. It keeps the damaged file as FILE.damaged.
// The new file has another identity (Identity), because rows are missing. Repair returns the losses, and changes no
// undamaged file.
func Repair(ctx context.Context, dsn, component string, schema []string, rows string) (losses []string, err error) {
	fault := Check(ctx, dsn)
	if fault == nil || !errors.Is(fault, ErrDamaged) {
		return nil, fault
	}
	fresh, files := dsn+".new", []string{"", "-wal", "-shm"}
	for _, suffix := range files {
		if err := os.Remove(fresh + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if losses, err = copyReadableRows(ctx, dsn, fresh, component, schema, rows); err != nil {
		return losses, fmt.Errorf("copy the readable rows of %s: %w", dsn, err)
	}
	for _, suffix := range files {
		if err := os.Rename(dsn+suffix, dsn+".damaged"+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return losses, err
		}
	}
	return append(losses, fmt.Sprintf("%v; the readable rows are in a new file, the damaged file is now %s.damaged", fault, dsn)), os.Rename(fresh, dsn)
}

// copyReadableRows copies all readable rows from a damaged SQLite file into a new one.
func copyReadableRows(ctx context.Context, from, to, component string, schema []string, rows string) (losses []string, err error) {
	source, err := openFile(from, "_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	defer source.Close()
	target, err := openSQLite(ctx, to, component)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := target.Migrate(ctx, schema); err != nil {
		return nil, err
	}
	if _, err := Identity(ctx, target, component+"_life", rows); err != nil {
		return nil, err
	}
	tables, err := List(ctx, target, "the tables", ScanColumn[string], `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid`)
	if err != nil {
		return nil, err
	}
	for _, table := range tables {
		if fault := copyRows(ctx, source, target, table); fault != nil {
			losses = append(losses, fmt.Sprintf("%s: rows of the table %s are lost: %v", from, table, fault))
		}
	}
	return losses, target.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, `UPDATE `+component+`_life SET identity = 0`)
		return err
	})
}

// copyRows copies a damaged table's readable rows, forward from the first row and backward from the last. It
// returns the fault at which it stopped, or nil if it copied all rows.
func copyRows(ctx context.Context, source *sql.DB, target *DB, table string) error {
	key, err := List(ctx, target, "the key", ScanColumn[string], `SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk`, table)
	if err != nil {
		return err
	}
	rowid, err := QueryValue[int64](ctx, target, "the kind of a table", `SELECT COUNT(*) FROM pragma_table_list WHERE name = ? AND wr = 0`, table)
	if err != nil {
		return err
	}
	if rowid > 0 { // the table itself is in the order of the rowid, and its key in an index, which may be damaged
		key = []string{"rowid"}
	}
	fault := copyInOrder(ctx, source, target, table, strings.Join(key, ", "))
	if fault != nil {
		_ = copyInOrder(ctx, source, target, table, strings.Join(key, " DESC, ")+" DESC") // stops at the same page
	}
	return fault
}

// shownValues is the number of values in the report of a lost row.
const shownValues = 3

// copyInOrder copies rows of a damaged table in ascending or descending order, until a row is unreadable. The
// argument order is the order of the rows, and fault is the error of that row.
func copyInOrder(ctx context.Context, source *sql.DB, target *DB, table, order string) (fault error) {
	rows, err := source.QueryContext(ctx, `SELECT * FROM `+table+` NOT INDEXED ORDER BY `+order)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	err = target.write(ctx, func(tx *Tx) error {
		insert, err := tx.Prepare(ctx, `INSERT OR REPLACE INTO `+table+` (`+strings.Join(columns, ", ")+`) VALUES (?`+strings.Repeat(", ?", len(columns)-1)+`)`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				fault = errors.Join(fault, err)
				return nil // keep the rows before it
			}
			if _, err := insert.ExecContext(ctx, values...); err != nil { // damaged content: the next row may be sound
				fault = errors.Join(fault, fmt.Errorf("insert the row that begins with %v: %w", values[:min(shownValues, len(values))], err))
			}
		}
		fault = errors.Join(fault, rows.Err())
		return nil
	})
	return errors.Join(fault, err)
}
