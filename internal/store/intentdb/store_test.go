package intentdb_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/intent/intenttest"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/store/pgtest"
)

func opener(t *testing.T, dsn string) func() intent.Store {
	return func() intent.Store {
		s, err := intentdb.Open(t.Context(), dsn, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestStoreOnSQLite(t *testing.T) {
	intenttest.Run(t, func(t *testing.T) func() intent.Store {
		return opener(t, filepath.Join(t.TempDir(), "intent.db"))
	})
}

func TestStoreOnPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	intenttest.Run(t, func(t *testing.T) func() intent.Store { return opener(t, server.Database(t)) })
}
