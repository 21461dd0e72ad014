package history_test

import (
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/history/historytest"
	"github.com/muster-fleet/muster/internal/store/pgtest"
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
}
