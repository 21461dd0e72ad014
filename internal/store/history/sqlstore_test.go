package history_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/history/historytest"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

func opener(t *testing.T, dsn string, segment int64) func() history.Store {
	return func() history.Store {
		s, err := history.OpenSmall(t.Context(), dsn, segment)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// Rows are found in segments as they are after the last one: the suite is run with both.
var sizes = map[string]int64{"nothing is in a segment": 1 << 15, "segments of 3": 3}

func TestStoreOnSQLite(t *testing.T) {
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			historytest.Run(t, func(t *testing.T) func() history.Store {
				return opener(t, filepath.Join(t.TempDir(), "history.db"), size)
			})
		})
	}
	testNextVersion(t, filepath.Join(t.TempDir(), "history.db"))
}

// testNextVersion: version 2 is one more step on the tables of version 1, whose rows stay; a program
// that knows only version 1 refuses the database from then on.
func testNextVersion(t *testing.T, dsn string) {
	until := time.Unix(7, 0).UTC()
	s := opener(t, dsn, 3)()
	if err := s.RecordAlive(t.Context(), until); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Open(t.Context(), dsn, "history")
	if err != nil {
		t.Fatal(err)
	}
	next := append(slices.Clone(history.Schema()), `ALTER TABLE history_alive ADD COLUMN why {text} NOT NULL DEFAULT 'unknown';`)
	if err := db.Migrate(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	var at int64
	var why string
	if err := db.QueryRow(t.Context(), `SELECT until, why FROM history_alive`).Scan(&at, &why); err != nil || at != until.UnixNano() || why != "unknown" {
		t.Errorf("until %d, why %q, %v", at, why, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := history.Open(t.Context(), dsn); model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("version 2: %v", err)
	}
}

func TestStoreOnPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := pgtest.Start(t)
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			historytest.Run(t, func(t *testing.T) func() history.Store { return opener(t, server.Database(t), size) })
		})
	}
	testNextVersion(t, server.Database(t))
}
