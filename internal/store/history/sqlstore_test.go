package history_test

import (
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/history/historytest"
	"github.com/muster-fleet/muster/internal/store/pgtest"
)

func opener(t *testing.T, dsn string) func() history.Store {
	return func() history.Store {
		s, err := history.Open(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestStoreOnSQLite(t *testing.T) {
	historytest.Run(t, func(t *testing.T) func() history.Store {
		return opener(t, filepath.Join(t.TempDir(), "history.db"))
	})
}

func TestStoreOnPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := pgtest.Start(t)
	historytest.Run(t, func(t *testing.T) func() history.Store { return opener(t, server.Database(t)) })
}
