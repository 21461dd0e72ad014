package sqldb

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// testSchema creates a row with the identity, a table of rows and a clustered table.
var testSchema = []string{`
	CREATE TABLE history_life (one BIGINT PRIMARY KEY, identity BIGINT NOT NULL);
	CREATE TABLE rows (id {id}, word {text} NOT NULL);
	CREATE INDEX rows_word ON rows (word);
	CREATE TABLE sorted (name {text} NOT NULL, word {text} NOT NULL, PRIMARY KEY (name)){clustered};`}

const (
	testRows = 3000
	testRow  = `INSERT INTO history_life (one, identity) VALUES (1, 0) ON CONFLICT DO NOTHING`
)

// makeTestFile creates and closes a database file with rows, and returns its path and its identity number.
func makeTestFile(t *testing.T) (path string, identity uint64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "history.db")
	db := testenv.Value(Open(t.Context(), path, "history"))(t)
	testenv.NoError(t, db.Migrate(t.Context(), testSchema))
	identity = testenv.Value(Identity(t.Context(), db, "history_life", testRow))(t)
	testenv.NoError(t, db.Write(t.Context(), func(tx *Tx) error {
		for i := range testRows {
			word := strings.Repeat("x", 40) + fmt.Sprint(i)
			_, err := tx.Exec(t.Context(), `INSERT INTO rows (id, word) VALUES (?, ?)`, i, word)
			_, err2 := tx.Exec(t.Context(), `INSERT INTO sorted (name, word) VALUES (?, ?)`, fmt.Sprintf("%05d", i), word)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
		}
		return nil
	}))
	testenv.NoError(t, db.Close())
	return path, identity
}

// Repair of a damaged file keeps all rows that can be read, and a second Repair changes nothing.
func TestRepairKeepsReadableRows(t *testing.T) {
	whole, _ := makeTestFile(t)
	content := testenv.Value(os.ReadFile(whole))(t)
	for at := 0; at < len(content); at += max(4096, len(content)/16/4096*4096) {
		t.Run(fmt.Sprintf("page %d", at/4096), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.db")
			damaged := append([]byte{}, content...)
			copy(damaged[at:], strings.Repeat("\xa5", 512))
			testenv.NoError(t, os.WriteFile(path, damaged, 0o600))
			fault := Check(t.Context(), path)
			if !errors.Is(fault, ErrDamaged) {
				t.Fatalf("the damage was not found: %v", fault)
			}
			losses, err := Repair(t.Context(), path, "history", testSchema, testRow)
			if err != nil || len(losses) == 0 {
				t.Fatalf("losses %q, %v", losses, err)
			}
			if again, err := Repair(t.Context(), path, "history", testSchema, testRow); err != nil || again != nil {
				t.Fatalf("the second repair: %q, %v", again, err)
			}
			db := testenv.Value(Open(t.Context(), path, "history"))(t)
			defer db.Close()
			testenv.NoError(t, db.Migrate(t.Context(), testSchema))
			if identity := testenv.Value(Identity(t.Context(), db, "history_life", testRow))(t); identity == 0 {
				t.Error("no identity")
			}
			n := testenv.Value(QueryValue[int64](t.Context(), db, "rows", `SELECT COUNT(*) FROM rows`))(t) +
				testenv.Value(QueryValue[int64](t.Context(), db, "rows", `SELECT COUNT(*) FROM sorted`))(t)
			if least := int64(2*testRows - 2*200); at > 0 && n < least && !strings.Contains(strings.Join(losses, "\n"), "rows of the table") {
				t.Errorf("%d rows remain, and nothing says so: %q", n, losses)
			}
			t.Logf("%d of %d rows remain: %q", n, 2*testRows, losses)
		})
	}
}

// TestImpossibleFormatIsDamage writes an impossible format number into a file's header, and expects Check and Open to
// report damage. Repair keeps the rows.
func TestImpossibleFormatIsDamage(t *testing.T) {
	path, _ := makeTestFile(t)
	content := testenv.Value(os.ReadFile(path))(t)
	content[18] ^= 0x10
	testenv.NoError(t, os.WriteFile(path, content, 0o600))
	if fault := Check(t.Context(), path); !errors.Is(fault, ErrDamaged) {
		t.Fatalf("the damage was not found: %v", fault)
	}
	var said *model.Error
	if _, err := Open(t.Context(), path, "history"); !errors.As(err, &said) || !strings.Contains(said.Hint, "muster doctor repair --data "+filepath.Dir(path)) {
		t.Fatalf("opened a damaged file: %v", err)
	}
	losses, err := Repair(t.Context(), path, "history", testSchema, testRow)
	if err != nil || len(losses) != 1 {
		t.Fatalf("losses %q, %v", losses, err)
	}
	db := testenv.Value(Open(t.Context(), path, "history"))(t)
	defer db.Close()
	if n := testenv.Value(QueryValue[int64](t.Context(), db, "rows", `SELECT COUNT(*) FROM rows`))(t); n != testRows {
		t.Errorf("%d rows remain of %d", n, testRows)
	}
}

// TestFileOfKilledProcessIsVerified damages the database file of a killed process, and expects Open to return
// an error. The error has the repair command.
func TestFileOfKilledProcessIsVerified(t *testing.T) {
	path, _ := makeTestFile(t)
	db := testenv.Value(Open(t.Context(), path, "history"))(t)
	testenv.NoError(t, db.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO rows (id, word) VALUES (?, ?)`, -1, "last")
		return err
	}))
	content, log := testenv.Value(os.ReadFile(path))(t), testenv.Value(os.ReadFile(path+"-wal"))(t)
	testenv.NoError(t, db.Close())
	copied := filepath.Join(t.TempDir(), "history.db")
	testenv.NoError(t, errors.Join(os.WriteFile(copied, content, 0o600), os.WriteFile(copied+"-wal", log, 0o600)))
	testenv.NoError(t, Check(t.Context(), copied))
	if kept := testenv.Value(os.ReadFile(copied + "-wal"))(t); !bytes.Equal(kept, log) {
		t.Error("Check changed the write-ahead log")
	}
	copy(content[len(content)/2/4096*4096:], strings.Repeat("\xa5", 4096))
	testenv.NoError(t, errors.Join(os.WriteFile(copied, content, 0o600), os.WriteFile(copied+"-wal", log, 0o600)))
	_, err := Open(t.Context(), copied, "history")
	var said *model.Error
	if !errors.As(err, &said) || !strings.Contains(err.Error(), copied+" is damaged") || !strings.Contains(said.Hint, "muster doctor repair --data "+filepath.Dir(copied)) {
		t.Fatalf("opened a damaged file: %v", err)
	}
}

// TestLostPagesAreDamage cuts the last page of a closed database, and expects an error about damage. SQLite would read
// all pages before it. Check and Open find the damage.
func TestLostPagesAreDamage(t *testing.T) {
	path, _ := makeTestFile(t)
	info := testenv.Value(os.Stat(path))(t)
	testenv.NoError(t, os.Truncate(path, info.Size()-200))
	if fault := Check(t.Context(), path); !errors.Is(fault, ErrDamaged) {
		t.Errorf("the damage was not found: %v", fault)
	}
	var said *model.Error
	if _, err := Open(t.Context(), path, "history"); !errors.As(err, &said) || said.Class != model.Unavailable || !strings.Contains(said.Hint, "muster doctor repair --data "+filepath.Dir(path)) {
		t.Errorf("opened a damaged file: %v", err)
	}
}
