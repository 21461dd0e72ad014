package sqldb

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestSQLiteKeepsThePromises(t *testing.T) { promises(t, filepath.Join(t.TempDir(), "a b?.db")) }

// promises checks the guarantees of both engines; TestPostgreSQL calls it too.

func promises(t *testing.T, dsn string) {
	steps := []string{`CREATE TABLE t (id {serial}, k {text} NOT NULL, v {blob}); CREATE INDEX t_k ON t (k);`}
	ctx := t.Context()
	db, err := Open(ctx, dsn, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 2 { // the second time has no work
		if err := db.Migrate(ctx, steps); err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	for _, outcome := range []error{nil, stop} {
		err := db.Write(ctx, func(tx *Tx) error {
			for _, k := range []string{"b", "a", "A"} {
				if _, err := tx.Exec(ctx, `INSERT INTO t (k, v) VALUES (?, ?)`, k, []byte{0, 255}); err != nil {
					return err
				}
			}
			return outcome
		})
		if !errors.Is(err, outcome) {
			t.Fatalf("got %v, want %v", err, outcome)
		}
	}
	rows, err := db.Query(ctx, `SELECT k, v FROM t WHERE k >= ? ORDER BY k`, "A")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got strings.Builder
	for rows.Next() {
		var k string
		var v []byte
		if err := rows.Scan(&k, &v); err != nil || len(v) != 2 {
			t.Fatal(err, v)
		}
		got.WriteString(k)
	}
	if got.String() != "Aab" {
		t.Fatalf("got %q: want one set of rows, ordered by bytes", got.String())
	}
	if err := db.Migrate(ctx, nil); err == nil || !strings.Contains(err.Error(), "newer Muster") {
		t.Fatalf("a newer schema must be refused, got %v", err)
	}
}
