package history_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/pgtest"
)

// gunzip is a file of testdata.
func gunzip(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// schema4 is a database that the last Muster with schema 4 wrote; what it said of it is
// schema-4.txt.
func schema4(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.db")
	if err := os.WriteFile(path, gunzip(t, "schema-4.db.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// testMigrated: what an older Muster wrote is told as it told it, in segments or not; whoever was told of a
// problem knows it by the id of its group.
func testMigrated(t *testing.T, old func(t *testing.T) string) {
	told := regexp.MustCompile(`("lead":("[^"]*").*"told":\[\{"namespace":"default","name":"pager")`)
	want := told.ReplaceAllString(string(gunzip(t, "schema-4.txt.gz")), `$1,"under":$2`)
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			s := opener(t, old(t), size)()
			defer s.Close()
			if got := dump(t, s); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestMigrateSQLite(t *testing.T) { testMigrated(t, schema4) }

func TestMigratePostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := pgtest.Start(t)
	testMigrated(t, func(t *testing.T) string {
		dsn := server.Database(t)
		if err := history.CopySchema4(t.Context(), schema4(t), dsn); err != nil {
			t.Fatal(err)
		}
		return dsn
	})
}
